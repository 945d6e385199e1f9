"""Metrics of delivery."""

from functools import lru_cache
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

callbacks = Counter(
    "callback_http_code_count",
    "Answers of callbacks by HTTP status; `none` when there was no answer (Horizon's name).",
    ["http_code"],
)
callbacks_of: Final = lru_cache(maxsize=1_024)(callbacks.labels)
"""`callbacks` of a status, found faster than by `labels`."""

settled = Counter("meridian_settled_events", "Events with a final status.", ["status"])
settled_of: Final = lru_cache(maxsize=16)(settled.labels)
"""`settled` of a status, likewise."""

repeats = Counter("meridian_repeated_records", "Records dropped as repeats or settled before.")
retries = Counter("meridian_callback_retries", "Attempts that are to be repeated.")
in_flight = Gauge("meridian_callbacks_in_flight", "Callback requests under way.")
lanes = Gauge("meridian_lanes", "Lanes with unsettled events.")
unsettled_bytes = Gauge("meridian_unsettled_bytes", "Size of all unsettled events in memory.")
paused_partitions = Gauge(
    "meridian_paused_partitions",
    "Partitions that are not read on because a lane or the process is full.",
)
checkpoint_seconds = Histogram("meridian_checkpoint_seconds", "Duration of checkpoints.")
end_to_end_seconds = Histogram(
    "meridian_publish_to_delivered_seconds",
    "From publishing to the subscriber's answer.",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600),
)
