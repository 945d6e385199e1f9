"""`meridian listen` against a stream service that does as it is told."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from deploy.local import programs
from libs.cli import listener, listening
from libs.cli.client import Platform
from libs.cli.errors import CommandFailed
from libs.cli.event_stream import StreamEvent
from libs.cli.listener import Listener
from libs.cli.listening import Tally
from libs.cli.streams import Stream
from libs.common import http_server
from tests.conftest import free_ports

LIMIT_S = 20.0
TYPE = "orders.v1"
CLIENT = "eni--bi--dashboard"


class Broken(Exception):
    """Breaks a connection off."""


@dataclass(frozen=True)
class Ended:
    """In a script: the server says why it ends the stream."""

    reason: str


BREAK = object()
HOLD = object()
"""In a script: break the connection off; leave it open until the stream is ended."""


class Service:
    """Issuer, control and streams in one: each connection plays the next script."""

    def __init__(self) -> None:
        self.scripts: deque[list[object] | Response] = deque()
        self.requests: list[Request] = []
        self.has_subscription = True
        self.ended = asyncio.Event()
        self.after_end: list[bytes] = []
        """What is still under way when the stream is ended."""

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/auth/{path:path}", self._token, methods=["POST"]),
                Route("/v1/integration/subscriptions/{id}", self._subscription),
                Route("/v1/integration/sse/{id}/terminate", self._end, methods=["POST"]),
                Route("/v1/integration/sse/{id}", self._stream),
            ]
        )

    async def _token(self, _: Request) -> Response:
        return JSONResponse({"access_token": "t"})

    async def _subscription(self, request: Request) -> Response:
        if not self.has_subscription:
            return Response(status_code=404)
        document = {
            "kind": "subscription",
            "environment": "integration",
            "id": request.path_params["id"],
            "version": 7,
            "createdAt": "",
            "updatedAt": "",
            "owner": CLIENT,
            "spec": {"type": TYPE, "deliveryType": "server_sent_event"},
        }
        return JSONResponse(document)

    async def _end(self, _: Request) -> Response:
        self.ended.set()
        return Response()

    async def _stream(self, request: Request) -> Response:
        self.requests.append(request)
        script = self.scripts.popleft()
        if isinstance(script, Response):
            return script
        return StreamingResponse(self._play(script), media_type="text/event-stream")

    async def _play(self, script: list[object]) -> AsyncIterator[bytes]:
        yield b": open\n\n"
        for step in script:
            if step is BREAK:
                raise Broken
            if step is HOLD:
                await self.ended.wait()
                for event in self.after_end:
                    yield event
            elif callable(step):
                step()
            elif isinstance(step, Ended):
                yield f": ended {step.reason}\n\n".encode()
            else:
                yield b"id: %s\ndata: {}\n\n" % str(step).encode()


class Rig:
    """A listener and the service that it listens to."""

    def __init__(self, service: Service, platform: Platform, url: str) -> None:
        self.service = service
        self.platform = platform
        self.url = url
        self.shown: list[str] = []
        self.said: list[str] = []
        self.stop = asyncio.Event()
        self.on_event: Callable[[], None] = lambda: None
        self.listener = self._listener(None)

    def _listener(self, count: int | None) -> Listener:
        return Listener(
            platform=self.platform,
            base_url=self.url,
            stream=Stream(
                subscription_id="s1",
                client_id=CLIENT,
                event_type=TYPE,
                environment="integration",
            ),
            show=self._show,
            say=self.said.append,
            tally=Tally(wanted=count),
        )

    def _show(self, event: StreamEvent) -> None:
        self.shown.append(event.id)
        self.on_event()

    async def listen(self, *scripts: list[object] | Response, count: int | None = None) -> None:
        self.service.scripts.extend(scripts)
        self.listener = self._listener(count)
        async with asyncio.timeout(LIMIT_S):
            await self.listener.run(self.stop)


@asynccontextmanager
async def serving(service: Service, port: int) -> AsyncIterator[None]:
    stop = asyncio.Event()
    server = asyncio.ensure_future(
        http_server.serve(service.app(), host="127.0.0.1", port=port, stop=stop, drain_s=1)
    )
    try:
        yield
    finally:
        service.ended.set()
        stop.set()
        await server


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    monkeypatch.setattr(listening, "DELAY_S_MIN", 0.01)
    ports = free_ports("sse")
    url = f"http://127.0.0.1:{ports.api('sse')}"
    found = msgspec.structs.replace(
        programs.endpoints(ports, secret="s", pids={}),
        control=url,
        sse=url,
        token_endpoint=f"{url}/auth/realms/integration/token",
    )
    platform = Platform(found)
    service = Service()
    async with serving(service, ports.api("sse")):
        with platform.http:
            yield Rig(service, platform, url)


async def test_a_broken_connection_is_made_again_and_repeats_are_left_out(rig: Rig) -> None:
    await rig.listen(["a", "b", BREAK], ["b", "c", HOLD], count=3)
    assert rig.shown == ["a", "b", "c"]
    tally = rig.listener.tally
    assert (tally.repeats, tally.connections) == (1, 2)
    assert "connecting again in" in rig.said[0]
    assert rig.said[1] == "Connected again."


async def test_the_stream_is_asked_for_with_the_token_and_no_more_events_than_are_left(
    rig: Rig,
) -> None:
    await rig.listen(["a", "a", Ended("enough")], ["b", HOLD], count=2)
    assert [request.query_params["maxNumber"] for request in rig.service.requests] == ["2", "1"]
    first = rig.service.requests[0].headers
    assert first["authorization"] == "Bearer t"
    assert first["accept"] == "text/event-stream"
    assert rig.shown == ["a", "b"]


async def test_a_listener_that_was_cut_out_gives_way(rig: Rig) -> None:
    with pytest.raises(CommandFailed, match=r"Another listener.*one stream at a time.*listen"):
        await rig.listen(["a", Ended("cut_out")], ["b"])
    assert len(rig.service.requests) == 1


@pytest.mark.parametrize("farewell", [[Ended("stopping")], []])
async def test_a_service_that_stops_is_waited_for(rig: Rig, farewell: list[object]) -> None:
    await rig.listen(["a", *farewell], ["b", HOLD], count=2)
    assert rig.shown == ["a", "b"]
    assert rig.said[0].startswith("The stream service ended the stream; connecting again in")


async def test_a_changed_subscription_is_read_on_and_a_deleted_one_is_not(rig: Rig) -> None:
    def is_deleted() -> None:
        rig.service.has_subscription = False

    changed = Ended("subscription_changed")
    with pytest.raises(CommandFailed, match="was deleted"):
        await rig.listen(["a", changed], ["b", is_deleted, changed])
    assert rig.shown == ["a", "b"]
    assert rig.said[0].startswith("The subscription was changed")


async def test_a_stop_ends_the_stream_in_order_and_shows_what_was_under_way(rig: Rig) -> None:
    rig.service.after_end = [b"id: z\ndata: {}\n\n"]
    rig.on_event = rig.stop.set
    await rig.listen(["a", HOLD])
    assert rig.service.ended.is_set()
    assert rig.shown == ["a", "z"]


@pytest.mark.parametrize("status", [403, 404, 409])
async def test_a_refusal_is_told_and_not_repeated(rig: Rig, status: int) -> None:
    problem = JSONResponse({"title": "No", "detail": "Because."}, status_code=status)
    with pytest.raises(CommandFailed, match=rf"refused: No \(HTTP {status}\)[\s\S]*Because"):
        await rig.listen(problem, [])


async def test_a_busy_service_is_asked_again_even_at_first(rig: Rig) -> None:
    await rig.listen(Response(status_code=503), ["a", HOLD], count=1)
    assert rig.shown == ["a"]


async def test_pauses_grow_while_a_service_is_away_also_after_a_connection_that_lasted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "LASTING_S", 0.0)
    busy = [Response(status_code=503) for _ in range(3)]
    await rig.listen(["a", BREAK], *busy, ["b", HOLD], count=2)
    pauses = [line.rpartition(" in ")[2] for line in rig.said if "connecting again" in line]
    assert pauses == ["0.01 s.", "0.02 s.", "0.04 s.", "0.08 s."]


async def test_a_platform_that_does_not_answer_at_first_is_a_mistake(rig: Rig) -> None:
    rig.url = "http://127.0.0.1:9"
    with pytest.raises(CommandFailed, match=r"does not answer.*meridian status.*meridian up"):
        await rig.listen()
