"""The floor's own topics, on the same Kafka as the platform's."""

from typing import Final

from libs.common.topics import TopicSpec

PREFIX: Final = "bench-floor-"
PUBLISHED: Final = f"{PREFIX}published"
ACKNOWLEDGED: Final = f"{PREFIX}acknowledged"
"""As PUBLISHED, but nobody reads it: for the row that measures publishing alone."""

COPIED: Final = f"{PREFIX}copied"
STATUS: Final = f"{PREFIX}status"
LANES: Final = f"{PREFIX}lanes"

READY: Final = "ready"
"""The line by which a step of the floor says that it takes part."""


def specs() -> list[TopicSpec]:
    """All of them, with as many partitions as the embedded platform's."""
    names = (PUBLISHED, ACKNOWLEDGED, COPIED, STATUS, LANES)
    return [TopicSpec(name=name, partitions=4) for name in names]
