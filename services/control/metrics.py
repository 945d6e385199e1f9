"""Metrics of the control plane."""

from prometheus_client import Counter, Gauge, Histogram

CHANGES = Counter(
    "meridian_control_changes_total",
    "Changes that were asked for, by kind of resource and outcome: stored, unchanged or the "
    "refusal's slug.",
    ["kind", "outcome"],
)
STORE_SECONDS = Histogram(
    "meridian_control_store_seconds",
    "Time from the decision about a change until it is stored and readable here, in seconds.",
)
LEADS = Gauge("meridian_control_leads", "1 while this replica writes the table, else 0.")
FORWARDED = Counter(
    "meridian_control_forwarded_total",
    "Changes that were passed on to the leading replica.",
)
