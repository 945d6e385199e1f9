"""A long answer over a real connection: when its bytes have left the process."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from libs.common import http_server
from libs.common.http_stream import StreamingHttp, connection_of

CHUNK = b"x" * 1_000_000
CHUNKS_MAX = 200
TIMEOUT_S = 20.0

App = Callable[[Any, Any, Callable[[Any], Awaitable[None]]], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(app: App) -> AsyncIterator[int]:
    listener = http_server.bind("127.0.0.1", 0)
    stop = asyncio.Event()
    ended = asyncio.ensure_future(
        http_server.serve_on(listener, app, stop=stop, drain_s=1, protocol=StreamingHttp)
    )
    port: int = listener.getsockname()[1]
    try:
        yield port
    finally:
        stop.set()
        await ended


class Streamer:
    """Sends chunks until one is not handed over, and counts those that are."""

    def __init__(self) -> None:
        self.handed_over = 0
        self.is_blocked = asyncio.Event()
        self.ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def __call__(self, scope: Any, _: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        connection = connection_of(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _number in range(CHUNKS_MAX):
            await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
            waiting = asyncio.ensure_future(connection.handed_over())
            await asyncio.wait({waiting}, timeout=0.5)
            if not waiting.done():
                self.is_blocked.set()
            if not await waiting:
                break
            self.handed_over += 1
        self.ended.set_result(self.handed_over < CHUNKS_MAX)


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    reader, writer = await asyncio.open_connection(sock=connection, limit=65_536)
    writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    return reader, writer


async def test_what_the_kernel_does_not_take_is_not_handed_over() -> None:
    streamer = Streamer()
    async with asyncio.timeout(TIMEOUT_S), serving(streamer) as port:
        _, writer = await connect(port)
        await streamer.is_blocked.wait()
        blocked_at = streamer.handed_over
        writer.transport.abort()
        assert await streamer.ended
        assert streamer.handed_over == blocked_at


async def test_a_reader_that_goes_on_gets_everything() -> None:
    streamer = Streamer()
    async with asyncio.timeout(TIMEOUT_S), serving(streamer) as port:
        reader, writer = await connect(port)
        await streamer.is_blocked.wait()
        received = 0
        while received < CHUNKS_MAX * len(CHUNK):
            received += len(await reader.read(1_000_000))
        writer.close()
        assert not await streamer.ended
        assert streamer.handed_over == CHUNKS_MAX
