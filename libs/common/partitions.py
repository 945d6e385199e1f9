"""Places and records of Kafka as plain values, for decisions that know no client. Pure."""

from typing import NamedTuple


class Partition(NamedTuple):
    """A topic (with its prefix) and a partition number."""

    topic: str
    number: int


class ConsumedRecord(NamedTuple):
    """One record as it was read."""

    partition: Partition
    offset: int
    leader_epoch: int
    """-1 when the broker gave none."""
    key: bytes
    value: bytes | None


class CommittedOffset(NamedTuple):
    """What the group has committed for a partition: None when nothing, and the text beside it."""

    offset: int | None
    metadata: str
    low: int
    """The first offset that the broker still has."""
    high: int
    """The offset after its last record."""

    def start(self) -> int:
        """Where to go on: the committed offset if the broker still has it, else the first one."""
        if self.offset is None or not self.low <= self.offset <= self.high:
            return self.low
        return self.offset
