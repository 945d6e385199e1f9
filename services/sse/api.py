"""The HTTP API: a subscription's stream, and the end of it.

The answer's head goes out at once for `text/event-stream`, and with the first event for
`application/stream+json`, so that an idle stream can still end with 504 as Horizon's do.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Query, Request, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from libs.common import web
from libs.common.auth import TokenVerifier, bearer_token, check_realm
from libs.common.auth.identity import check_environment, environment_of
from libs.common.errors import NoEvent, NotAcceptable, NotFound, NotReady
from libs.common.http_stream import Connection, connection_of
from libs.common.ids import SubscriptionId, uuid7
from libs.common.resources import Subscription
from services.sse.domain import wire
from services.sse.domain.wire import Format, Limits
from services.sse.ports import Disconnected
from services.sse.service.stream import Ending, Wishes
from services.sse.service.streams import Streams
from services.sse.settings import SseSettings

HEADERS: Final = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
LIMIT_MAX: Final = 1_000_000_000

Bound = Annotated[int, Field(ge=0, le=LIMIT_MAX)]

_STREAM: Final[dict[str, Any]] = {
    "response_class": Response,
    "responses": {200: {"content": {form.value: {} for form in Format}}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the API is made of."""

    streams: Streams
    verifier: TokenVerifier
    not_ready: Callable[[], str | None]
    """None while streams can be opened, else why not."""


class Api:
    """The handlers."""

    def __init__(self, parts: Parts, settings: SseSettings) -> None:
        self._parts = parts
        self._settings = settings

    def app(self) -> FastAPI:
        """The ASGI app; it has to be served by `StreamingHttp`."""
        app = FastAPI(title="Meridian streams", version="1", redoc_url=None, docs_url=None)
        wishes = Depends(_wishes)

        async def stream(
            request: Request, environment: str, subscription_id: str, wished: Wishes = wishes
        ) -> Response:
            found = await self._subscription(request, subscription_id, environment=environment)
            return StreamResponse(self._parts.streams, found, wished)

        async def alias(
            request: Request, event_type: str, subscription_id: str, wished: Wishes = wishes
        ) -> Response:
            found = await self._subscription(request, subscription_id, environment=None)
            if found.spec.type.lower() != event_type.lower():
                raise NotFound(f"Subscription {subscription_id} is not one to {event_type}.")
            return StreamResponse(self._parts.streams, found, wished)

        async def terminate(request: Request, environment: str, subscription_id: str) -> Response:
            found = await self._subscription(request, subscription_id, environment=environment)
            await self._parts.streams.terminate(found)
            return Response(status_code=200)

        async def head(environment: str) -> Response:
            check_environment(environment)
            return Response(status_code=204)

        path = "/v1/{environment}/sse"
        one = f"{path}/{{subscription_id}}"
        add = app.add_api_route
        add(one, stream, methods=["GET"], summary="Streams a subscription's events", **_STREAM)
        add(
            "/horizon/sse/v1/{event_type}/{subscription_id}",
            alias,
            methods=["GET"],
            summary="The same under Horizon's path; the token's realm is the environment",
            **_STREAM,
        )
        add(f"{one}/terminate", terminate, methods=["POST"], summary="Ends the running stream")
        add(path, head, methods=["HEAD"], status_code=204, summary="Streams are served here")
        web.install(app)
        return app

    async def _subscription(
        self, request: Request, subscription_id: str, *, environment: str | None
    ) -> Subscription:
        """The subscription whose stream the caller may read.

        Raises NotReady, Unauthenticated, RealmMismatch, IssuerUnavailable, UnknownSubscription,
        NotTheSubscriber, NotAStream.
        """
        if environment is not None:
            check_environment(environment)
        reason = self._parts.not_ready()
        if reason is not None:
            raise NotReady(f"No stream can be opened here now: {reason}.")
        token = bearer_token(request.headers.get("authorization"))
        identity = await self._parts.verifier.verify(token)
        default = self._settings.default_environment
        if environment is None:
            environment = environment_of(identity, default_environment=default)
        check_realm(identity, environment=environment, default_environment=default)
        return self._parts.streams.subscription(
            SubscriptionId(subscription_id), environment=environment, client_id=identity.client_id
        )


class StreamResponse(Response):
    """The answer that is a stream."""

    def __init__(self, streams: Streams, subscription: Subscription, wishes: Wishes) -> None:
        super().__init__()
        self._streams = streams
        self._subscription = subscription
        self._wishes = wishes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Streams until something ends it; errors before the first byte are problems."""
        outlet = HttpOutlet(self._wishes.form, receive, send, connection_of(scope))
        try:
            ending = await self._streams.run(
                self._subscription, self._wishes, outlet, connection_id=uuid7()
            )
        finally:
            outlet.close()
        if not outlet.has_begun and ending is Ending.IDLE:
            raise NoEvent("No event came in time. Nothing is lost; open the stream again.")
        if not outlet.has_begun and ending is Ending.STOPPING:
            raise NotReady("This process shuts down; connect again.")
        await outlet.finish(ending)


class HttpOutlet:
    """An `Outlet` on one HTTP connection."""

    def __init__(self, form: Format, receive: Receive, send: Send, connection: Connection) -> None:
        self._form = form
        self._receive = receive
        self._send = send
        self._connection = connection
        self._watching: asyncio.Future[None] | None = None
        self.has_begun = False

    def on_gone(self, callback: Callable[[], None]) -> None:
        """As the port says."""
        self._watching = asyncio.ensure_future(self._watch(callback))

    async def begin(self) -> None:
        """As the port says."""
        self.has_begun = True
        headers = [(b"content-type", self._form.encode()), *HEADERS]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._handed_over()

    async def write(self, chunk: bytes) -> None:
        """As the port says."""
        if not self.has_begun:
            await self.begin()
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        await self._handed_over()

    async def finish(self, ending: Ending) -> None:
        """Ends the answer in good order; an event stream says why, in a comment."""
        if ending in (Ending.DISCONNECTED, Ending.TOO_SLOW):
            self._connection.abort()
            return
        if not self.has_begun:
            await self.begin()
        is_told = self._form is Format.EVENT_STREAM
        last = wire.farewell(ending) if is_told else b""
        await self._send({"type": "http.response.body", "body": last, "more_body": False})

    def close(self) -> None:
        """Watches the connection no longer."""
        if self._watching is not None:
            self._watching.cancel()

    async def _handed_over(self) -> None:
        if not await self._connection.handed_over():
            raise Disconnected

    async def _watch(self, callback: Callable[[], None]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        callback()


def _wishes(
    request: Request,
    include_http_headers: Annotated[
        bool, Query(alias="includeHttpHeaders", description="Adds the publisher's headers.")
    ] = False,
    max_number: Annotated[Bound, Query(alias="maxNumber", description="Ends after events.")] = 0,
    max_minutes: Annotated[Bound, Query(alias="maxMinutes", description="Ends after minutes.")] = 0,
    max_bytes: Annotated[Bound, Query(alias="maxBytes", description="Ends after bytes.")] = 0,
) -> Wishes:
    """What the query and the Accept header ask for; raises NotAcceptable."""
    accept = ",".join(request.headers.getlist("accept"))
    form = wire.negotiate(accept or None)
    if form is None:
        raise NotAcceptable(f"Streams are {' or '.join(Format)}; Accept allows neither.")
    limits = Limits(events=max_number, minutes=max_minutes, size_bytes=max_bytes)
    return Wishes(form=form, limits=limits, with_http_headers=include_http_headers)
