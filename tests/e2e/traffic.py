"""Publishers and subscribers for tests of a whole platform, with an account of every event."""

import asyncio
import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

import aiohttp
import msgspec
from aiohttp import web

from deploy.local.endpoints import Endpoints
from libs.common import ids

CONNECTIONS = 32
RETRY_S = 0.05
PUBLISH_S_MAX = 60.0


class _Data(msgspec.Struct):
    id: str
    data: msgspec.Raw


_decoder = msgspec.json.Decoder(_Data)


@dataclass(frozen=True, slots=True)
class Event:
    """An event to be published; `data` is what has to arrive, byte for byte."""

    id: str
    data: bytes

    def body(self, event_type: str) -> bytes:
        """The request body, with `data` as it is."""
        return b'{"specversion":"1.0","source":"/tests","type":"%s","id":"%s","data":%s}' % (
            event_type.encode(),
            self.id.encode(),
            self.data,
        )


def events(number: int, *, size_bytes: int = 1_000) -> list[Event]:
    """Events whose data a JSON library would not write in the same way again."""
    made = []
    for index in range(number):
        start = b'{ "n":%d.0,"big":12345678901234567890, "u":"\\u00fc\xc3\xbc" ,"pad":"' % index
        made.append(Event(ids.uuid7(), start + b"x" * (size_bytes - len(start) - 2) + b'"}'))
    return made


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request for an event, or one message with it on a stream."""

    event_id: str
    uuid: str
    """The platform's id of this event for this subscription; a repeat has the same."""
    at_s: float
    """Monotonic time."""


@dataclass(slots=True)
class Receiver:
    """A callback endpoint that counts what arrives, by path and event."""

    url: str = ""
    received: Counter[tuple[str, str]] = field(default_factory=Counter)
    digests: dict[tuple[str, str], bytes] = field(default_factory=dict)
    arrivals: dict[str, list[Arrival]] = field(default_factory=dict)
    """What arrived at each path, in order."""
    in_flight: int = 0
    """Requests that are being answered."""
    slow_s: float = 0.0
    """How long every 25th answer takes; the others come at once."""
    _number: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, path: str, body: bytes, uuid: str) -> None:
        """Counts an event that arrived at a path, by a request or on a stream."""
        event = _decoder.decode(body)
        key = (path, event.id)
        self.received[key] += 1
        self.digests[key] = hashlib.sha256(bytes(event.data)).digest()
        self.arrivals.setdefault(path, []).append(Arrival(event.id, uuid, time.monotonic()))
        self._changed.set()

    async def _answer(self, request: web.Request) -> web.Response:
        self.note(request.path, await request.read(), request.headers["x-meridian-uuid"])
        self._number += 1
        self.in_flight += 1
        try:
            if self.slow_s and self._number % 25 == 0:
                await asyncio.sleep(self.slow_s)
        finally:
            self.in_flight -= 1
        return web.Response(status=204)

    async def has(self, paths: Iterable[str], wanted: list[Event], *, within_s: float) -> None:
        """Returns once every event has arrived at each path; fails after a bounded time."""
        missing = {(path, event.id) for path in paths for event in wanted}
        try:
            async with asyncio.timeout(within_s):
                while missing := {key for key in missing if key not in self.received}:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{len(missing)} events did not arrive: {missing}") from None

    def check(self, path: str, wanted: list[Event]) -> None:
        """Every event once, with the same bytes of data, and nothing else."""
        arrived = Counter({event: n for (name, event), n in self.received.items() if name == path})
        assert arrived == Counter(event.id for event in wanted)
        for event in wanted:
            assert self.digests[path, event.id] == hashlib.sha256(event.data).digest()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Receiver"]:
        """The receiver, listening on a free port of loopback."""
        app = web.Application()
        app.router.add_post("/{name}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()


class Platform:
    """A client of a running platform: applies Rover files and publishes with real tokens."""

    def __init__(self, endpoints: Endpoints, session: aiohttp.ClientSession) -> None:
        self.endpoints = endpoints
        self._session = session
        self._tokens: dict[str, str] = {}

    async def token(self, client_id: str) -> str:
        """A token of the default realm."""
        if client_id not in self._tokens:
            form = {
                "grant_type": "client_credentials",
                "client_id": client_id,
                "client_secret": self.endpoints.client_secret,
            }
            async with self._session.post(self.endpoints.token_endpoint, data=form) as answer:
                self._tokens[client_id] = (await answer.json())["access_token"]
        return self._tokens[client_id]

    async def apply(self, name: str, rover: str) -> None:
        """Applies one Rover document and waits until every service has it."""
        url = f"{self.endpoints.control}/v1/{self.endpoints.environment}/rovers/{name}"
        headers = {
            "Authorization": f"Bearer {await self.token('meridian-cli')}",
            "Content-Type": "application/yaml",
        }
        async with self._session.put(
            url, data=rover, headers=headers, params={"wait": "applied"}
        ) as answer:
            assert answer.status in (200, 201), await answer.text()

    async def publish_headers(self, client_id: str) -> dict[str, str]:
        """The headers with which a client publishes one event."""
        return {
            "Authorization": f"Bearer {await self.token(client_id)}",
            "Content-Type": "application/json",
        }

    async def answer_to(self, body: bytes, headers: dict[str, str]) -> int | None:
        """The status of one publish request; None when there was no answer."""
        try:
            async with self._session.post(self.publish_url, data=body, headers=headers) as answer:
                await answer.read()
                return answer.status
        except aiohttp.ClientError:
            return None

    @property
    def publish_url(self) -> str:
        """Where events are posted to."""
        return f"{self.endpoints.publish}/v1/{self.endpoints.environment}/events"

    async def publish(self, client_id: str, event_type: str, wanted: Iterable[Event]) -> None:
        """Publishes over 32 connections; repeats what was certainly not stored."""
        headers = await self.publish_headers(client_id)
        waiting = iter(wanted)

        async def work() -> None:
            for event in waiting:
                await self._publish_one(event.body(event_type), headers)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(work())

    async def _publish_one(self, body: bytes, headers: dict[str, str]) -> None:
        async with asyncio.timeout(PUBLISH_S_MAX):
            while True:
                try:
                    async with self._session.post(
                        self.publish_url, data=body, headers=headers
                    ) as answer:
                        if answer.status == 201:
                            return
                        assert answer.status == 503, await answer.text()
                except aiohttp.ClientConnectionError:
                    pass
                await asyncio.sleep(RETRY_S)


@contextlib.asynccontextmanager
async def client(endpoints: Endpoints) -> AsyncIterator[Platform]:
    """A client of the platform."""
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Platform(endpoints, session)


def publisher_rover(name: str, event_type: str) -> str:
    """An application that exposes a type; its client id is `eni--tests--<name>`."""
    return f"""\
kind: Rover
apiVersion: tcp.ei.telekom.de/v1
metadata: {{name: {name}}}
spec:
  team: eni--tests
  zone: local
  exposures: [{{eventType: {event_type}}}]
"""


def subscriber_rover(name: str, event_type: str, callback: str | None = None) -> str:
    """An application that subscribes to a type, as a stream when it has no callback."""
    target = f"callback: {callback}" if callback else ""
    return f"""\
kind: Rover
apiVersion: tcp.ei.telekom.de/v1
metadata: {{name: {name}}}
spec:
  team: eni--tests
  zone: local
  subscriptions:
    - eventType: {event_type}
      deliveryType: {"callback" if callback else "server_sent_event"}
      payloadType: data
      {target}
"""
