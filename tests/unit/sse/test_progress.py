"""How far a stream has come: settled in any order, rebuilt from a checkpoint, never past a gap."""

from hypothesis import given
from hypothesis import strategies as st

from services.sse.domain.progress import begun

SOURCE = "topic/0"


def position(offset: int) -> tuple[int, int, str]:
    return (0, offset, "s")


def test_the_next_offset_stops_at_the_first_unsettled_record() -> None:
    progress = begun(next_offset=10, sources={})
    for offset in (10, 12, 15):
        assert progress.admit(offset, SOURCE, position(offset))
    progress.settle(12)
    assert progress.next_offset == 10
    progress.settle(10)
    assert progress.next_offset == 13
    assert progress.unsettled == 1
    assert progress.sources() == {SOURCE: position(12)}


def test_a_repeat_is_settled_by_being_one() -> None:
    progress = begun(next_offset=0, sources={SOURCE: position(5)})
    assert not progress.admit(0, SOURCE, position(5))
    assert progress.admit(1, SOURCE, position(6))
    assert not progress.admit(2, SOURCE, position(6))
    assert progress.next_offset == 1
    progress.settle(1)
    assert progress.next_offset == 3


def test_a_repeat_of_a_record_that_was_not_sent_is_one() -> None:
    """The subscription was created again before the multiplexer repeated itself."""
    progress = begun(next_offset=0, sources={})
    progress.skip(0, SOURCE, position(5))
    assert progress.next_offset == 1
    assert not progress.admit(1, SOURCE, position(5))


def test_what_is_not_the_lanes_is_passed_over_only_when_nothing_is_open() -> None:
    progress = begun(next_offset=0, sources={})
    progress.admit(4, SOURCE, position(1))
    progress.pass_over(100)
    assert progress.next_offset == 0
    progress.settle(4)
    progress.pass_over(100)
    assert progress.next_offset == 100
    progress.pass_over(50)
    assert progress.next_offset == 100


def test_it_says_when_there_is_something_new_to_write() -> None:
    progress = begun(next_offset=0, sources={})
    progress.is_changed = False
    progress.admit(0, SOURCE, position(1))
    assert not progress.is_changed
    progress.settle(0)
    assert progress.is_changed


@given(st.lists(st.integers(0, 20), max_size=40), st.data())
def test_a_stream_that_resumes_sends_what_is_not_settled_and_nothing_twice(
    positions: list[int], data: st.DataObject
) -> None:
    """`positions` is a lane's log with repeats; a crash may come anywhere."""
    highest, expected = -1, []
    for offset, number in enumerate(positions):
        if number > highest:
            highest = number
            expected.append(offset)
    first = begun(next_offset=0, sources={})
    read_to = data.draw(st.integers(0, len(positions)))
    sent = [o for o in range(read_to) if first.admit(o, SOURCE, position(positions[o]))]
    settled = data.draw(st.permutations(sent).map(lambda found: found[: len(found) // 2]))
    for offset in settled:
        first.settle(offset)
    second = begun(next_offset=first.next_offset, sources=first.sources())
    again = [
        offset
        for offset in range(first.next_offset, len(positions))
        if second.admit(offset, SOURCE, position(positions[offset]))
    ]
    assert sorted({*sent, *again}) == expected
    assert not {offset for offset in again if offset < first.next_offset}
    assert not [offset for offset in sent if offset < first.next_offset and offset not in settled]
