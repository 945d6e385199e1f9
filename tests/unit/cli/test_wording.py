"""What the command line says and sends."""

import json
from datetime import UTC, datetime

import pytest

from libs.cli import envelope, output
from libs.cli.errors import WrongUsage
from tests.unit.cli.events import command

NOW = datetime(2026, 11, 20, 10, 0, 0, 123_456, tzinfo=UTC)


def test_a_problem_is_shown_with_every_fault_and_its_place() -> None:
    body = {
        "title": "Invalid resource",
        "detail": "Nothing was applied.",
        "errors": [{"pointer": "/spec/team", "detail": "is missing"}],
    }
    said = output.problem(400, json.dumps(body).encode())
    assert said == ("Invalid resource (HTTP 400)\n  Nothing was applied.\n  /spec/team: is missing")


def test_a_detail_that_repeats_the_faults_is_not_said_twice() -> None:
    body = {
        "title": "Invalid event",
        "detail": "/id has to be a UUID; /source is missing.",
        "errors": [
            {"pointer": "/id", "detail": "has to be a UUID"},
            {"pointer": "/source", "detail": "is missing"},
        ],
    }
    said = output.problem(400, json.dumps(body).encode())
    assert said == "Invalid event (HTTP 400)\n  /id: has to be a UUID\n  /source: is missing"


def test_an_answer_that_is_no_problem_document_is_shown_shortened() -> None:
    said = output.problem(502, b"<html>" + b"x" * 5_000)
    assert said.startswith("HTTP 502 <html>")
    assert len(said) < 600


def test_an_event_is_one_line_however_large_it_is() -> None:
    event = {"type": "a.b.v1", "id": "1", "data": {"text": "x" * 5_000 + "\n"}}
    line = output.received(event, {"x-pubsub-publisher-id": "eni--a--shop"}, clock="10:00:00.123")
    assert line.startswith("10:00:00.123  a.b.v1  1  from eni--a--shop  ")
    assert len(line) < 250
    assert "\n" not in line


def test_applying_names_the_subscription_and_where_it_delivers() -> None:
    lines = output.applied(
        {
            "name": "billing",
            "environment": "integration",
            "clientId": "eni--quickstart--billing",
            "exposures": [],
            "subscriptions": [
                {"id": "5e0", "eventType": "a.b.v1", "callback": "http://127.0.0.1:9000/"}
            ],
        },
        command=command,
    )
    assert lines == [
        "billing: applied in integration as eni--quickstart--billing",
        "  subscribes to a.b.v1, delivered to http://127.0.0.1:9000/",
        "    subscription 5e0",
    ]


def test_applying_says_where_a_stream_is_read_and_how_to_listen() -> None:
    lines = output.applied(
        {
            "name": "dashboard",
            "environment": "integration",
            "clientId": "eni--quickstart--dashboard",
            "subscriptions": [
                {"id": "5e1", "eventType": "a.b.v1", "stream": "/v1/integration/sse/5e1"}
            ],
        },
        streams_url="http://127.0.0.1:8082",
        command=command,
    )
    assert lines[1:] == [
        "  subscribes to a.b.v1, read as a stream",
        "    subscription 5e1",
        "    at http://127.0.0.1:8082/v1/integration/sse/5e1",
        "    listen: ./meridian listen a.b.v1 --as eni--quickstart--dashboard",
    ]


def test_applying_passes_on_what_the_platform_has_to_say_about_it() -> None:
    lines = output.applied(
        {
            "name": "billing",
            "environment": "integration",
            "clientId": "eni--quickstart--billing",
            "notices": ["Nobody exposes a.b.v1 in integration yet."],
        },
        command=command,
    )
    assert lines[-1] == "  Note: Nobody exposes a.b.v1 in integration yet."


def test_an_envelope_is_complete() -> None:
    event = envelope.event("a.b.v1", {"n": 1}, event_id="1", source="test", now=NOW)
    assert event == {
        "specversion": "1.0",
        "id": "1",
        "type": "a.b.v1",
        "source": "test",
        "time": "2026-11-20T10:00:00.123Z",
        "datacontenttype": "application/json",
        "data": {"n": 1},
    }


def test_data_that_is_not_json_is_wrong_usage() -> None:
    with pytest.raises(WrongUsage, match="single quotes"):
        envelope.parse_data("{orderId: 1}")
