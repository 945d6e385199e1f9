"""Metrics of the multiplexer."""

from functools import lru_cache
from typing import Final

from prometheus_client import Counter, Gauge

multiplexed = Counter(
    "multiplexed_events",
    "Subscription events written, by event type (Horizon's name).",
    ["environment", "event_type", "delivery_type"],
)
routed = Counter("meridian_routed_events", "Published events finished, by outcome.", ["outcome"])
multiplexed_of: Final = lru_cache(maxsize=4_096)(multiplexed.labels)
"""`multiplexed` with its labels, found faster than by `labels`."""

routed_of: Final = lru_cache(maxsize=16)(routed.labels)
"""`routed` of an outcome, likewise."""

dead_letters = Counter("meridian_dead_letters", "Records set aside, by reason.", ["reason"])
outstanding = Gauge(
    "meridian_multiplexer_outstanding_events", "Published events whose records are in flight."
)
waiting_partitions = Gauge(
    "meridian_multiplexer_waiting_partitions",
    "Partitions that wait for the resources that their next event was published with.",
)
