"""What the HTTP services share: errors as problem documents, and bodies that are read with bounds.

`install` registers the handlers once: the platform's own errors, the framework's validation errors
(400, every fault with its pointer), its HTTP errors (404, 405 with Allow, ...), and whatever nobody
expected (500 without details).
"""

import asyncio
from collections.abc import Iterable, Mapping

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope

from libs.common import log
from libs.common.errors import (
    InvalidRequest,
    PlatformError,
    SlowBody,
    TooLarge,
    UnreadableBody,
    Violation,
)
from libs.common.http_protocol import WHOLE_BODY
from libs.common.problem import CONTENT_TYPE, Problem, framework_problem, problem

logger = log.get(__name__)


def install(app: FastAPI) -> None:
    """Makes every error of the app a problem document."""

    async def answer(request: Request, error: Exception) -> Response:
        return _answer(app.routes, request, error)

    for kind in (PlatformError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)


def _answer(routes: Iterable[BaseRoute], request: Request, error: Exception) -> Response:
    path = request.url.path
    match error:
        case PlatformError():
            return error_response(error, instance=path)
        case RequestValidationError():
            return error_response(_invalid(error), instance=path)
        case HTTPException():
            return _http_response(routes, request, error)
        case _:
            return unexpected(request, error)


async def answer_unexpected(request: Request, error: Exception) -> Response:
    """The response for what nobody expected, for an app that is no FastAPI app."""
    return unexpected(request, error)


def unexpected(request: Request, error: Exception) -> Response:
    """A problem without details; the log names the error."""
    logger.error("request.failed", path=request.url.path, error=type(error).__name__)
    return error_response(
        PlatformError("Something unexpected happened; the service's log says what."),
        instance=request.url.path,
    )


def response(found: Problem, *, headers: Mapping[str, str] | None = None) -> Response:
    """A problem as a response; `headers` come on top of its own."""
    return Response(
        found.body,
        status_code=found.status,
        media_type=CONTENT_TYPE,
        headers={**found.headers, **(headers or {})},
    )


def error_response(error: PlatformError, *, instance: str) -> Response:
    """The response for one of the platform's errors; `instance` is the path of the request."""
    return response(problem(error, instance=instance))


async def read_body(request: Request, *, bytes_max: int, timeout_s: float) -> bytes:
    """The whole body of a request; see `receive_body`."""
    return await receive_body(
        request.scope,
        request.receive,
        announced=request.headers.get("content-length", ""),
        bytes_max=bytes_max,
        timeout_s=timeout_s,
    )


async def receive_body(
    scope: Scope, receive: Receive, *, announced: str, bytes_max: int, timeout_s: float
) -> bytes:
    """The whole body. `announced` is the text of Content-Length, empty when there is none.

    A body that has arrived with its head, as most do, is taken without a timer.

    Raises TooLarge (by Content-Length before anything is read, otherwise as soon as the limit is
    passed), SlowBody when it takes longer than `timeout_s` in all, UnreadableBody when the caller
    ends the connection before the body ends.
    """
    if announced.isdecimal() and int(announced) > bytes_max:
        raise TooLarge(f"The body has {announced} bytes; at most {bytes_max} are taken.")
    if WHOLE_BODY in scope.get("extensions", ()):
        return await _receive(receive, bytes_max)
    try:
        async with asyncio.timeout(timeout_s):
            return await _receive(receive, bytes_max)
    except TimeoutError:
        raise SlowBody(f"The body did not arrive within {timeout_s:g} s.") from None


async def _receive(receive: Receive, bytes_max: int) -> bytes:
    chunks: list[bytes] = []
    size, is_whole = 0, False
    while not is_whole:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise UnreadableBody("The connection ended before the body did.")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > bytes_max:
            raise TooLarge(f"The body is longer than {bytes_max} bytes.")
        chunks.append(chunk)
        is_whole = not message.get("more_body", False)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _invalid(error: RequestValidationError) -> InvalidRequest:
    """Faults of the body have pointers into it; others begin with /path, /query or /header."""
    violations = []
    for fault in error.errors():
        place = list(fault["loc"])
        if place and place[0] == "body":
            place = place[1:]
        violations.append(Violation(_pointer(place), str(fault["msg"])))
    return InvalidRequest("The request breaks rules; see `errors`.", violations)


def _pointer(parts: Iterable[object]) -> str:
    escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in parts)
    return "".join(f"/{part}" for part in escaped)


def _http_response(routes: Iterable[BaseRoute], request: Request, error: HTTPException) -> Response:
    headers = dict(error.headers or {})
    detail = str(error.detail)
    if error.status_code == 404:
        detail = f"Nothing is served at {request.url.path}."
    elif error.status_code == 405:
        allowed = _allowed(routes, request.scope)
        if allowed:
            headers = {**_without(headers, "allow"), "Allow": allowed}
        detail = f"{request.method} is not possible here; allowed: {allowed or 'nothing'}."
    found = framework_problem(error.status_code, detail, instance=request.url.path)
    return response(found, headers=headers)


def _allowed(routes: Iterable[BaseRoute], scope: Scope) -> str:
    """All methods of the path: the framework names those of the first route only."""
    methods: set[str] = set()
    for route in routes:
        match, _ = route.matches(scope)
        if match is not Match.NONE:
            methods |= set(getattr(route, "methods", None) or ())
    return ", ".join(sorted(methods))


def _without(headers: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in headers.items() if key.lower() != name}
