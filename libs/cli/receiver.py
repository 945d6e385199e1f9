"""A receiver of callbacks, for trying things out: answers POST and HEAD, passes events on."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

BODY_BYTES_MAX: Final = 4_194_304


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One callback request."""

    path: str
    headers: dict[str, str]
    """Lower-case names."""
    event: dict[str, Any]
    """The CloudEvent; empty for a body that is no JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How the receiver answers."""

    status: int = 200
    delay_s: float = 0.0


def create(behaviour: Behaviour, on_event: Callable[[Received], None]) -> Starlette:
    """An app that answers any path; `on_event` is called before the answer is given."""

    async def receive(request: Request) -> Response:
        body = await bounded_body(request)
        on_event(
            Received(path=request.url.path, headers=dict(request.headers), event=as_event(body))
        )
        await asyncio.sleep(behaviour.delay_s)
        return Response(status_code=behaviour.status)

    async def probe(_: Request) -> Response:
        return Response(status_code=behaviour.status)

    return Starlette(
        routes=[
            Route("/{path:path}", receive, methods=["POST"]),
            Route("/{path:path}", probe, methods=["GET"]),
        ]
    )


async def bounded_body(request: Request) -> bytes:
    """The body; 413 for one over `BODY_BYTES_MAX`."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise HTTPException(413)
        parts.append(part)
    return b"".join(parts)


def as_event(body: bytes) -> dict[str, Any]:
    """The JSON object in a body, or an empty one."""
    try:
        event = json.loads(body)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
