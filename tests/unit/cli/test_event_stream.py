"""Reading server-sent events: whatever the pieces, the same events."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.cli import event_stream
from libs.cli.errors import CommandFailed
from libs.cli.event_stream import EventStreamParser, StreamEvent

LINES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20)
IDS = LINES.filter(lambda text: "\0" not in text)
EVENTS = st.lists(st.tuples(IDS, st.lists(LINES, min_size=1, max_size=3)), max_size=6)
BREAKS = st.sampled_from(["\n", "\r\n", "\r"])


def read(*pieces: bytes) -> list[StreamEvent]:
    parser = EventStreamParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@given(
    events=EVENTS,
    line_break=BREAKS,
    comment=LINES,
    bom=st.booleans(),
    cuts=st.one_of(st.lists(st.integers(0, 400), max_size=12), st.just(list(range(400)))),
)
def test_what_was_written_is_read_in_whatever_pieces_it_comes(
    events: list[tuple[str, list[str]]],
    line_break: str,
    comment: str,
    bom: bool,
    cuts: list[int],
) -> None:
    lines = [f":{comment}", "event: other", "retry: 5", ""]
    for event_id, data in events:
        lines += [f"id: {event_id}", *(f"data: {line}" for line in data), f":{comment}", ""]
    text = line_break.join([*lines, ""]) if lines else ""
    encoded = ("\ufeff" if bom else "").encode() + text.encode()
    places = sorted({0, len(encoded), *(min(cut, len(encoded)) for cut in cuts)})
    pieces = [encoded[begin:end] for begin, end in itertools.pairwise(places)]
    wanted = [StreamEvent(event_id, "\n".join(data)) for event_id, data in events]
    assert read(*pieces) == wanted


def test_one_blank_after_the_colon_belongs_to_the_format() -> None:
    assert read(b"data:a\ndata:  b\ndata\n\n") == [StreamEvent("", "a\n b\n")]


def test_an_id_holds_for_the_events_that_follow() -> None:
    assert read(b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n") == [
        StreamEvent("1", "a"),
        StreamEvent("1", "b"),
        StreamEvent("", "c"),
    ]


def test_an_event_that_has_not_ended_counts_for_nothing() -> None:
    assert read(b"id: 1\ndata: a\n") == []
    assert read(b"id: 1\n\n: keep-alive\n\n") == []


def test_an_event_is_given_as_soon_as_its_last_line_ends() -> None:
    assert read(b"data: a\r\n\r") == [StreamEvent("", "a")]
    assert read(b"data: a\r\n\r", b"\ndata: b\r\n\r\n")[1:] == [StreamEvent("", "b")]


def test_a_line_break_of_two_characters_is_one_in_two_pieces_too() -> None:
    assert read(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [StreamEvent("", "a\nb")]


def test_a_comment_says_why_the_server_ends_the_stream() -> None:
    parser = EventStreamParser()
    parser.feed(b": keep-alive\n\ndata: ended enough\n\n")
    assert parser.ended_because is None
    parser.feed(b": ended cut")
    parser.feed(b"_out\n\n")
    assert parser.ended_because == "cut_out"


@pytest.mark.parametrize("text", [b"data: " + b"x" * 50, b"data: xxxxxxxx\n" * 10])
def test_an_event_without_an_end_is_given_up(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "EVENT_CHARACTERS_MAX", 40)
    with pytest.raises(CommandFailed, match="40 characters"):
        read(text)
