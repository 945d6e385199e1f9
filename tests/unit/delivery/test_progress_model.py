"""Progress of a partition through crashes, rebalances, lost checkpoints and trimmed logs.

The machine takes any steps in any order; `progress_model` is the reference that it compares with.
"""

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from libs.common.ids import LaneId
from tests.unit.delivery.progress_model import Log, Logged, Owner, Stored, owner_of

PICKS = st.integers(0, 99)
STALLED_MAX = 2
TRIMS_MAX = 2


class Kind(StrEnum):
    """What is appended to the log."""

    CALLBACK = "CALLBACK"
    FOREIGN = "FOREIGN"
    REPEAT = "REPEAT"
    REPEAT_AS_CALLBACK = "REPEAT_AS_CALLBACK"
    REPEAT_AS_FOREIGN = "REPEAT_AS_FOREIGN"
    UNREADABLE = "UNREADABLE"
    GAP = "GAP"


class Written(NamedTuple):
    """One step of the log."""

    kind: Kind
    source: str
    lane_id: LaneId
    pick: int


WRITTEN = st.builds(
    Written,
    kind=st.sampled_from([Kind.CALLBACK] * 7 + [Kind.REPEAT] * 2 + list(Kind)),
    source=st.sampled_from(["t/0", "t/1"]),
    lane_id=st.sampled_from([LaneId("a"), LaneId("b"), LaneId("c")]),
    pick=st.integers(0, 5),
)


class Ending(StrEnum):
    """How a transaction ends, and what its writer learns."""

    WRITTEN = "WRITTEN"
    ABORTED = "ABORTED"
    UNKNOWN = "UNKNOWN"
    """It was written, and its writer was told that it was not."""


class Turn(StrEnum):
    """What happens at the end of a turn."""

    NOTHING = "NOTHING"
    BEGIN_CHECKPOINT = "BEGIN_CHECKPOINT"
    CHECKPOINT = "CHECKPOINT"
    CRASH = "CRASH"
    STALL = "STALL"
    """Another owner begins; the former one does not notice, and wakes up later."""
    HAND_OVER = "HAND_OVER"
    """An orderly one: what has not settled is aborted."""
    WAKE_UP = "WAKE_UP"
    TRIM = "TRIM"


class Work(NamedTuple):
    """What an owner does in one step."""

    reads: int
    deliveries: list[tuple[int, bool]]
    """Which record in flight is delivered, and whether its status is stored."""
    statuses: list[int]
    """Which statuses of delivered records are stored later on."""
    wait_s: float


WORK = st.builds(
    Work,
    reads=st.integers(0, 4),
    deliveries=st.lists(st.tuples(PICKS, st.booleans()), max_size=4),
    statuses=st.lists(PICKS, max_size=2),
    wait_s=st.sampled_from([0.0, 0.3, 1.0]),
)


class PartitionOwners(RuleBasedStateMachine):
    """One partition, its owner, and former owners that have not noticed yet."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.stored = Stored()
        self.owner = owner_of(self.log, self.stored)
        self.stalled: list[Owner] = []
        self.now_s = 0.0
        self.trims_left = TRIMS_MAX
        self.deliveries: Counter[int] = Counter()
        self.may_repeat: Counter[int] = Counter()
        """How often a record may come again: once for every owner that left it unsettled."""

    @initialize(records=st.lists(WRITTEN, min_size=5, max_size=15))
    def begin(self, records: list[Written]) -> None:
        for record in records:
            self.write(record)

    @rule(
        written=st.lists(WRITTEN, max_size=2),
        work=WORK,
        end=st.sampled_from([*Turn, Turn.CHECKPOINT, Turn.CHECKPOINT, Turn.CRASH]),
        ending=st.sampled_from([*Ending, Ending.WRITTEN]),
    )
    def turn(self, written: list[Written], work: Work, end: Turn, ending: Ending) -> None:
        """Records are written, the owner works, and then something happens.

        One rule for all: hypothesis leaves out some rules of a machine in most of its runs.
        """
        for record in written:
            self.write(record)
        self.do(work)
        match end:
            case Turn.BEGIN_CHECKPOINT | Turn.CHECKPOINT:
                self.checkpoint(ending, is_ended=end is Turn.CHECKPOINT)
            case Turn.CRASH | Turn.STALL | Turn.HAND_OVER:
                self.change_owner(end, ending, fetched=work.reads)
            case Turn.WAKE_UP:
                self.wake_up(work)
            case Turn.TRIM:
                self.trim(work.reads)

    @invariant()
    def checkpoints_claim_what_was_settled_and_nothing_else(self) -> None:
        self.stored.check(self.log)

    def teardown(self) -> None:
        """When nothing is left to do, nothing is left over, with the same owner or another."""
        self.end_transaction(self.owner, Ending.ABORTED)
        if len(self.log.records) % 2 or self.owner.position < self.log.low:
            self.begin_owner()
        while self.owner.to_recover:
            self.recover_one()
        while self.read_one(self.owner):
            pass
        while self.owner.in_flight:
            self.deliver_one(self.owner, 0, is_stored=False)
        while self.owner.delivered:
            self.owner.settle(chosen(self.owner.delivered, 0))
        if self.owner.begin_checkpoint(now_s=self.now_s) is not None:
            self.end_transaction(self.owner, Ending.WRITTEN)
        self.check_nothing_is_left()

    def check_nothing_is_left(self) -> None:
        self.stored.check(self.log)
        for record in self.log.kept():
            if self.log.is_to_be_delivered(record):
                assert record.offset in self.deliveries, f"never delivered: {record}"
        assert self.stored.lanes == {}
        if self.stored.progress is not None:
            assert self.stored.progress.settled_above == []
        if self.log.records:
            end = max(self.log.low, self.log.records[-1].offset + 1)
            assert (self.stored.committed or 0) >= (end if self.stored.progress else 0)

    def trim(self, records: int) -> None:
        """Rarely: a log that is trimmed all the time has nothing to deliver."""
        if self.trims_left:
            self.trims_left -= 1
            self.log.trim(records)

    def checkpoint(self, ending: Ending, *, is_ended: bool) -> None:
        """Begins a transaction unless one is open, and ends it now or some time later."""
        if self.owner.draft is None and self.owner.begin_checkpoint(now_s=self.now_s) is None:
            self.stored.check_agrees(self.owner.progress)
        if is_ended:
            self.end_transaction(self.owner, ending)

    def change_owner(self, change: Turn, ending: Ending, *, fetched: int) -> None:
        """The broker ends what transaction is open before the new owner reads."""
        former = self.owner
        if change is Turn.HAND_OVER:
            self.end_transaction(former, Ending.WRITTEN)
            former.begin_checkpoint(now_s=self.now_s, released=True)
        self.end_transaction(former, ending)
        if change is Turn.STALL:
            former.fetched_below = former.position + fetched
            self.stalled = [*self.stalled, former][-STALLED_MAX:]
        self.begin_owner()

    def wake_up(self, work: Work) -> None:
        """A former owner goes on with what it has; its checkpoint is refused."""
        if not self.stalled:
            return
        owner = self.stalled[work.reads % len(self.stalled)]
        self.read_one(owner)
        for pick, is_stored in work.deliveries[: len(owner.in_flight)]:
            self.deliver_one(owner, pick, is_stored=is_stored)
        owner.begin_checkpoint(now_s=self.now_s)
        owner.end_checkpoint(is_confirmed=False)

    def do(self, work: Work) -> None:
        """The owner reads, makes requests, and stores their outcomes in any order."""
        for _ in range(work.reads):
            self.read_one(self.owner)
            self.recover_one()
        for pick, is_stored in work.deliveries[: len(self.owner.in_flight)]:
            self.deliver_one(self.owner, pick, is_stored=is_stored)
        for pick in work.statuses[: len(self.owner.delivered)]:
            self.owner.settle(chosen(self.owner.delivered, pick))
        self.now_s += work.wait_s

    def write(self, record: Written) -> None:
        """Appends to the log."""
        readable = [one for one in self.log.records if one.sequence]
        match record.kind:
            case Kind.UNREADABLE:
                self.log.publish_unreadable()
            case Kind.GAP:
                self.log.skip_offsets(1 + record.pick)
            case Kind.REPEAT | Kind.REPEAT_AS_CALLBACK | Kind.REPEAT_AS_FOREIGN if readable:
                self.repeat(readable[-1 - record.pick % len(readable)], record.kind)
            case _:
                is_foreign = record.kind in {Kind.FOREIGN, Kind.REPEAT_AS_FOREIGN}
                self.log.publish(record.source, record.lane_id, is_foreign=is_foreign)

    def repeat(self, logged: Logged, kind: Kind) -> None:
        """A repeat; its subscription may have another delivery type by now."""
        is_foreign = logged.is_foreign if kind is Kind.REPEAT else kind is Kind.REPEAT_AS_FOREIGN
        self.log.repeat(logged, is_foreign=is_foreign)

    def recover_one(self) -> None:
        """One pending record is fetched by its offset, or is gone."""
        if not self.owner.to_recover:
            return
        offset = self.owner.to_recover.pop(0)
        if (record := self.log.at(offset)) is None:
            self.owner.forget_trimmed(offset)
        else:
            self.take(self.owner, record)

    def read_one(self, owner: Owner) -> bool:
        """False when there is nothing to read."""
        record = self.log.following(owner.position)
        if record is None:
            return False
        if owner.fetched_below is not None and record.offset >= owner.fetched_below:
            return False
        if owner.admit(record, now_s=self.now_s):
            self.take(owner, record)
        return True

    def take(self, owner: Owner, record: Logged) -> None:
        """The owner is about to deliver the record."""
        offset = record.offset
        assert offset not in owner.in_flight | owner.delivered | owner.settled, "taken twice"
        assert offset not in owner.inherited, f"settled by a former owner: {record}"
        if record.sequence is not None:
            first = self.log.first_of[record.sequence]
            assert first == offset or first < self.log.low, f"a repeat: {record}"
        owner.in_flight.add(offset)
        if owner is not self.owner:
            self.may_repeat[offset] += 1

    def deliver_one(self, owner: Owner, pick: int, *, is_stored: bool) -> None:
        offset = chosen(owner.in_flight, pick)
        owner.in_flight.discard(offset)
        owner.delivered.add(offset)
        self.deliveries[offset] += 1
        repeats = self.deliveries[offset] - 1
        assert repeats <= self.may_repeat[offset], f"delivered again without need: {offset}"
        if is_stored:
            owner.settle(offset)

    def end_transaction(self, owner: Owner, ending: Ending) -> None:
        if owner.draft is None:
            return
        if ending is not Ending.ABORTED:
            self.stored.write(owner.draft)
        owner.end_checkpoint(is_confirmed=ending is Ending.WRITTEN)

    def begin_owner(self) -> None:
        """What was in flight, or settled since the last checkpoint, may come once more."""
        self.may_repeat.update(self.owner.exposed())
        self.owner = owner_of(self.log, self.stored)


def chosen(offsets: set[int], pick: int) -> int:
    """One of the offsets."""
    return sorted(offsets)[pick % len(offsets)]


def run(*, examples: int, steps: int) -> None:
    """The same examples in every run."""
    run_state_machine_as_test(
        PartitionOwners,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=True,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            report_multiple_bugs=False,
        ),
    )


def test_a_partition_keeps_its_promises_through_any_steps() -> None:
    run(examples=150, steps=15)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_partition_keeps_its_promises_through_very_many_steps() -> None:
    run(examples=1_000, steps=40)
