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


_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFF_FFFF


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, by the partitioner that every producer uses (murmur2, positive)."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions


def murmur2(key: bytes) -> int:
    """The hash of Kafka's default partitioner, 32 bits without sign."""
    found = (_SEED ^ len(key)) & _MASK
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        block = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        block = (block ^ block >> 24) * _M & _MASK
        found = found * _M & _MASK ^ block
    if whole < len(key):
        found = (found ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    found = (found ^ found >> 13) * _M & _MASK
    return found ^ found >> 15
