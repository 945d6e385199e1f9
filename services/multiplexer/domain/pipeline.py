"""One source partition on its way through the multiplexer: what is in flight, what is finished.

Events enter in offset order. An event's routing record is due when all its outputs are acknowledged
and the routing records of all events before it have been produced. An offset may be committed when
everything before it is acknowledged, routing records included. Pure; knows neither Kafka nor time.
"""

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class InFlight:
    """One published event that is not finished."""

    offset: int
    began_at_s: float
    outputs: int
    """Outputs that are not acknowledged."""
    routing: bytes | None
    """The routing record; None when there is none to write (a dead letter)."""
    key: bytes
    is_done: bool = False


@dataclass(slots=True)
class Pipeline:
    """The events in flight of one source partition."""

    next_commit: int
    """Everything below is finished."""
    _events: deque[InFlight] = field(default_factory=deque)
    _unrouted: deque[InFlight] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self._events)

    def begin(self, event: InFlight) -> None:
        """An event enters; offsets ascend."""
        if self._events and event.offset <= self._events[-1].offset:
            raise ValueError(f"offset {event.offset} does not follow {self._events[-1].offset}")
        self._events.append(event)
        self._unrouted.append(event)

    def output_acknowledged(self, event: InFlight) -> None:
        """One more output of the event is on Kafka."""
        event.outputs -= 1

    def routing_due(self) -> list[InFlight]:
        """Events whose routing records are to be produced now, in this order; each once."""
        due = []
        while self._unrouted and self._unrouted[0].outputs == 0:
            event = self._unrouted.popleft()
            if event.routing is None:
                event.is_done = True
            else:
                due.append(event)
        self._advance()
        return due

    def routing_acknowledged(self, event: InFlight) -> None:
        """The event's routing record is on Kafka."""
        event.is_done = True
        self._advance()

    def oldest_began_at_s(self) -> float | None:
        """When the oldest event in flight began."""
        return self._events[0].began_at_s if self._events else None

    def _advance(self) -> None:
        while self._events and self._events[0].is_done:
            self.next_commit = self._events.popleft().offset + 1
