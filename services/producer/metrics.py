"""Metrics of the publish service."""

from functools import lru_cache
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

published = Counter(
    "published_events",
    "Events stored, by event types that somebody exposes or subscribes to (Horizon's name).",
    ["environment", "event_type"],
)
published_of: Final = lru_cache(maxsize=4_096)(published.labels)
"""`published` of an environment and an event type, found faster than by `labels`."""

rejected = Counter(
    "meridian_publish_rejected", "Requests answered with a problem, by its name.", ["problem"]
)
duration = Histogram(
    "meridian_publish_duration_seconds",
    "From the request's headers to Kafka's acknowledgement, for stored events.",
    buckets=(0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32),
)
in_flight = Gauge("meridian_publish_in_flight", "Requests being answered.")
body_bytes_in_flight = Gauge(
    "meridian_publish_body_bytes_in_flight", "Bytes reserved for the bodies of these requests."
)
