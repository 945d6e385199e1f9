"""The HTTP API: Rover files, exposures and subscriptions of an environment.

Each has GET (one, or a page of a list), PUT and DELETE. A replica that does not lead passes changes
on to the one that does. Errors are problem documents; `libs.common.web` makes them.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import Depends, FastAPI, Path, Query, Request, Response

from libs.common import web
from libs.common.auth import TokenVerifier, bearer_token, check_realm
from libs.common.errors import NotReady, PlatformError
from libs.common.problem import kind_of
from libs.common.resources import Kind
from services.control import metrics
from services.control.domain import answers
from services.control.domain.answers import Changed
from services.control.domain.documents import JSON_TYPE, YAML_TYPES
from services.control.domain.draft import etag
from services.control.service import Caller, Control, Sent, Target
from services.control.settings import ControlSettings

BODY_BYTES_MAX: Final = 1_048_576
LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 500

COLLECTIONS: Final = {
    "rovers": Kind.ROVER,
    "exposures": Kind.EXPOSURE,
    "subscriptions": Kind.SUBSCRIPTION,
}

Environment = Annotated[str, Path(pattern=r"^[a-z0-9-]{1,63}$", description="Name of the stage.")]
ResourceId = Annotated[str, Path(alias="id", min_length=1, max_length=253)]
Wait = Annotated[
    Literal["applied"] | None,
    Query(description="`applied`: answer once every live process has applied the change."),
]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
Cursor = Annotated[str | None, Query(max_length=1_000, description="`next` of the page before.")]


Forward = Callable[[Request, bytes], Awaitable[Response]]
"""Passes a request with its body on to the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the API is made of."""

    control: Control
    verifier: TokenVerifier
    leads: Callable[[], bool]
    is_stopping: Callable[[], bool]
    forward: Forward


class Api:
    """The handlers; one set serves all kinds of resources."""

    def __init__(self, parts: Parts, settings: ControlSettings) -> None:
        self._parts = parts
        self._settings = settings

    def app(self) -> FastAPI:
        """The ASGI app."""
        app = FastAPI(title="Meridian control", version="1", redoc_url=None, docs_url=None)
        for collection, kind in COLLECTIONS.items():
            self._serve(app, collection, kind)
        web.install(app)
        return app

    def _serve(self, app: FastAPI, collection: str, kind: Kind) -> None:
        path = f"/v1/{{environment}}/{collection}"
        caller = Depends(self._caller)

        async def listed(
            environment: Environment,
            limit: Limit = LIMIT_DEFAULT,
            cursor: Cursor = None,
            by: Caller = caller,
        ) -> Response:
            page = self._parts.control.page(kind, environment, by, limit=limit, cursor=cursor)
            items = [answers.document(resource) for resource in page.items]
            return _json({"items": items, "next": page.cursor})

        async def one(
            environment: Environment, resource_id: ResourceId, by: Caller = caller
        ) -> Response:
            target = Target(kind=kind, environment=environment, id=resource_id)
            found = self._parts.control.get(target, by)
            return _json(answers.document(found), headers={"ETag": etag(found)})

        async def put(
            request: Request,
            environment: Environment,
            resource_id: ResourceId,
            wait: Wait = None,
            by: Caller = caller,
        ) -> Response:
            target = Target(kind=kind, environment=environment, id=resource_id)
            return await self._changed(request, target, by, wait)

        async def delete(
            request: Request,
            environment: Environment,
            resource_id: ResourceId,
            wait: Wait = None,
            by: Caller = caller,
        ) -> Response:
            target = Target(kind=kind, environment=environment, id=resource_id)
            return await self._changed(request, target, by, wait)

        add = app.add_api_route
        add(path, listed, methods=["GET"], summary=f"Lists {collection}")
        add(f"{path}/{{id}}", one, methods=["GET"], summary=f"Reads one of the {collection}")
        add(
            f"{path}/{{id}}",
            put,
            methods=["PUT"],
            summary=f"Creates or replaces one of the {collection}",
            openapi_extra=_DOCUMENT,
        )
        add(
            f"{path}/{{id}}", delete, methods=["DELETE"], summary=f"Removes one of the {collection}"
        )

    async def _caller(self, request: Request, environment: Environment) -> Caller:
        """Who asks; raises Unauthenticated, or IssuerUnavailable."""
        if self._parts.is_stopping():
            raise NotReady("This process shuts down; nothing was stored.")
        identity = await self._parts.verifier.verify(
            bearer_token(request.headers.get("authorization"))
        )
        check_realm(
            identity,
            environment=environment,
            default_environment=self._settings.default_environment,
        )
        return Caller(
            client_id=identity.client_id,
            is_admin=identity.client_id in self._settings.admin_clients,
        )

    async def _changed(
        self, request: Request, target: Target, caller: Caller, wait: str | None
    ) -> Response:
        """Makes the change here, or has the leader make it."""
        body = await web.read_body(
            request, bytes_max=BODY_BYTES_MAX, timeout_s=self._settings.body_timeout_s
        )
        if not self._parts.leads():
            return await self._parts.forward(request, body)
        try:
            if request.method == "DELETE":
                response, offset = await self._delete(request, target, caller)
            else:
                response, offset = await self._put(request, target, caller, body)
        except PlatformError as error:
            metrics.CHANGES.labels(target.kind, kind_of(error).slug).inc()
            raise
        if wait is not None:
            await self._parts.control.applied(offset)
        return response

    async def _put(
        self, request: Request, target: Target, caller: Caller, body: bytes
    ) -> tuple[Response, int]:
        sent = Sent(
            body=body,
            content_type=request.headers.get("content-type", ""),
            if_match=request.headers.get("if-match"),
        )
        changed = await self._parts.control.put(target, sent, caller)
        metrics.CHANGES.labels(target.kind, _outcome(changed)).inc()
        status = 201 if changed.is_new else 200
        headers = {"ETag": etag(changed.resource)}
        return _json(changed.body, status=status, headers=headers), changed.offset

    async def _delete(
        self, request: Request, target: Target, caller: Caller
    ) -> tuple[Response, int]:
        if_match = request.headers.get("if-match")
        offset = await self._parts.control.delete(target, caller, if_match=if_match)
        metrics.CHANGES.labels(target.kind, "deleted").inc()
        return Response(status_code=204), offset


_DOCUMENT: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            media_type: {"schema": {"type": "object"}} for media_type in (*YAML_TYPES, JSON_TYPE)
        },
    }
}


def _outcome(changed: Changed) -> str:
    return "stored" if changed.is_stored else "unchanged"


def _json(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(value),
        status_code=status,
        media_type="application/json",
        headers=headers,
    )
