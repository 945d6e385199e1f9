"""Connections as they come from a network: bounds of heads, bodies and numbers, and the stop."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from libs.common import http_server
from libs.common.http_protocol import HEAD_BYTES_MAX, WHOLE_BODY, BoundedHttp

HOST = "127.0.0.1"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n"
TIMEOUT_S = 10.0


@dataclass
class Served:
    """A server whose app answers without reading the body, once `answering` is set."""

    port: int
    answering: asyncio.Event
    asked: asyncio.Queue[str]
    is_whole: asyncio.Queue[bool]
    """Whether the body of a request was there when the app began."""
    stop: asyncio.Event
    ended: asyncio.Future[None]


@contextlib.asynccontextmanager
async def serving(connections_max: int | None = None) -> AsyncIterator[Served]:
    answering, stop = asyncio.Event(), asyncio.Event()
    asked, is_whole = asyncio.Queue[str](), asyncio.Queue[bool]()
    answering.set()

    async def app(scope: Any, _: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        asked.put_nowait(scope["path"])
        is_whole.put_nowait(WHOLE_BODY in scope.get("extensions", ()))
        await answering.wait()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
        )
        await send({"type": "http.response.body", "body": b""})

    with socket.create_server((HOST, 0)) as free:
        port: int = free.getsockname()[1]
    ended = asyncio.ensure_future(
        http_server.serve(app, host=HOST, port=port, stop=stop, connections_max=connections_max)
    )
    await asyncio.sleep(0)  # its first step is to listen
    try:
        yield Served(port, answering, asked, is_whole, stop, ended)
    finally:
        stop.set()
        await ended


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def connected(served: Served) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection(HOST, served.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def exchanged(connection: Connection, raw: bytes) -> tuple[int, dict[str, str], bytes]:
    reader, writer = connection
    writer.write(raw)
    async with asyncio.timeout(TIMEOUT_S):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(head[0].split()[1]), headers, body


async def is_closed(connection: Connection) -> bool:
    async with asyncio.timeout(TIMEOUT_S):
        with contextlib.suppress(ConnectionResetError):
            return await connection[0].read() == b""
    return True


async def test_one_connection_serves_many_requests() -> None:
    async with serving() as served, connected(served) as connection:
        for _ in range(3):
            assert (await exchanged(connection, GET + b"\r\n"))[0] == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
        b"GET / HTTP/1.1\r\nbad name: v\r\n\r\n",
    ],
)
async def test_what_is_no_http_gets_a_problem_and_the_connection_ends(raw: bytes) -> None:
    async with serving() as served, connected(served) as connection:
        status, headers, body = await exchanged(connection, raw)
        assert (status, headers["content-type"]) == (400, "application/problem+json")
        assert json.loads(body)["type"] == "urn:meridian:problem:bad-request"
        assert await is_closed(connection)


async def test_a_head_over_the_limit_gets_a_problem_and_the_connection_ends() -> None:
    async with serving() as served, connected(served) as connection:
        raw = GET + b"x-long: " + b"v" * 16 * HEAD_BYTES_MAX
        status, _, body = await exchanged(connection, raw)
        assert status == 431
        assert json.loads(body)["type"] == "urn:meridian:problem:head-too-large"


async def test_large_bodies_do_not_count_as_heads() -> None:
    async with serving() as served, connected(served) as connection:
        body = b"x" * 4 * HEAD_BYTES_MAX
        raw = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        for _ in range(2):
            assert (await exchanged(connection, raw))[0] == 200


async def test_a_body_that_came_with_its_head_is_said_to_be_whole() -> None:
    head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n"
    async with serving() as served, connected(served) as connection:
        for body in (b"xx", b"x"):
            assert (await exchanged(connection, head + body))[0] == 200
        assert [await served.is_whole.get() for _ in range(2)] == [True, False]


@pytest.mark.parametrize("started", [b"", b"GET / HTT", GET], ids=["nothing", "line", "headers"])
async def test_a_head_that_does_not_come_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch, started: bytes
) -> None:
    monkeypatch.setattr(BoundedHttp, "head_timeout_s", 0.1)
    async with serving() as served, connected(served) as connection:
        connection[1].write(started)
        assert await is_closed(connection)


async def test_a_body_that_nobody_reads_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedHttp, "head_timeout_s", 0.1)
    async with serving() as served, connected(served) as connection:
        raw = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nx"
        assert (await exchanged(connection, raw))[0] == 200
        connection[1].write(b"x")
        assert await is_closed(connection)


async def test_connections_over_the_limit_get_a_problem() -> None:
    async with serving(connections_max=1) as served, connected(served) as first:
        assert (await exchanged(first, GET + b"\r\n"))[0] == 200
        async with connected(served) as second:
            status, headers, body = await exchanged(second, b"")
            assert (status, headers["retry-after"]) == (503, "1")
            assert json.loads(body)["type"] == "urn:meridian:problem:overloaded"
            assert await is_closed(second)
        assert (await exchanged(first, GET + b"\r\n"))[0] == 200


async def test_what_is_in_flight_at_the_stop_is_answered() -> None:
    async with serving() as served, connected(served) as connection:
        served.answering.clear()
        answer = asyncio.ensure_future(exchanged(connection, GET + b"\r\n"))
        await served.asked.get()
        served.stop.set()
        served.answering.set()
        assert (await answer)[0] == 200
        await served.ended
        assert await is_closed(connection)


async def test_a_taken_port_is_an_ordinary_error() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(http_server.PortTaken):
            await http_server.serve(_nobody, host=HOST, port=port, stop=asyncio.Event())


async def _nobody(_: Any, __: Any, ___: Any) -> None:
    """An app that is never asked."""
