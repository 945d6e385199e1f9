"""Formats, frames and limits of a stream."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sse.domain.wire import Format, Limits, farewell, frame, negotiate

UUID = "5c1f3a0e-6a0e-5d1b-9c89-0d6a6e1e7a52"
LINES, EVENTS = Format.JSON_LINES, Format.EVENT_STREAM


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, LINES),
        ("", LINES),
        ("*/*", LINES),
        ("application/stream+json", LINES),
        ("text/event-stream", EVENTS),
        ("Text/Event-Stream", EVENTS),
        ("text/event-stream, */*", EVENTS),
        ("text/event-stream, application/stream+json", EVENTS),
        ("application/stream+json, text/event-stream", LINES),
        ("application/stream+json;q=0.5, text/event-stream", EVENTS),
        ("text/event-stream;q=0.2, application/stream+json;q=0.3", LINES),
        ("text/*", EVENTS),
        ("application/*", LINES),
        ("text/event-stream;charset=utf-8", EVENTS),
        ("text/event-stream;q=0, */*", LINES),
        ("application/stream+json;q=0, */*", EVENTS),
        ("application/json", None),
        ("text/html, image/*;q=0.5", None),
        ("*/*;q=0", None),
        ("text/event-stream;q=much", None),
    ],
)
def test_the_format_is_the_one_that_the_consumer_prefers(
    accept: str | None, expected: Format | None
) -> None:
    assert negotiate(accept) is expected


@given(st.text(max_size=60))
def test_any_header_is_taken(accept: str) -> None:
    assert negotiate(accept) in (None, LINES, EVENTS)


EVENT = {"id": "a", "type": "t", "data": {"text": "one\ntwo", "n": [1, 2]}}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ),
    st.sampled_from([None, 0, 2]),
)
def test_a_frame_holds_the_event_whole_on_one_line(data: object, indent: int | None) -> None:
    event = {"id": "a", "data": data}
    raw = json.dumps(event, indent=indent, ensure_ascii=False).replace("\n", "\r\n").encode()
    line = frame(raw, uuid=UUID, form=LINES)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line) == event
    event_id, text, *rest = frame(raw, uuid=UUID, form=EVENTS).split(b"\n")
    assert event_id == b"id: " + UUID.encode()
    assert json.loads(text.removeprefix(b"data: ")) == event
    assert rest == [b"", b""]


def test_bytes_without_line_breaks_go_out_as_they_are() -> None:
    raw = b'{ "id" : "a", "n": 1.50 }'
    assert frame(raw, uuid=UUID, form=LINES) == raw + b"\n"


def test_headers_and_the_uuid_are_added_on_request() -> None:
    raw = json.dumps(EVENT, indent=2).encode() + b" \n"
    found = json.loads(frame(raw, uuid=UUID, form=LINES, http_headers={"x-a": ["1", "2"]}))
    assert found == {**EVENT, "httpHeaders": {"x-a": ["1", "2"], "x-pubsub-offset-id": [UUID]}}


def test_the_last_comment_is_one() -> None:
    assert farewell("cut_out") == b": ended cut_out\n\n"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), False),
        (Limits(events=5), True),
        (Limits(events=6), False),
        (Limits(minutes=1), True),
        (Limits(minutes=2), False),
        (Limits(size_bytes=1_000), True),
        (Limits(size_bytes=1_001), False),
    ],
)
def test_a_limit_is_reached_or_not(limits: Limits, expected: bool) -> None:
    assert limits.is_reached(events=5, elapsed_s=60.0, size_bytes=1_000) is expected
