"""What is settled of a partition, through any order of outcomes, crashes and restarts."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from libs.common.ids import LaneId
from libs.common.records import LaneCheckpoint, LaneRecord, PartitionProgress
from services.delivery.domain.progress import Admission, Progress, restored, runs

A, B = LaneId("a"), LaneId("b")
PENDING_AFTER_S = 1.0


def fresh(start: int = 0) -> Progress:
    return restored("subscribed-7d", 3, start=start, low=0, records=[])


def admit(progress: Progress, offset: int, lane: LaneId = A, *, now_s: float = 0.0) -> Admission:
    sequence = ("t/0", (0, offset, lane))
    return progress.admit(offset, lane, sequence=sequence, now_s=now_s)


def test_the_committed_offset_stops_at_the_first_record_in_flight() -> None:
    progress = fresh()
    for offset in range(4):
        admit(progress, offset)
    progress.settle(0)
    progress.settle(2)
    progress.advance(now_s=0.5, pending_after_s=PENDING_AFTER_S)
    found = progress.checkpoint()
    assert (found.committed, found.progress.settled_above) == (1, [(2, 1)])
    assert found.lanes == {}


def test_a_record_in_flight_for_long_becomes_pending_and_holds_nothing() -> None:
    progress = fresh()
    admit(progress, 0, A)
    admit(progress, 1, B, now_s=0.9)
    progress.settle(1)
    progress.advance(now_s=1.0, pending_after_s=PENDING_AFTER_S)
    found = progress.checkpoint()
    assert found.committed == 2
    checkpoint = found.lanes[A]
    assert checkpoint is not None
    assert (checkpoint.pending, checkpoint.next_offset) == ([0], 2)


def test_a_lane_without_pending_records_leaves_a_tombstone() -> None:
    progress = fresh()
    admit(progress, 0)
    progress.advance(now_s=2.0, pending_after_s=PENDING_AFTER_S)
    progress.checkpoint()
    progress.settle(0)
    assert progress.checkpoint().lanes == {A: None}
    assert progress.checkpoint().lanes == {}


def test_a_checkpoint_that_was_not_written_is_made_again() -> None:
    progress = fresh()
    admit(progress, 0)
    progress.advance(now_s=2.0, pending_after_s=PENDING_AFTER_S)
    lost = progress.checkpoint()
    progress.restore_changes(lost)
    assert progress.is_changed
    assert progress.checkpoint().lanes == lost.lanes


def test_a_repeat_is_skipped_also_after_a_restart() -> None:
    progress = fresh()
    assert progress.admit(0, A, sequence=("t/0", (0, 7, "a")), now_s=0) is Admission.DELIVER
    assert progress.admit(1, A, sequence=("t/0", (0, 7, "a")), now_s=0) is Admission.SKIP
    progress.settle(0)
    progress.advance(now_s=0, pending_after_s=PENDING_AFTER_S)
    found = progress.checkpoint()
    again = restored("subscribed-7d", 3, start=2, low=0, records=[found.progress])
    assert again.admit(2, A, sequence=("t/0", (0, 7, "a")), now_s=0) is Admission.SKIP
    assert again.admit(3, A, sequence=("t/0", (0, 8, "a")), now_s=0) is Admission.DELIVER


def test_pending_records_that_kafka_has_no_more_are_forgotten() -> None:
    left = LaneCheckpoint(lane_id=A, state="LIVE", next_offset=9, pending=[2, 5])
    progress = restored("subscribed-7d", 3, start=9, low=4, records=[left])
    assert progress.pending() == [5]
    progress.drop_pending([5])
    assert progress.checkpoint().lanes == {A: None}


def test_runs_join_neighbours() -> None:
    assert runs([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 1), (9, 2)]
    assert runs([]) == []


class PartitionOwners(RuleBasedStateMachine):
    """A partition with records that are delivered in any order, and owners that come and go.

    The reference is plain: a set of what was delivered, and how often.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[LaneId, int]] = []
        self.delivered: dict[int, int] = {}
        self.committed = 0
        self.lanes: dict[LaneId, LaneCheckpoint] = {}
        self.partition: PartitionProgress | None = None
        self.now_s = 0.0
        self.crashes = 0
        self.own()

    def own(self) -> None:
        records: list[LaneRecord] = [*self.lanes.values()]
        if self.partition is not None:
            records.append(self.partition)
        self.progress = restored("t", 0, start=self.committed, low=0, records=records)
        self.read_to = self.committed
        self.in_flight = set(self.progress.pending())

    @rule(lane=st.sampled_from([A, B]), repeated=st.booleans())
    def publish(self, lane: LaneId, *, repeated: bool) -> None:
        """One more record, or a repeat of the last one."""
        last = self.log[-1] if self.log else None
        self.log.append(last if repeated and last else (lane, len(self.log)))

    @precondition(lambda self: self.read_to < len(self.log))
    @rule()
    def read(self) -> None:
        lane, source_offset = self.log[self.read_to]
        sequence = ("s/0", (0, source_offset, lane))
        if (
            self.progress.admit(self.read_to, lane, sequence=sequence, now_s=self.now_s)
            is Admission.DELIVER
        ):
            self.in_flight.add(self.read_to)
        self.read_to += 1

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.in_flight)))
        self.in_flight.discard(offset)
        self.progress.settle(offset)
        source_offset = self.log[offset][1]
        self.delivered[source_offset] = self.delivered.get(source_offset, 0) + 1

    @rule(seconds=st.floats(0, 3))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @rule(written=st.booleans())
    def checkpoint(self, *, written: bool) -> None:
        self.progress.advance(now_s=self.now_s, pending_after_s=PENDING_AFTER_S)
        found = self.progress.checkpoint()
        if not written:
            self.progress.restore_changes(found)
            return
        self.committed, self.partition = found.committed, found.progress
        for lane_id, lane in found.lanes.items():
            if lane is None:
                self.lanes.pop(lane_id, None)
            else:
                self.lanes[lane_id] = lane

    @rule()
    def crash(self) -> None:
        """The next owner has only what was written."""
        self.crashes += 1
        self.own()

    @invariant()
    def the_written_offset_passes_nothing_unsettled(self) -> None:
        pending = {offset for lane in self.lanes.values() for offset in lane.pending}
        first_of: dict[int, int] = {}
        for offset, (_, source_offset) in enumerate(self.log):
            first_of.setdefault(source_offset, offset)
        for source_offset, offset in first_of.items():
            if offset < self.committed and source_offset not in self.delivered:
                assert offset in pending

    @invariant()
    def without_a_crash_nothing_is_delivered_twice(self) -> None:
        assert all(times <= 1 + self.crashes for times in self.delivered.values())

    def teardown(self) -> None:
        """An owner that finishes everything has delivered everything."""
        while self.read_to < len(self.log):
            self.read()
        for offset in sorted(self.in_flight):
            self.progress.settle(offset)
            self.delivered[self.log[offset][1]] = 1
        assert set(self.delivered) == {source_offset for _, source_offset in self.log}
        self.progress.advance(now_s=self.now_s, pending_after_s=PENDING_AFTER_S)
        found = self.progress.checkpoint()
        assert found.committed == len(self.log)
        assert found.progress.settled_above == []


TestPartitionOwners = PartitionOwners.TestCase
TestPartitionOwners.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
