"""What is read ahead for one consumer, within the bounds of the stream and of the process."""

from collections import deque
from dataclasses import dataclass, field

from libs.common.partitions import ConsumedRecord
from services.sse import metrics
from services.sse.domain.claims import Place

RESUME_SHARE = 4
"""A queue is filled again once it is below this part of its bound."""


@dataclass(slots=True)
class Budget:
    """Bytes read ahead by all streams of the process."""

    size_max: int
    size: int = 0

    def add(self, size: int) -> None:
        """Counts bytes in, or out."""
        self.size += size
        metrics.queued_bytes.set(self.size)


@dataclass(slots=True)
class ReadAhead:
    """Records of one stream that are not sent yet."""

    budget: Budget
    records_max: int
    bytes_max: int
    size: int = 0
    _records: deque[tuple[Place, ConsumedRecord]] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self._records)

    @property
    def is_low(self) -> bool:
        """True when it is time to read on."""
        return (
            len(self._records) * RESUME_SHARE <= self.records_max
            and self.size * RESUME_SHARE <= self.bytes_max
        )

    def offer(self, place: Place, record: ConsumedRecord) -> bool:
        """Takes a record when there is room; an empty queue takes any."""
        size = len(record.value or b"")
        if self._records and self._is_full(size):
            return False
        self._records.append((place, record))
        self._count(size)
        return True

    def take(self) -> tuple[Place, ConsumedRecord]:
        """The next record."""
        place, record = self._records.popleft()
        self._count(-len(record.value or b""))
        return place, record

    def clear(self) -> None:
        """Drops everything."""
        self._records.clear()
        self._count(-self.size)

    def _is_full(self, size: int) -> bool:
        return (
            len(self._records) >= self.records_max
            or self.size + size > self.bytes_max
            or self.budget.size + size > self.budget.size_max
        )

    def _count(self, size: int) -> None:
        self.size += size
        self.budget.add(size)
