"""A partition of `subscribed-*`, its checkpoints and its owners, as plain sets: the reference.

An owner holds the real `Progress`. Beside it stand sets of what it took, delivered and settled, and
every step compares the two. Offsets, lanes and outcomes are arguments; nothing here is random.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from libs.common.ids import LaneId
from libs.common.partitions import CommittedOffset
from libs.common.records import LaneCheckpoint, LaneRecord, PartitionProgress
from services.delivery.domain.progress import (
    NOBODY,
    Admission,
    Checkpoint,
    Progress,
    Sequence,
    restored,
)

PENDING_AFTER_S = 1.0
TOPIC, PARTITION = "subscribed-7d", 3


class Logged(NamedTuple):
    """A record of the partition; what nobody can read has no sequence."""

    offset: int
    lane_id: LaneId
    sequence: Sequence | None
    is_foreign: bool = False


@dataclass(slots=True)
class Log:
    """What Kafka has of the partition: offsets ascend and leave gaps."""

    records: list[Logged] = field(default_factory=list)
    low: int = 0
    high: int = 0
    first_of: dict[Sequence, int] = field(default_factory=dict)
    """The offset of every event's first record; those that follow are repeats."""
    _numbers: dict[str, int] = field(default_factory=dict)

    def publish(self, source: str, lane_id: LaneId, *, is_foreign: bool) -> None:
        """A new event of a source partition."""
        number = self._numbers[source] = self._numbers.get(source, 0) + 1
        self._append(lane_id, (source, (0, number, lane_id)), is_foreign=is_foreign)

    def repeat(self, record: Logged, *, is_foreign: bool) -> None:
        """The same event once more; its subscription may have another delivery type by now."""
        self._append(record.lane_id, record.sequence, is_foreign=is_foreign)

    def publish_unreadable(self) -> None:
        """A record that nobody can read."""
        self._append(NOBODY, None, is_foreign=False)

    def skip_offsets(self, number: int) -> None:
        """What control records of transactions leave: offsets without a record."""
        self.high += number

    def trim(self, records: int) -> None:
        """Retention removes the oldest records."""
        left = list(self.kept())[records:]
        self.low = left[0].offset if left else self.high

    def kept(self) -> Iterator[Logged]:
        """The records that Kafka still has."""
        return (record for record in self.records if record.offset >= self.low)

    def at(self, offset: int) -> Logged | None:
        """The record at an offset, unless it was trimmed."""
        return next((record for record in self.kept() if record.offset == offset), None)

    def following(self, position: int) -> Logged | None:
        """The first record at or above a position."""
        return next((record for record in self.kept() if record.offset >= position), None)

    def is_to_be_delivered(self, record: Logged) -> bool:
        """True for the first record of an event for a callback, and for an unreadable one."""
        is_first = record.sequence is None or self.first_of[record.sequence] == record.offset
        return is_first and not record.is_foreign

    def _append(self, lane_id: LaneId, sequence: Sequence | None, *, is_foreign: bool) -> None:
        if sequence is not None:
            self.first_of.setdefault(sequence, self.high)
        self.records.append(Logged(self.high, lane_id, sequence, is_foreign))
        self.high += 1


class Draft(NamedTuple):
    """A checkpoint, and what its writer had settled when it made it."""

    checkpoint: Checkpoint
    settled: frozenset[int]


@dataclass(slots=True)
class Stored:
    """The table `lanes` and the group's offset; one transaction changes both."""

    committed: int | None = None
    progress: PartitionProgress | None = None
    lanes: dict[LaneId, LaneCheckpoint] = field(default_factory=dict)
    settled: frozenset[int] = frozenset()
    """By the reference."""

    def write(self, draft: Draft) -> None:
        """A transaction was committed."""
        found = draft.checkpoint
        self.committed, self.progress, self.settled = found.committed, found.progress, draft.settled
        for lane_id, lane in found.lanes.items():
            if lane is None:
                self.lanes.pop(lane_id, None)
            else:
                self.lanes[lane_id] = lane

    def records(self) -> list[LaneRecord]:
        """What a new owner reads."""
        return [*self.lanes.values(), *([self.progress] if self.progress else [])]

    def pending(self) -> set[int]:
        """Offsets below the group's that are to be read again."""
        return {offset for lane in self.lanes.values() for offset in lane.pending}

    def claims(self, offset: int) -> bool:
        """True when a new owner would take the record for settled."""
        if self.committed is None or self.progress is None:
            return False
        above = any(first <= offset < first + n for first, n in self.progress.settled_above)
        return above or (offset < self.committed and offset not in self.pending())

    def check_agrees(self, progress: Progress) -> None:
        """An owner that has nothing to write knows what the table says."""
        if self.committed is not None:
            assert self.committed == progress.committed
        assert self.pending() == set(progress.pending())

    def check(self, log: Log) -> None:
        """What is claimed is what was settled, and nothing is held back for nothing."""
        for record in log.kept():
            if log.is_to_be_delivered(record):
                assert self.claims(record.offset) == (record.offset in self.settled), record
        runs = self.progress.settled_above if self.progress else []
        ends = [first + length for first, length in runs]
        assert all(end < run[0] for end, run in zip(ends, runs[1:], strict=False)), runs
        assert all(lane.pending for lane in self.lanes.values()), "a lane without a tombstone"
        assert all(offset < (self.committed or 0) for offset in self.pending())


@dataclass(slots=True)
class Owner:
    """A process that believes that it has the partition; `position` is what it reads next."""

    progress: Progress
    position: int
    inherited: frozenset[int]
    """What the table said was settled when this owner began."""
    to_recover: list[int]
    """Pending records of former owners that have to be fetched by offset."""
    fetched_below: int | None = None
    """What a stalled owner can still read: that which it had fetched. None for no end."""
    in_flight: set[int] = field(default_factory=set)
    delivered: set[int] = field(default_factory=set)
    """The subscriber has it, its status is not stored."""
    settled: set[int] = field(default_factory=set)
    written: frozenset[int] = frozenset()
    """What it had settled when it made the last checkpoint that was written."""
    draft: Draft | None = None
    """A checkpoint whose transaction is under way."""

    def admit(self, record: Logged, *, now_s: float) -> bool:
        """True when the record is to be delivered."""
        self.position = record.offset + 1
        if record.is_foreign and record.sequence is not None:
            self.progress.skip(record.offset, sequence=record.sequence)
            return False
        found = self.progress.admit(
            record.offset, record.lane_id, sequence=record.sequence, now_s=now_s
        )
        return found is Admission.DELIVER

    def settle(self, offset: int) -> None:
        """The final status is stored."""
        self.progress.settle(offset)
        self.delivered.discard(offset)
        self.settled.add(offset)

    def forget_trimmed(self, offset: int) -> None:
        """A pending record is not on Kafka any more."""
        self.progress.drop_pending([offset])

    def begin_checkpoint(self, *, now_s: float, released: bool = False) -> Draft | None:
        """Begins a transaction when something changed, as the service does."""
        self.progress.advance(now_s=now_s, pending_after_s=PENDING_AFTER_S)
        if not (self.progress.is_changed or released):
            return None
        checkpoint = self.progress.checkpoint(released=released)
        self.draft = Draft(checkpoint, self.inherited | self.settled)
        return self.draft

    def end_checkpoint(self, *, is_confirmed: bool) -> None:
        """The transaction ended; without a confirmation it may have been written, or not."""
        if self.draft is None:
            return
        if is_confirmed:
            self.written = self.draft.settled
        else:
            self.progress.restore_changes(self.draft.checkpoint)
        self.draft = None

    def exposed(self) -> set[int]:
        """What the next owner may deliver again: in flight, or settled since the checkpoint."""
        return self.in_flight | self.delivered | (self.settled - self.written)


def owner_of(log: Log, stored: Stored) -> Owner:
    """A new owner, as an assignment makes it."""
    found = CommittedOffset(stored.committed, "", log.low, log.high)
    progress = restored(
        TOPIC, PARTITION, start=found.start(), low=log.low, records=stored.records()
    )
    return Owner(
        progress=progress,
        position=found.start(),
        inherited=stored.settled,
        to_recover=progress.pending(),
    )
