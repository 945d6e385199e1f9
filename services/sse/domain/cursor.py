"""Who reads what: many streams over few readers, none waiting for another. Pure.

A *tail* reads one partition at its end for every stream that has come that far. A stream that is
behind has a *scan* of its own, which hands it its lane's records until it meets the tail. A stream
whose queue is full leaves the tail, remembers where, and is scanned from there once it has room.

All changes are made by one thread, so a stream meets the tail between two batches: nothing is
skipped, repeated or reordered.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from libs.common.partitions import ConsumedRecord, Partition

Sink = Callable[[ConsumedRecord], bool]
"""Takes a record over; False when there is no room for it."""


class Phase(StrEnum):
    """How a cursor gets its records."""

    BEHIND = "BEHIND"
    """It waits for a scan, or has one."""
    LIVE = "LIVE"
    FULL = "FULL"
    """It waits for room."""
    CLOSED = "CLOSED"


@dataclass(slots=True, eq=False)
class Cursor:
    """One stream's place in one lane."""

    partition: Partition
    key: bytes
    sink: Sink
    next_offset: int
    phase: Phase = Phase.BEHIND

    def offer(self, record: ConsumedRecord) -> bool:
        """Hands over a record of the lane unless it is below; False when the stream is full."""
        if record.offset < self.next_offset:
            return True
        if self.phase is Phase.FULL:
            return False
        if not self.sink(record):
            self.next_offset = record.offset
            self.phase = Phase.FULL
            return False
        self.next_offset = record.offset + 1
        return True


@dataclass(slots=True, eq=False)
class Tail:
    """One partition, read at its end."""

    partition: Partition
    next_offset: int
    cursors: dict[bytes, list[Cursor]] = field(default_factory=dict)


@dataclass(slots=True)
class Tails:
    """All tails of a process."""

    _tails: dict[Partition, Tail] = field(default_factory=dict)

    def position(self, cursor: Cursor) -> int:
        """Every record of the lane below was handed over."""
        if cursor.phase is not Phase.LIVE:
            return cursor.next_offset
        return max(cursor.next_offset, self._tails[cursor.partition].next_offset)

    def scanned(
        self, cursor: Cursor, records: Iterable[ConsumedRecord], *, position: int, is_end: bool
    ) -> Tail | None:
        """Takes over what a scan has read up to `position`, all of the cursor's lane.

        The cursor is LIVE afterwards if it has met the tail. Returns a new tail, to be read from
        its `next_offset`, when the scan is at the partition's end and nobody reads there yet.
        """
        for record in records:
            if not cursor.offer(record):
                return None
        cursor.next_offset = max(cursor.next_offset, position)
        tail = self._tails.get(cursor.partition)
        if tail is not None:
            if cursor.next_offset >= tail.next_offset:
                self._join(tail, cursor)
            return None
        if not is_end:
            return None
        tail = self._tails[cursor.partition] = Tail(cursor.partition, cursor.next_offset)
        self._join(tail, cursor)
        return tail

    def arrived(self, tail: Tail, records: Iterable[ConsumedRecord]) -> bool:
        """Takes over a batch of a tail; False when nobody reads there any longer."""
        if self._tails.get(tail.partition) is not tail:
            return False
        for record in records:
            for cursor in tail.cursors.get(record.key, ()):
                cursor.offer(record)
            tail.next_offset = max(tail.next_offset, record.offset + 1)
        for cursor in [one for found in tail.cursors.values() for one in found]:
            if cursor.phase is not Phase.LIVE:
                self._leave(tail, cursor)
        return self._is_read(tail)

    def broken(self, tail: Tail) -> list[Cursor]:
        """Gives a tail up whose records are gone; its cursors are behind from now on."""
        if self._tails.get(tail.partition) is not tail:
            return []
        del self._tails[tail.partition]
        found = [one for cursors in tail.cursors.values() for one in cursors]
        for cursor in found:
            cursor.next_offset = max(cursor.next_offset, tail.next_offset)
            cursor.phase = Phase.BEHIND
        return found

    def close(self, cursor: Cursor) -> Tail | None:
        """Ends a cursor; returns the tail that nobody reads any longer."""
        was_live = cursor.phase is Phase.LIVE
        cursor.phase = Phase.CLOSED
        if not was_live:
            return None
        tail = self._tails[cursor.partition]
        self._leave(tail, cursor)
        return None if self._is_read(tail) else tail

    def _join(self, tail: Tail, cursor: Cursor) -> None:
        cursor.phase = Phase.LIVE
        tail.cursors.setdefault(cursor.key, []).append(cursor)

    @staticmethod
    def _leave(tail: Tail, cursor: Cursor) -> None:
        readers = tail.cursors[cursor.key]
        readers.remove(cursor)
        if not readers:
            del tail.cursors[cursor.key]

    def _is_read(self, tail: Tail) -> bool:
        """Forgets a tail without readers."""
        if not tail.cursors:
            del self._tails[tail.partition]
        return bool(tail.cursors)
