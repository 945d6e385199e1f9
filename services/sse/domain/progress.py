"""How far a stream has come in one lane. Pure.

Records are admitted in offset order. `next_offset` is the lowest offset that is not settled; the
repeat filter is kept as it stands there, which is what a checkpoint stores, and at the newest
record. Reading on from `next_offset` rebuilds the second from the first.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from libs.common.records import StreamCheckpoint
from libs.common.sequences import Position, RepeatFilter


@dataclass(slots=True)
class _Entry:
    offset: int
    source: str
    position: Position
    is_settled: bool


@dataclass(slots=True)
class LaneProgress:
    """What is settled of a lane; build it with `begun`."""

    next_offset: int
    _settled: RepeatFilter
    _newest: RepeatFilter
    _entries: deque[_Entry] = field(default_factory=deque)
    _open: dict[int, _Entry] = field(default_factory=dict)
    is_changed: bool = True

    def admit(self, offset: int, source: str, position: Position) -> bool:
        """Takes in the next record; False for a repeat, which is settled by that."""
        is_new = self._newest.accept(source, position)
        entry = _Entry(offset, source, position, is_settled=not is_new)
        self._entries.append(entry)
        if is_new:
            self._open[offset] = entry
        else:
            self._advance()
        return is_new

    def skip(self, offset: int, source: str, position: Position) -> None:
        """Passes over a record that is not sent; to the repeat filter it is like any other."""
        if self.admit(offset, source, position):
            self.settle(offset)

    def settle(self, offset: int) -> None:
        """The final status of the record is on Kafka."""
        self._open.pop(offset).is_settled = True
        self._advance()

    def pass_over(self, offset: int) -> None:
        """Nothing of the lane is below the offset but what was admitted."""
        if not self._entries and offset > self.next_offset:
            self.next_offset = offset
            self.is_changed = True

    @property
    def unsettled(self) -> int:
        """Records admitted and not settled."""
        return len(self._open)

    def sources(self) -> dict[str, Position]:
        """The repeat filter at `next_offset`."""
        return self._settled.state()

    def _advance(self) -> None:
        while self._entries and self._entries[0].is_settled:
            entry = self._entries.popleft()
            self._settled.advance(entry.source, entry.position)
            self.next_offset = entry.offset + 1
            self.is_changed = True


def begun(*, next_offset: int, sources: Mapping[str, Position]) -> LaneProgress:
    """A stream that goes on from a checkpoint, or begins with an empty filter."""
    return LaneProgress(
        next_offset=next_offset, _settled=RepeatFilter(sources), _newest=RepeatFilter(sources)
    )


def resumed(checkpoint: StreamCheckpoint) -> LaneProgress:
    """A stream that goes on where another one ended."""
    return begun(next_offset=checkpoint.next_offset, sources=checkpoint.sources)
