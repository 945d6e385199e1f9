"""A publisher by the clock that does not give up: it repeats what it has no good answer for."""

import asyncio
import time
from collections.abc import Callable, Sequence

from tests.e2e.traffic import CONNECTIONS, RETRY_S, Event, Platform

ACCEPTED = frozenset({201, 202})
REFUSED = frozenset({429, 503})
"""Nothing was stored. After any other answer, and after none, the event may be stored."""
UNKNOWN = frozenset({None, 504})


class PersistentPublisher:
    """Publishes events at a rate, each until it is acknowledged, always with the same id."""

    def __init__(self, platform: Platform, events: Sequence[Event], *, rate_per_s: float) -> None:
        self._platform = platform
        self._events = events
        self.rate_per_s = rate_per_s
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._next_at_s = 0.0
        self._allowed = 0
        self._more_allowed = asyncio.Event()
        self.acknowledged: list[Event] = []
        self.repeated: set[str] = set()
        """Ids of events that were sent again although they may have been stored."""

    @property
    def is_done(self) -> bool:
        """Everything that is allowed was acknowledged."""
        return len(self.acknowledged) == self._allowed

    def allow(self, number: int) -> None:
        """Goes on until so many events of all are published; it begins with none."""
        self._allowed = number
        self._more_allowed.set()

    async def run(self, client_id: str, event_type: str) -> None:
        """Returns when every event was acknowledged."""
        headers = await self._platform.publish_headers(client_id)
        waiting = iter(enumerate(self._events))

        async def work() -> None:
            for number, event in waiting:
                await self._turn_of(number)
                await self._publish(event, event.body(event_type), headers)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(work())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Returns once something that was acknowledged makes the condition true."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def _turn_of(self, number: int) -> None:
        """Waits until the event is allowed, and its distance from the one before is kept."""
        async with self._turn:
            while number >= self._allowed:
                self._more_allowed.clear()
                await self._more_allowed.wait()
            now_s = time.monotonic()
            self._next_at_s = max(now_s, self._next_at_s + 1 / self.rate_per_s)
            await asyncio.sleep(self._next_at_s - now_s)

    async def _publish(self, event: Event, body: bytes, headers: dict[str, str]) -> None:
        while (status := await self._platform.answer_to(body, headers)) not in ACCEPTED:
            assert status in REFUSED | UNKNOWN, status
            if status in UNKNOWN:
                self.repeated.add(event.id)
            await asyncio.sleep(RETRY_S)
        self.acknowledged.append(event)
        self._changed.set()
