"""Source sequences: a reader sees every record once, whatever the writer repeats."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from libs.common.records import Source
from libs.common.sequences import Position, RepeatFilter, ascending, position_of, source_key

KEYS = ("id-a/0", "id-a/1", "id-b/0")
POSITIONS = st.tuples(
    st.integers(min_value=0, max_value=3),
    st.integers(min_value=0, max_value=8),
    st.sampled_from(["a", "b", "ä", "c1"]),
)
STREAMS = st.lists(POSITIONS, unique=True, max_size=30).map(sorted)
RUNS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)
Written = tuple[str, Position]


def with_repeats(
    key: str, stream: Sequence[Position], runs: Sequence[tuple[int, int]]
) -> list[Written]:
    """What a writer leaves that crashes after each run: it goes back, and begins once more there.

    It never goes back further than it had come, so it leaves no hole; the last run reaches the end.
    """
    reached = 0
    written: list[Written] = []
    for back, on in (*runs, (0, len(stream))):
        start = max(0, reached - back)
        end = min(len(stream), start + on)
        written += [(key, position) for position in stream[start:end]]
        reached = max(reached, end)
    return written


@st.composite
def partitions(draw: st.DrawFn) -> tuple[dict[str, list[Position]], list[Written]]:
    """Source streams, and one output partition with them interleaved and partly repeated."""
    streams = {key: draw(STREAMS) for key in KEYS}
    waiting = [with_repeats(key, stream, draw(RUNS)) for key, stream in streams.items()]
    output: list[Written] = []
    while waiting := [stream for stream in waiting if stream]:
        output.append(draw(st.sampled_from(waiting)).pop(0))
    return streams, output


@settings(max_examples=50)
@given(partitions())
def test_every_record_is_accepted_once_and_in_order(
    made: tuple[dict[str, list[Position]], list[Written]],
) -> None:
    streams, output = made
    seen = RepeatFilter()
    accepted = [(key, position) for key, position in output if seen.accept(key, position)]
    for key, stream in streams.items():
        assert [position for name, position in accepted if name == key] == stream


@settings(max_examples=50)
@given(partitions(), st.lists(st.integers(0, 200), max_size=4))
def test_a_reader_that_goes_on_from_its_saved_state_sees_nothing_twice(
    made: tuple[dict[str, list[Position]], list[Written]], stops: list[int]
) -> None:
    streams, output = made
    seen = RepeatFilter()
    accepted: list[Written] = []
    for number, (key, position) in enumerate(output):
        if number in stops:
            seen = RepeatFilter(seen.state())
        if seen.accept(key, position):
            accepted.append((key, position))
    assert sorted(accepted) == sorted((k, p) for k, stream in streams.items() for p in stream)


@settings(max_examples=50)
@given(partitions(), st.integers(0, 200), st.integers(0, 200))
def test_state_at_an_offset_and_reading_on_from_there_repeat_the_same_decisions(
    made: tuple[dict[str, list[Position]], list[Written]], saved_at: int, crashed_at: int
) -> None:
    _, output = made
    seen = RepeatFilter()
    for key, position in output[:saved_at]:
        seen.accept(key, position)
    state = seen.state()
    first = [seen.accept(key, position) for key, position in output[saved_at:crashed_at]]
    again = RepeatFilter(state)
    assert [again.accept(k, p) for k, p in output[saved_at:crashed_at]] == first


def test_looking_changes_nothing_and_positions_never_move_back() -> None:
    seen = RepeatFilter()
    assert not seen.is_repeat("k", (1, 5, "a"))
    assert seen.state() == {}
    seen.advance("k", (1, 5, "a"))
    seen.advance("k", (1, 4, "z"))
    assert seen.state() == {"k": (1, 5, "a")}
    assert seen.is_repeat("k", (1, 5, "a"))
    assert not seen.is_repeat("k", (2, 0, ""))


def test_a_state_that_was_handed_out_is_a_copy() -> None:
    seen = RepeatFilter({"k": (1, 1, "a")})
    seen.state()["k"] = (9, 9, "z")
    assert seen.accept("k", (1, 2, "a"))


def test_a_topic_that_was_created_again_starts_a_new_sequence() -> None:
    old = Source(topic_id="old", partition=3, leader_epoch=7, offset=1_200)
    new = Source(topic_id="new", partition=3, leader_epoch=0, offset=0)
    seen = RepeatFilter()
    assert seen.accept(source_key(old), position_of(old, "s"))
    assert seen.accept(source_key(new), position_of(new, "s"))
    assert source_key(old) == "old/3"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_ids_ascend_in_the_order_in_which_readers_compare_them(names: list[str]) -> None:
    ordered = ascending(names)
    assert [name.encode() for name in ordered] == sorted(name.encode() for name in names)
    assert ordered == sorted(names)
