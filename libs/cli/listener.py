"""`meridian listen` at work: reads a stream, shows each event once, connects again."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import httpx

from libs.cli import stream_client
from libs.cli.client import Platform
from libs.cli.errors import CommandFailed
from libs.cli.event_stream import StreamEvent
from libs.cli.listening import Next, Seen, Tally, after_end, delay_s
from libs.cli.stream_client import Busy, Ending, StreamAddress, Unreachable
from libs.cli.streams import Stream

LASTING_S: Final = 5.0
"""A connection that lived for so long was a good one."""

Show = Callable[[StreamEvent], None]
Say = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Listener:
    """Reads one stream until it is told to stop. All errors are CommandFailed."""

    platform: Platform
    base_url: str
    """The stream service, without a slash at its end."""
    stream: Stream
    show: Show
    say: Say
    """For all that is no event."""
    tally: Tally = field(default_factory=Tally)
    _seen: Seen = field(default_factory=Seen)
    _failures: int = 0
    """In a row, since the last connection that lasted."""

    async def run(self, stop: asyncio.Event) -> None:
        """Returns after the stop, or when all wanted events have come.

        Raises CommandFailed when the stream cannot be had at first, when it was cut off, and when
        its subscription is gone.
        """
        async with stream_client.client() as http:
            while not stop.is_set() and not self.tally.is_enough:
                try:
                    await self._connect(http, stop)
                except Unreachable as error:
                    if not self.tally.connections and not isinstance(error, Busy):
                        raise CommandFailed(self._unreachable(error)) from error
                    await self._pause(error, stop)

    async def _connect(self, http: httpx.AsyncClient, stop: asyncio.Event) -> None:
        """Reads one connection to its end; Unreachable when it is to be made again later."""
        address = StreamAddress(f"{self.base_url}{self.stream.path}", await self._token())
        async with (
            Ending(http, address, stop).around(),
            stream_client.opened(http, address, events_max=self.tally.left) as connection,
            contextlib.aclosing(connection.events()) as events,
        ):
            with self._connected():
                async for event in events:
                    self._take(event)
                    if self.tally.is_enough:
                        return  # the server sends no more than was asked for
            if not stop.is_set():
                await self._after_end(connection.ended_because)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        """Around the reading: after a connection that lasted pauses begin at the shortest."""
        self.tally.connections += 1
        if self.tally.connections > 1:
            self.say("Connected again.")
        began_s = time.monotonic()
        try:
            yield
        finally:
            if time.monotonic() - began_s > LASTING_S:
                self._failures = 0

    def _take(self, event: StreamEvent) -> None:
        if self._seen.is_new(event.id):
            self.tally.shown += 1
            self.show(event)
        else:
            self.tally.repeats += 1

    async def _after_end(self, reason: str | None) -> None:
        match after_end(reason):
            case Next.AGAIN:
                return
            case Next.LATER:
                raise Unreachable("The stream service ended the stream")
            case Next.LOOK:
                await self._look()
            case Next.GIVE_WAY:
                raise CommandFailed(self._cut_out())

    async def _look(self) -> None:
        """Raises CommandFailed when the subscription does not exist any more."""
        stream_id = self.stream.subscription_id
        try:
            present = await asyncio.to_thread(self.platform.stream, stream_id)
        except CommandFailed as error:
            raise Unreachable(str(error)) from error
        if present is None:
            raise CommandFailed(self._deleted())
        self.say("The subscription was changed; connecting again.")

    async def _token(self) -> str:
        realm = self.platform.endpoints.realm
        try:
            return await asyncio.to_thread(self.platform.token, self.stream.client_id, realm=realm)
        except CommandFailed as error:
            if not self.tally.connections:
                raise
            raise Unreachable(str(error)) from error

    async def _pause(self, error: Unreachable, stop: asyncio.Event) -> None:
        if stop.is_set():
            return
        self._failures += 1
        pause_s = delay_s(self._failures, wished_s=error.delay_s)
        reason = " ".join(str(error).split()).rstrip(".")
        self.say(f"{reason}; connecting again in {pause_s:g} s.")
        await _wait(stop, pause_s)

    def _unreachable(self, error: Unreachable) -> str:
        status, up = (self.platform.command(word) for word in ("status", "up"))
        return (
            f"{str(error).rstrip('.')}: see '{status}', and start the platform with '{up}' if it "
            "does not run."
        )

    def _cut_out(self) -> str:
        return (
            "Another listener has taken this stream over, or somebody ended it: a subscription has "
            "one stream at a time. Stopped here, so that the two do not take it from each other in "
            f"turns. To take it back: {self._again()}"
        )

    def _deleted(self) -> str:
        return (
            f"The subscription of {self.stream.client_id} to {self.stream.event_type} was deleted. "
            f"Apply it again if it is wanted, then: {self._again()}"
        )

    def _again(self) -> str:
        return self.platform.command(
            "listen", self.stream.event_type, "--as", self.stream.client_id
        )


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
