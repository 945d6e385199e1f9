"""The application: one hot route and its alias inside FastAPI, which brings the description.

Around everything stands `Traced`: it reads the headers once, for everybody, and puts the trace of
the request on each response, those of the framework included.
"""

import secrets
from collections.abc import MutableMapping
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from libs.common import trace, web
from services.producer.api.endpoint import PublishEndpoint
from services.producer.api.openapi import document

PATHS = ("/v1/{environment}/events", "/horizon/events/v1")


class _PublishApp(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """The hand-written description: the routes are plain ones that FastAPI knows nothing of."""
        return document()


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
    return Traced(app)
