"""The application: one hot route and its alias beside FastAPI, which brings the description.

A POST to the route goes straight to its endpoint: FastAPI's middleware and router would cost as
much as all that the endpoint does. Everything else, other methods of the route included, is
FastAPI's. Around everything stands `Traced`: it reads the headers once, for everybody, and puts the
trace of the request on each response, those of the framework included.
"""

import re
import secrets
from collections.abc import MutableMapping
from typing import Any, Final

from fastapi import FastAPI
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from libs.common import trace, web
from services.producer.api.endpoint import PublishEndpoint
from services.producer.api.openapi import document

PATHS: Final = ("/v1/{environment}/events", "/horizon/events/v1")
_HOT_PATH: Final = re.compile(r"(?:/v1/(?P<environment>[^/]+)/events|/horizon/events/v1)/?")
"""The same paths, and with a slash at their ends."""


class _PublishApp(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """The hand-written description: the routes are plain ones that FastAPI knows nothing of."""
        return document()


class Shortcut:
    """Hands a POST to one of the paths to the endpoint, all else to the framework."""

    def __init__(self, endpoint: PublishEndpoint, framework: ASGIApp) -> None:
        self._endpoint = endpoint
        self._framework = framework

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sets `scope["path_params"]` as the framework's router does."""
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        match = _HOT_PATH.fullmatch(scope["path"]) if is_post else None
        if match is None:
            await self._framework(scope, receive, send)
        else:
            scope["path_params"] = match.groupdict()
            await self._endpoint(scope, receive, send)


class Traced:
    """Sets `scope["meridian"]` to (header values, trace) and answers with the trace's headers."""

    def __init__(self, app: ASGIApp, new_ids: trace.NewIds = secrets.token_hex) -> None:
        self._app = app
        self._new_ids = new_ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes everything on that is not HTTP."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = header_values(scope)
        context = trace.from_headers(headers, self._new_ids)
        found = [(k.encode(), v.encode()) for k, v in context.as_response_headers().items()]

        async def traced_send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *found]
            await send(message)

        scope["meridian"] = (headers, context)
        await self._app(scope, receive, traced_send)


def header_values(scope: Scope) -> dict[str, list[str]]:
    """Lower-case names, each with its values in the order of the request."""
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return headers


def build(endpoint: PublishEndpoint) -> ASGIApp:
    """The app around its endpoint. Trailing slashes are taken."""
    app = _PublishApp(docs_url=None, redoc_url=None, redirect_slashes=False)
    web.install(app)
    for path in PATHS:
        for variant in (path, f"{path}/"):
            route = Route(variant, endpoint, methods=["POST", "HEAD"], include_in_schema=False)
            app.router.routes.append(route)
    shortcut = Shortcut(endpoint, app)
    return Traced(ServerErrorMiddleware(shortcut, handler=web.answer_unexpected))
