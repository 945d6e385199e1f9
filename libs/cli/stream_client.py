"""One connection to a stream: opens it, reads its events, ends it. Asynchronous.

An orderly end asks the server to end the stream and reads what is still under way: what a server
has sent counts as delivered, so closing the connection at once would lose it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Final

import httpx

from libs.cli import output
from libs.cli.errors import CommandFailed
from libs.cli.event_stream import EventStreamParser, StreamEvent
from libs.common.errors import TemporaryError

CONNECT_S_MAX: Final = 10.0
SILENCE_S_MAX: Final = 45.0
"""The server says something every 15 s; after so long the connection is given up."""

BUSY: Final = frozenset({429, 502, 503, 504})

REST_S_MAX: Final = 3.0
"""Longest wait for what is still under way when a stream is ended."""


class Unreachable(TemporaryError):
    """The stream cannot be had just now, or broke off."""


class Busy(Unreachable):
    """The service asks for a later attempt, after `delay_s` if it says when."""


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """A stream of one subscription, and the token for it."""

    url: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        """What every request to it carries."""
        return {"Authorization": f"Bearer {self.token}"}


def client() -> httpx.AsyncClient:
    """A client whose connections notice silence."""
    timeout = httpx.Timeout(CONNECT_S_MAX, read=SILENCE_S_MAX)
    return httpx.AsyncClient(timeout=timeout, trust_env=False)


class Connection:
    """An open stream."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._parser = EventStreamParser()

    @property
    def ended_because(self) -> str | None:
        """Why the server ended the stream; None when it has not, or did not say."""
        return self._parser.ended_because

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """The events, until the server ends the stream. Once; raises Unreachable when it breaks."""
        try:
            async for chunk in self._response.aiter_bytes():
                for event in self._parser.feed(chunk):
                    yield event
        except httpx.HTTPError as error:
            raise _broken("The connection broke", error) from error


@contextlib.asynccontextmanager
async def opened(
    http: httpx.AsyncClient, address: StreamAddress, *, events_max: int | None = None
) -> AsyncIterator[Connection]:
    """A new connection.

    With `events_max` it brings no more than so many. Raises Unreachable, Busy, and CommandFailed
    for a request that the server refuses.
    """
    params = {} if events_max is None else {"maxNumber": str(events_max)}
    headers = {**address.headers, "Accept": "text/event-stream"}
    try:
        request = http.build_request("GET", address.url, params=params, headers=headers)
        response = await http.send(request, stream=True)
    except httpx.HTTPError as error:
        raise _broken(f"{address.url} does not answer", error) from error
    try:
        if response.status_code != 200:
            raise await _refusal(response)
        yield Connection(response)
    finally:
        await response.aclose()


async def end(http: httpx.AsyncClient, address: StreamAddress) -> None:
    """Asks the server to end the stream; nothing is said about one that cannot be asked."""
    with contextlib.suppress(httpx.HTTPError):
        await http.post(f"{address.url}/terminate", headers=address.headers, timeout=REST_S_MAX)


class Ending:
    """Ends a stream in order, once `stop` is set; a context around the reading of one."""

    def __init__(
        self, http: httpx.AsyncClient, address: StreamAddress, stop: asyncio.Event
    ) -> None:
        self._http = http
        self._address = address
        self._stop = stop

    @contextlib.asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        """The body is broken off REST_S_MAX after the stop, without an error."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as scope:
                ending = asyncio.ensure_future(self._run(scope))
                try:
                    yield
                finally:
                    ending.cancel()

    async def _run(self, scope: asyncio.Timeout) -> None:
        await self._stop.wait()
        scope.reschedule(asyncio.get_running_loop().time() + REST_S_MAX)
        await end(self._http, self._address)


async def _refusal(response: httpx.Response) -> Exception:
    try:
        said = output.problem(response.status_code, await response.aread())
    except httpx.HTTPError as error:
        return _broken("The connection broke", error)
    if response.status_code in BUSY:
        wished = response.headers.get("retry-after", "")
        return Busy(said, delay_s=float(wished) if wished.isdecimal() else None)
    return CommandFailed(f"The stream was refused: {said}")


def _broken(what: str, error: httpx.HTTPError) -> Unreachable:
    return Unreachable(f"{what} ({error or type(error).__name__})")
