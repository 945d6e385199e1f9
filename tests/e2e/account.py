"""The account of a run with blows: what was lost, repeated and delayed, and by which blow. Pure."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.e2e.traffic import Arrival

SECOND_S = 1.0


@dataclass(frozen=True, slots=True)
class Blow:
    """Something that was done to a process."""

    name: str
    at_s: float
    """Monotonic time."""
    in_flight: int
    """Requests that receivers were answering at this moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What was seen from outside."""

    sent: set[str]
    """Ids of all events that were acknowledged to the publisher."""
    repeated_by_publisher: set[str]
    """Ids of events that it sent again, not knowing whether they were stored: each of these may be
    stored more than once, with a uuid of its own each time."""
    partitions: Mapping[str, int]
    """Partition of `published` by event id."""
    arrivals: Mapping[str, Sequence[Arrival]]
    """What arrived at each receiver, in order."""
    blows: Sequence[Blow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one blow did until the next."""

    name: str
    repeats: int
    repeats_max: int
    """In flight at the blow, and delivered in the second before."""
    silence_s: Mapping[int, float]
    """The longest time without an arrival, for each partition."""

    @property
    def silence_s_max(self) -> float:
        """The longest silence of any partition."""
        return max(self.silence_s.values(), default=0.0)


def lost(run: Run) -> dict[str, set[str]]:
    """Events that a receiver never had, by receiver; receivers that have all are left out."""
    missing = {
        name: run.sent - {one.event_id for one in found} for name, found in run.arrivals.items()
    }
    return {name: found for name, found in missing.items() if found}


def stored_twice(run: Run) -> set[str]:
    """Events that arrived with more than one uuid at a receiver."""
    found: set[str] = set()
    for arrivals in run.arrivals.values():
        uuids: dict[str, str] = {}
        for one in arrivals:
            if uuids.setdefault(one.event_id, one.uuid) != one.uuid:
                found.add(one.event_id)
    return found


def repeats(run: Run) -> list[Arrival]:
    """Arrivals whose uuid the receiver had before, in the order of time."""
    found = []
    for arrivals in run.arrivals.values():
        seen: set[str] = set()
        for one in arrivals:
            if one.uuid in seen:
                found.append(one)
            seen.add(one.uuid)
    return sorted(found, key=lambda one: one.at_s)


def effects(run: Run) -> list[Effect]:
    """What each blow did, in their order."""
    repeated = [one.at_s for one in repeats(run)]
    everything = sorted(one.at_s for found in run.arrivals.values() for one in found)
    return [
        Effect(
            name=blow.name,
            repeats=_between(repeated, blow.at_s, until_s),
            repeats_max=blow.in_flight + _between(everything, blow.at_s - SECOND_S, blow.at_s),
            silence_s=_silence_s(run, blow.at_s, until_s),
        )
        for blow, until_s in _windows(run.blows)
    ]


def as_figures(run: Run) -> dict[str, Any]:
    """The account as data, for a file and for people."""
    return {
        "events": len(run.sent),
        "received": {name: len(found) for name, found in run.arrivals.items()},
        "lost": {name: len(found) for name, found in lost(run).items()},
        "repeatedByPublisher": len(run.repeated_by_publisher),
        "storedTwice": len(stored_twice(run)),
        "blows": [
            {
                "name": effect.name,
                "repeats": effect.repeats,
                "repeatsMax": effect.repeats_max,
                "silenceS": {str(p): round(s, 2) for p, s in sorted(effect.silence_s.items())},
            }
            for effect in effects(run)
        ],
    }


def _windows(blows: Sequence[Blow]) -> Iterator[tuple[Blow, float]]:
    """Each blow with the time of the next."""
    yield from ((blow, following.at_s) for blow, following in pairwise(blows))
    if blows:
        yield blows[-1], float("inf")


def _between(ascending: Sequence[float], from_s: float, until_s: float) -> int:
    return bisect_left(ascending, until_s) - bisect_left(ascending, from_s)


def _silence_s(run: Run, from_s: float, until_s: float) -> dict[int, float]:
    """The longest gap between two arrivals of each partition; the first gap begins at `from_s`."""
    times: dict[int, list[float]] = {number: [from_s] for number in set(run.partitions.values())}
    for found in run.arrivals.values():
        for one in found:
            if from_s <= one.at_s < until_s:
                times[run.partitions[one.event_id]].append(one.at_s)
    return {
        number: max((b - a for a, b in pairwise(sorted(found))), default=0.0)
        for number, found in times.items()
    }
