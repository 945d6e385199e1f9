"""The topics of the platform: names, partitions, cleanup. Services never create topics.

Partition counts of `subscribed-*` and `lanes` are fixed at creation: a lane's place depends on
them.
"""

from dataclasses import dataclass, field
from typing import Final

RETENTION_CLASSES: Final = ("1h", "1d", "3d", "5d", "7d")
RETENTION_CLASS_DEFAULT: Final = "7d"
RETENTION_S: Final = {"1h": 3_600, "1d": 86_400, "3d": 259_200, "5d": 432_000, "7d": 604_800}

PUBLISHED: Final = "published"
ROUTED: Final = "routed"
STATUS: Final = "status"
SIGNALS: Final = "signals"
RESOURCES: Final = "resources"
CIRCUITS: Final = "circuits"
LANES: Final = "lanes"
STREAMS: Final = "streams"
INSTANCES: Final = "instances"
METRICS: Final = "metrics"
DEAD_LETTERS: Final = "dead-letters"

RECORD_BYTES_MAX: Final = 2_097_152
"""`max.message.bytes` of every topic and `message.max.bytes` of every producer."""

PUBLISHED_BYTES_MAX: Final = 1_310_720
"""Largest PublishedEvent; leaves room for what the multiplexer adds."""

COPIED_BYTES_MAX: Final = 1_572_864
"""Largest event, with headers and fields, that is copied to subscriptions.

Decided before producing. What a copy adds has room below `RECORD_BYTES_MAX`.
"""

_DAY_MS: Final = 86_400_000


def subscribed(retention_class: str) -> str:
    """The topic of a retention class, e.g. `subscribed-7d`."""
    return f"subscribed-{retention_class}"


SUBSCRIBED: Final = tuple(subscribed(name) for name in RETENTION_CLASSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic to be created; `config` holds Kafka's topic properties."""

    name: str
    partitions: int
    config: dict[str, str] = field(default_factory=dict)


def topic_specs(*, prefix: str = "", embedded: bool = False) -> list[TopicSpec]:
    """All topics of one platform, with the embedded or the default partition counts."""
    wide, narrow = (4, 1) if embedded else (16, 4)
    compacted = {
        "cleanup.policy": "compact",
        "segment.bytes": "16777216",
        "min.cleanable.dirty.ratio": "0.1",
    }

    def spec(name: str, partitions: int, config: dict[str, str]) -> TopicSpec:
        merged = {"max.message.bytes": str(RECORD_BYTES_MAX), **config}
        return TopicSpec(name=prefix + name, partitions=partitions, config=merged)

    def deleted_after(days: int) -> dict[str, str]:
        return {"cleanup.policy": "delete", "retention.ms": str(days * _DAY_MS)}

    subscribed_specs = [
        spec(
            subscribed(name),
            wide,
            {"cleanup.policy": "delete", "retention.ms": str(seconds * 1000)},
        )
        for name, seconds in RETENTION_S.items()
    ]
    return [
        spec(PUBLISHED, wide, deleted_after(7)),
        *subscribed_specs,
        spec(ROUTED, wide, deleted_after(8)),
        spec(STATUS, wide, deleted_after(8)),
        spec(SIGNALS, narrow, deleted_after(1)),
        spec(RESOURCES, 1, compacted),
        spec(CIRCUITS, narrow, compacted),
        spec(LANES, wide, compacted),
        spec(STREAMS, wide, compacted),
        spec(INSTANCES, 1, compacted),
        spec(METRICS, narrow, compacted),
        spec(DEAD_LETTERS, narrow, deleted_after(7)),
    ]
