"""What is settled of one partition: the committed offset, and what is above it. Pure.

Records are admitted in offset order and settled in any order. `committed` is the lowest offset that
is neither settled nor pending. A record that is in flight for longer than a bound becomes *pending*
of its lane and stops holding the committed offset. The lane's checkpoint names its pending offsets:
after a restart they are read again, while everything else below `committed` is not.

The repeat filter is kept twice: as it stands at `committed`, which is what a checkpoint stores, and
at the newest admitted record. Reading on from `committed` rebuilds the second from the first.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

from libs.common.ids import LaneId
from libs.common.records import LaneCheckpoint, LaneRecord, PartitionProgress
from libs.common.sequences import Position, RepeatFilter

LIVE = "LIVE"

Sequence = tuple[str, Position]
"""Source key and position of a record; what nobody can read has none."""


NOBODY = LaneId("nobody")
"""The lane of records that belong to no subscription, such as those that nobody can read."""


class Admission(StrEnum):
    """What to do with a record."""

    DELIVER = "DELIVER"
    SKIP = "SKIP"
    """It is settled already, or a repeat."""


@dataclass(slots=True)
class _Entry:
    offset: int
    lane_id: LaneId
    admitted_at_s: float
    sequence: Sequence | None
    is_settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What is written in one transaction: the offset to commit, and the records of `lanes`."""

    committed: int
    progress: PartitionProgress
    lanes: Mapping[LaneId, LaneCheckpoint | None]
    """None is a tombstone: the lane has nothing pending any longer."""


@dataclass(slots=True)
class Progress:
    """The state of one partition; build it with `restored`."""

    topic: str
    partition: int
    committed: int
    _at_committed: RepeatFilter
    _at_newest: RepeatFilter
    _settled_before: deque[int]
    """Offsets that a former owner settled and that were not read again yet, ascending."""
    _pending: dict[LaneId, set[int]]
    _entries: deque[_Entry] = field(default_factory=deque)
    _open: dict[int, _Entry] = field(default_factory=dict)
    _lane_of_pending: dict[int, LaneId] = field(default_factory=dict)
    _changed_lanes: set[LaneId] = field(default_factory=set)
    is_changed: bool = False

    def admit(
        self, offset: int, lane_id: LaneId, *, sequence: Sequence | None, now_s: float
    ) -> Admission:
        """Takes in the next record; offsets ascend."""
        is_new = sequence is None or self._at_newest.accept(*sequence)
        is_settled = self._was_settled(offset) or not is_new
        entry = _Entry(offset, lane_id, now_s, sequence, is_settled)
        self._entries.append(entry)
        self.is_changed = True
        if is_settled:
            return Admission.SKIP
        self._open[offset] = entry
        return Admission.DELIVER

    def skip(self, offset: int, *, sequence: Sequence) -> None:
        """Passes over a record that others deliver; to the repeat filter it is like any other."""
        self._at_newest.advance(*sequence)
        self._was_settled(offset)
        self._entries.append(_Entry(offset, NOBODY, 0.0, sequence, is_settled=True))
        self.is_changed = True

    def settle(self, offset: int) -> None:
        """The final status of the record is on Kafka."""
        self.is_changed = True
        entry = self._open.pop(offset, None)
        if entry is not None:
            entry.is_settled = True
            return
        lane_id = self._lane_of_pending.pop(offset)
        self._pending[lane_id].discard(offset)
        self._changed_lanes.add(lane_id)

    def pending(self) -> list[int]:
        """All pending offsets, ascending."""
        return sorted(self._lane_of_pending)

    def drop_pending(self, offsets: Iterable[int]) -> None:
        """Forgets pending records that Kafka does not have any more."""
        for offset in offsets:
            if offset in self._lane_of_pending:
                self.settle(offset)

    def advance(self, *, now_s: float, pending_after_s: float) -> None:
        """Moves `committed` past what is settled and past what is in flight for too long."""
        while self._entries:
            entry = self._entries[0]
            if not entry.is_settled:
                if now_s - entry.admitted_at_s < pending_after_s:
                    break
                self._make_pending(entry)
            self._entries.popleft()
            self.committed = entry.offset + 1
            self.is_changed = True
            if entry.sequence is not None:
                self._at_committed.advance(*entry.sequence)

    def checkpoint(self, *, released: bool = False) -> Checkpoint:
        """What to write now; marks everything as unchanged."""
        changed, self._changed_lanes = self._changed_lanes, set()
        self.is_changed = False
        settled = (entry.offset for entry in self._entries if entry.is_settled)
        return Checkpoint(
            committed=self.committed,
            progress=PartitionProgress(
                topic=self.topic,
                partition=self.partition,
                committed=self.committed,
                settled_above=runs(chain(settled, self._settled_before)),
                sources=self._at_committed.state(),
                released=released,
            ),
            lanes={lane_id: self._lane_checkpoint(lane_id) for lane_id in sorted(changed)},
        )

    def restore_changes(self, checkpoint: Checkpoint) -> None:
        """The checkpoint was not written: everything in it is changed still."""
        self.is_changed = True
        self._changed_lanes |= set(checkpoint.lanes)

    def _was_settled(self, offset: int) -> bool:
        """True when a former owner settled the record; what lies below it comes no more."""
        before = self._settled_before
        while before and before[0] < offset:
            before.popleft()
        if not before or before[0] != offset:
            return False
        before.popleft()
        return True

    def _make_pending(self, entry: _Entry) -> None:
        del self._open[entry.offset]
        self._pending.setdefault(entry.lane_id, set()).add(entry.offset)
        self._lane_of_pending[entry.offset] = entry.lane_id
        self._changed_lanes.add(entry.lane_id)

    def _lane_checkpoint(self, lane_id: LaneId) -> LaneCheckpoint | None:
        pending = self._pending.get(lane_id)
        if not pending:
            self._pending.pop(lane_id, None)
            return None
        return LaneCheckpoint(
            lane_id=lane_id, state=LIVE, next_offset=self.committed, pending=sorted(pending)
        )


def restored(
    topic: str, partition: int, *, start: int, low: int, records: Iterable[LaneRecord]
) -> Progress:
    """The partition as the last owner left it, to be read from `start`.

    `low` is the first offset that Kafka still has: what is pending below it is gone.
    """
    filters: dict[str, Position] = {}
    settled: list[int] = []
    pending: dict[LaneId, set[int]] = {}
    changed: set[LaneId] = set()
    is_moved = False
    for record in records:
        match record:
            case PartitionProgress():
                is_moved = record.committed != start
                filters = dict(record.sources)
                settled = [o for first, n in record.settled_above for o in range(first, first + n)]
            case LaneCheckpoint():
                lane_id = LaneId(record.lane_id)
                pending[lane_id] = {offset for offset in record.pending if offset >= low}
                if len(pending[lane_id]) != len(record.pending):
                    changed.add(lane_id)
    return Progress(
        topic=topic,
        partition=partition,
        committed=start,
        _at_committed=RepeatFilter(filters),
        _at_newest=RepeatFilter(filters),
        _settled_before=deque(offset for offset in settled if offset >= start),
        _pending=pending,
        _lane_of_pending={offset: lane for lane, found in pending.items() for offset in found},
        _changed_lanes=changed,
        is_changed=is_moved or bool(changed),
    )


def runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending offsets as [first, length] of each run without a gap."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and offset == found[-1][0] + found[-1][1]:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((offset, 1))
    return found
