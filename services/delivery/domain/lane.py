"""One subscription's events in one partition, waiting for their callbacks. Pure.

`order: none`: up to `concurrency` attempts at once; an event that waits for its next attempt holds
nobody else back, unless the subscriber asked for a pause (`Retry-After`), which slows the lane.
"""

from collections import deque
from dataclasses import dataclass, field

from libs.common.ids import LaneId
from libs.common.records import Coordinates, EventHead, SubscriptionEvent


@dataclass(slots=True, eq=False)
class Job:
    """One event on its way to its subscriber."""

    lane_id: LaneId
    coordinates: Coordinates
    event: SubscriptionEvent
    head: EventHead
    size_bytes: int
    published_at_s: float
    """Seconds since the epoch."""
    attempts: int = 0


@dataclass(slots=True)
class Lane:
    """The unsettled events of a lane: ready, in flight, waiting for a retry or for their status."""

    lane_id: LaneId
    ready: deque[Job] = field(default_factory=deque)
    in_flight: int = 0
    unsettled: int = 0
    not_before_s: float = 0.0
    """No attempt starts earlier (monotonic seconds)."""

    def add(self, job: Job) -> None:
        """A new event at the end."""
        self.ready.append(job)
        self.unsettled += 1

    def take(self, *, concurrency: int, now_s: float) -> Job | None:
        """The next event to be attempted now, if one may be."""
        if not self.ready or self.in_flight >= concurrency or now_s < self.not_before_s:
            return None
        self.in_flight += 1
        return self.ready.popleft()

    def slow_down(self, until_s: float) -> None:
        """Holds the whole lane back; never shortens an earlier wish."""
        self.not_before_s = max(self.not_before_s, until_s)
