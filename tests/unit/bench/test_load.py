"""The generator's events and requests."""

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import load
from bench.load import Plan, Requests


@given(
    run=st.integers(min_value=0, max_value=load.RUN_MAX),
    sequence=st.integers(min_value=0, max_value=load.SEQUENCE_MAX),
)
def test_an_id_is_a_uuid_and_tells_its_run_and_number(run: int, sequence: int) -> None:
    text = load.event_id(run, sequence)
    assert str(uuid.UUID(text)) == text
    assert uuid.UUID(text).version == 4
    assert load.parsed_id(text) == (run, sequence)


@pytest.mark.parametrize("text", ["", "x" * 36, "018f3c1e-7a52-7bd0-9c1f-2f6d1c1a9b10"])
def test_a_foreign_id_is_told_apart(text: str) -> None:
    with pytest.raises(ValueError, match=r"id|invalid"):
        load.parsed_id(text)


def test_a_number_that_does_not_fit_an_id_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        load.event_id(load.RUN_MAX + 1, 0)


def test_a_body_has_exactly_the_size_that_was_asked_for() -> None:
    body = load.body("bench.a.v1", 1_024)
    assert len(body.encode()) == 1_024
    assert json.loads(body)["type"] == "bench.a.v1"


def test_a_body_that_is_too_small_for_an_event_is_refused() -> None:
    with pytest.raises(ValueError, match="at least"):
        load.body("bench.a.v1", 10)


def test_a_request_announces_its_length_and_carries_the_id_once() -> None:
    plan = Plan(
        host="127.0.0.1",
        port=1,
        path="/events",
        headers={"Authorization": "Bearer x"},
        event_type="bench.a.v1",
        run=7,
        body_bytes=500,
        connections=1,
        duration_s=1.0,
    )
    head, _, body = Requests(plan).of(42).decode().partition("\r\n\r\n")
    lines = head.split("\r\n")
    assert lines[0] == "POST /events HTTP/1.1"
    assert {"Host: 127.0.0.1:1", "Authorization: Bearer x", "Content-Length: 500"} <= set(lines)
    assert len(body) == 500
    assert json.loads(body)["id"] == load.event_id(7, 42)
