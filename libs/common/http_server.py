"""An ASGI app served inside a process that owns its signals.

uvicorn would install signal handlers and end the process when a port is taken; here the stop event
ends the server, requests in flight are answered first, and a taken port is an ordinary error.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from libs.common.errors import PermanentError
from libs.common.http_protocol import BoundedHttp

KEEP_ALIVE_S = 65
BACKLOG = 2048


class PortTaken(PermanentError):
    """Another process listens on the port."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; raises PortTaken when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise PortTaken(f"{host}:{port} cannot be listened on: {error.strerror}") from error


async def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    stop: asyncio.Event,
    drain_s: float = 15.0,
    connections_max: int | None = None,
) -> None:
    """Serves until `stop` is set, then answers what is in flight for at most `drain_s` seconds.

    Connections over `connections_max` are told 503 and closed. Raises PortTaken.
    """
    with bind(host, port) as listener:
        await serve_on(listener, app, stop=stop, drain_s=drain_s, connections_max=connections_max)


async def serve_on(
    listener: socket.socket,
    app: ASGIApp,
    *,
    stop: asyncio.Event,
    drain_s: float = 15.0,
    connections_max: int | None = None,
    protocol: type[BoundedHttp] = BoundedHttp,
) -> None:
    """As `serve`, on a socket of `bind`: whoever connects from then on is answered."""
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        interface="asgi3",
        proxy_headers=False,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(drain_s),
        limit_concurrency=connections_max,
    )
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    finally:
        stopping.cancel()
        serving.cancel()
