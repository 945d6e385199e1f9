"""Metrics of the stream service."""

from functools import lru_cache
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

open_streams = Gauge("open_sse_connections", "Streams that are open (Horizon's name).")
sent = Counter(
    "sent_sse_events",
    "Events sent to consumers (Horizon's name).",
    ["environment", "event_type"],
)
sent_of: Final = lru_cache(maxsize=4_096)(sent.labels)
"""`sent` of an environment and type, found faster than by `labels`."""

ended = Counter("meridian_ended_streams", "Streams that ended, by why.", ["reason"])
repeats = Counter("meridian_stream_repeats", "Records dropped as repeats.")
expired = Counter("meridian_stream_expired_events", "Events that nobody read in time.")
queued_bytes = Gauge("meridian_stream_queued_bytes", "Size of the events read ahead.")
unstored = Gauge("meridian_stream_unstored_events", "Events sent, not yet recorded as delivered.")
behind = Gauge("meridian_streams_behind", "Streams that wait for a reader, or have one.")
end_to_end_seconds = Histogram(
    "meridian_publish_to_streamed_seconds",
    "From publishing to the consumer's connection.",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600),
)
