"""The course of a demo: which events were stored, where they arrived and when."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

SHOWN = 3
"""So many arrivals of the stream are shown one by one."""


@dataclass(slots=True)
class Course:
    """What has happened to the events so far, by their ids; times are monotonic seconds."""

    expected: int
    sent_at_s: dict[str, float] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    called_at_s: dict[str, float] = field(default_factory=dict)
    """First arrivals at the callback."""
    streamed_at_s: dict[str, float] = field(default_factory=dict)
    """First arrivals on the stream."""
    refusals: list[str] = field(default_factory=list)
    load: float = 0.0
    """Processes that were running or waiting for a processor, on average over the last minute."""
    all_arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def called(self, event_id: str, *, at_s: float) -> bool:
        """Notes an arrival at the callback; False for a repeat and for an event of another run."""
        return self._arrived(self.called_at_s, event_id, at_s)

    def streamed(self, event_id: str, *, at_s: float) -> bool:
        """Notes an arrival on the stream; False as for `called`."""
        return self._arrived(self.streamed_at_s, event_id, at_s)

    def _arrived(self, place: dict[str, float], event_id: str, at_s: float) -> bool:
        if event_id not in self.sent_at_s or event_id in place:
            return False
        place[event_id] = at_s
        if not any(self.missing()):
            self.all_arrived.set()
        return True

    def missing(self) -> tuple[int, int]:
        """How many events have not come to the callback, and not to the stream."""
        return self.expected - len(self.called_at_s), self.expected - len(self.streamed_at_s)

    def failure(self) -> str | None:
        """What is missing in the end, in words; None when everything arrived at both."""
        places = zip(self.missing(), ("at the callback", "on the stream"), strict=True)
        said = " and ".join(f"{number} {place}" for number, place in places if number)
        return f"Events did not arrive: {said}." if said else None


def report(course: Course, *, cores: int) -> Iterator[str]:
    """What came of it, for a person; times run from just before the publish request."""
    yield f"Published and stored on Kafka:  {len(course.stored)} of {course.expected}"
    yield f"Delivered to the callback:      {_arrivals(course, course.called_at_s)}"
    yield f"Read from the stream:           {_arrivals(course, course.streamed_at_s)}"
    if course.load > cores:
        busy = f"load {course.load:.1f} on {cores} cores, so these times are long"
        yield f"The machine was busy:           {busy}"


def _arrivals(course: Course, place: dict[str, float]) -> str:
    counted = f"{len(place)} of {course.expected}"
    if not place:
        return counted
    times_ms = sorted(
        (at_s - course.sent_at_s[event_id]) * 1_000 for event_id, at_s in place.items()
    )
    p50, p95 = percentile(times_ms, 50), percentile(times_ms, 95)
    return f"{counted}, p50 {p50:.1f} ms, p95 {p95:.1f} ms after publishing"


def percentile(ascending: Sequence[float], percent: int) -> float:
    """Nearest-rank percentile of at least one value."""
    return ascending[max(0, -(-len(ascending) * percent // 100) - 1)]
