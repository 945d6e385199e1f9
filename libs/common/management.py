"""The management port of every service: /livez, /readyz and /metrics.

Readiness is a set of named checks, one line each in the answer:
`{"ready": false, "checks": {"resources": "reading, 12 of 40", "kafka": "ok"}}`.
"""

import asyncio
from collections.abc import Callable

import msgspec
import prometheus_client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from libs.common import http_server

Check = Callable[[], str | None]
"""Returns None when all is well, otherwise what is missing, in words."""


class Readiness:
    """The checks of one process. Not ready from the moment that `stop` is set."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Adds a dependency; names are unique."""
        if name in self._checks:
            raise ValueError(f"readiness check {name} exists")
        self._checks[name] = check

    def report(self) -> tuple[bool, dict[str, str]]:
        """Whether the process is ready, and one line per dependency."""
        lines = {name: check() or "ok" for name, check in self._checks.items()}
        if self._stop.is_set():
            lines["process"] = "stopping"
        return all(line == "ok" for line in lines.values()), lines

    def is_ready(self) -> bool:
        """True when every check passes and nobody asked the process to stop."""
        return self.report()[0]


def app(readiness: Readiness) -> Starlette:
    """The management app."""

    async def livez(_: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    async def readyz(_: Request) -> Response:
        ready, lines = readiness.report()
        body = msgspec.json.encode({"ready": ready, "checks": lines})
        return Response(body, status_code=200 if ready else 503, media_type="application/json")

    async def metrics(_: Request) -> Response:
        return Response(
            prometheus_client.generate_latest(), media_type=prometheus_client.CONTENT_TYPE_LATEST
        )

    return Starlette(
        routes=[Route("/livez", livez), Route("/readyz", readyz), Route("/metrics", metrics)]
    )


async def serve(readiness: Readiness, *, host: str, port: int) -> None:
    """Serves the management port until cancelled."""
    await http_server.serve(app(readiness), host=host, port=port, stop=asyncio.Event(), drain_s=1)
