"""What is settled of a partition, case by case; `test_progress_model` takes any steps."""

from libs.common.ids import LaneId
from libs.common.records import LaneCheckpoint, PartitionProgress
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


def test_a_repeat_of_a_record_that_others_deliver_is_skipped_also_after_a_restart() -> None:
    """The subscription's delivery type changed before the multiplexer repeated itself."""
    progress = fresh()
    progress.skip(0, sequence=("t/0", (0, 7, "a")))
    assert progress.admit(1, A, sequence=("t/0", (0, 7, "a")), now_s=0) is Admission.SKIP
    progress.advance(now_s=0, pending_after_s=PENDING_AFTER_S)
    found = progress.checkpoint()
    again = restored("subscribed-7d", 3, start=2, low=0, records=[found.progress])
    assert again.admit(2, A, sequence=("t/0", (0, 7, "a")), now_s=0) is Admission.SKIP


def test_what_was_settled_stays_settled_when_two_owners_follow_at_once() -> None:
    """The second one writes a checkpoint before it has read that far again."""
    progress = fresh()
    for offset in range(4):
        admit(progress, offset)
    progress.settle(1)
    progress.settle(3)
    first = progress.checkpoint()
    second = restored("subscribed-7d", 3, start=0, low=0, records=[first.progress])
    admit(second, 0)
    found = second.checkpoint()
    assert found.progress.settled_above == [(1, 1), (3, 1)]
    third = restored("subscribed-7d", 3, start=0, low=0, records=[found.progress])
    admissions = [admit(third, offset) for offset in range(4)]
    assert admissions == [
        Admission.DELIVER,
        Admission.SKIP,
        Admission.DELIVER,
        Admission.SKIP,
    ]


def test_pending_records_that_kafka_has_no_more_are_forgotten() -> None:
    left = LaneCheckpoint(lane_id=A, state="LIVE", next_offset=9, pending=[2, 5])
    progress = restored("subscribed-7d", 3, start=9, low=4, records=[left])
    assert progress.pending() == [5]
    progress.drop_pending([5])
    assert progress.checkpoint().lanes == {A: None}


def test_pending_records_that_were_trimmed_are_a_change_to_be_written() -> None:
    left = LaneCheckpoint(lane_id=A, state="LIVE", next_offset=9, pending=[2])
    progress = restored("subscribed-7d", 3, start=9, low=4, records=[left])
    assert progress.is_changed
    assert progress.checkpoint().lanes == {A: None}
    assert not restored("subscribed-7d", 3, start=9, low=2, records=[left]).is_changed


def test_a_start_behind_what_was_trimmed_is_a_change_to_be_written() -> None:
    left = PartitionProgress(
        topic="subscribed-7d", partition=3, committed=5, settled_above=[(6, 3)], sources={}
    )
    progress = restored("subscribed-7d", 3, start=8, low=8, records=[left])
    assert progress.is_changed
    assert not restored("subscribed-7d", 3, start=5, low=0, records=[left]).is_changed


def test_a_record_that_becomes_pending_is_a_change_to_be_written() -> None:
    progress = fresh()
    admit(progress, 0)
    progress.checkpoint()
    progress.advance(now_s=0.5, pending_after_s=PENDING_AFTER_S)
    assert not progress.is_changed
    progress.advance(now_s=1.0, pending_after_s=PENDING_AFTER_S)
    assert progress.is_changed


def test_runs_join_neighbours() -> None:
    assert runs([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 1), (9, 2)]
    assert runs([]) == []
