"""What the generator is told and what it reports, and the events that it sends. Pure."""

import json
from typing import Final

import msgspec

RUN_MAX: Final = 0xFFFF_FFFF
SEQUENCE_MAX: Final = 0xFFFF_FFFF_FFFF
_PLACE: Final = "00000000-0000-4000-8000-000000000000"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the generator, as it reads it from its standard input."""

    host: str
    port: int
    path: str
    headers: dict[str, str]
    """Beside Host, Content-Type and Content-Length."""
    event_type: str
    run: int
    """Stands in every event's id, so that a sink can tell runs apart."""
    body_bytes: int
    connections: int
    duration_s: float
    rate: float | None = None
    """Requests a second by the clock; None: each connection sends as soon as it has an answer."""
    answers_s_max: float = 15.0
    """Longest wait for answers after the last request."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a plan, by the event's number; times of the monotonic clock."""

    start_ns: int
    sent_ns: list[int]
    answered_ns: list[int]
    """0 for a request without an answer."""
    statuses: dict[int, int]
    """Answers by HTTP status."""
    cpu_s: float


def event_id(run: int, sequence: int) -> str:
    """A UUID (by its form version 4) that holds the run and the event's number."""
    if not (0 <= run <= RUN_MAX and 0 <= sequence <= SEQUENCE_MAX):
        raise ValueError(f"run {run} or number {sequence} does not fit into an id")
    return f"{run:08x}-0000-4000-8000-{sequence:012x}"


def parsed_id(text: str) -> tuple[int, int]:
    """Run and number in an event's id; raises ValueError for any other text."""
    run, sequence = int(text[:8], 16), int(text[-12:], 16)
    if event_id(run, sequence) != text:
        raise ValueError(f"{text!r} is no id of a benchmark's event")
    return run, sequence


def body(event_type: str, size: int) -> str:
    """A CloudEvent of `size` bytes, with the id of run 0 and number 0."""
    event = {
        "specversion": "1.0",
        "id": _PLACE,
        "type": event_type,
        "source": "bench",
        "datacontenttype": "application/json",
        "data": {"order": {"number": 1, "state": "CREATED", "total": 12.5}, "note": ""},
    }
    empty = json.dumps(event, separators=(",", ":"))
    if size < len(empty):
        raise ValueError(f"an event has at least {len(empty)} bytes")
    return empty.replace('"note":""', f'"note":"{"x" * (size - len(empty))}"')


class Requests:
    """The requests of a plan, ready to be written to a connection."""

    def __init__(self, plan: Plan) -> None:
        before, after = body(plan.event_type, plan.body_bytes).split(_PLACE)
        headers = {
            "Host": f"{plan.host}:{plan.port}",
            "Content-Type": "application/json",
            "Content-Length": str(plan.body_bytes),
            **plan.headers,
        }
        lines = [f"POST {plan.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        self._before = "\r\n".join([*lines, "", before]).encode()
        self._after = after.encode()
        self._run = plan.run

    def of(self, sequence: int) -> bytes:
        """Head and body of one request."""
        return self._before + event_id(self._run, sequence).encode() + self._after
