"""The one hot route, as a plain ASGI application: no framework object is made per event.

Order of the checks, cheapest and most decisive first; a caller without a valid token costs neither
a body nor a parser: environment name, readiness, requests in flight, token, realm, content type,
length, body, fields, size of the data, event type, ownership, Kafka.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send

from libs.common import problem, web
from libs.common.auth.identity import check_environment
from libs.common.clock import Clock, to_text
from libs.common.errors import NotReady, PlatformError, SlowBody
from libs.common.trace import TraceContext
from services.producer import metrics
from services.producer.domain import content
from services.producer.domain.content import Headers
from services.producer.service import Acceptance, Admission, Caller, Publisher, Submission

DISCARDED_BYTES_MAX: Final = 67_108_864
"""A longer body that nobody reads is not waited for: the connection ends with the answer."""

_NOT_ANNOUNCED: Final = ("",)

NotReadyReason = Callable[[], str | None]
"""None while the service takes events, else why it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one body."""

    body_bytes_max: int
    body_timeout_s: float


class _Passage:
    """What one request holds, and has done, on its way."""

    def __init__(self) -> None:
        self.reserved = 0
        self.is_body_read = False


class PublishEndpoint:
    """Takes one event a request. `scope["meridian"]` holds its header values and its trace."""

    def __init__(
        self,
        publisher: Publisher,
        admission: Admission,
        *,
        limits: Limits,
        not_ready: NotReadyReason,
        clock: Clock,
    ) -> None:
        self._publisher = publisher
        self._admission = admission
        self._limits = limits
        self._not_ready = not_ready
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; every error of the platform as its problem document."""
        if scope["method"] == "HEAD":
            timestamp = to_text(self._clock()).encode()
            await answer(send, 204, [(b"x-health-check-timestamp", timestamp)])
            return
        passage = _Passage()
        started_s = time.perf_counter()
        try:
            acceptance = await self._admitted(scope, receive, passage)
        except PlatformError as error:
            await self._refuse(scope, send, error, passage)
            return
        metrics.duration.observe(time.perf_counter() - started_s)
        await _accept(scope, send, acceptance)

    async def _admitted(self, scope: Scope, receive: Receive, passage: _Passage) -> Acceptance:
        environment = _environment(scope)
        reason = self._not_ready()
        if reason is not None:
            raise NotReady(f"This instance takes no events now: {reason}. Nothing was stored.")
        self._admission.enter()
        try:
            authorization = content.single(scope["meridian"][0], "authorization")
            caller = await self._publisher.identify(authorization, environment=environment)
            return await self._published(caller, scope, receive, passage)
        finally:
            self._admission.leave(passage.reserved)

    async def _published(
        self, caller: Caller, scope: Scope, receive: Receive, passage: _Passage
    ) -> Acceptance:
        headers: Headers
        trace: TraceContext
        headers, trace = scope["meridian"]
        mode = content.mode_of(headers)
        size = min(_announced_bytes(headers), self._limits.body_bytes_max)
        self._admission.reserve(size)
        passage.reserved = size
        body = await web.receive_body(
            scope,
            receive,
            announced=headers.get("content-length", _NOT_ANNOUNCED)[0],
            bytes_max=self._limits.body_bytes_max,
            timeout_s=self._limits.body_timeout_s,
        )
        passage.is_body_read = True
        submission = Submission(mode=mode, headers=headers, body=body, trace=trace)
        return await self._publisher.publish(caller, submission)

    async def _refuse(
        self, scope: Scope, send: Send, error: PlatformError, passage: _Passage
    ) -> None:
        found = problem.problem(error, instance=scope["path"])
        metrics.rejected.labels(problem.kind_of(error).slug).inc()
        headers = [(b"content-type", problem.CONTENT_TYPE.encode())]
        headers += [
            (name.lower().encode(), value.encode()) for name, value in found.headers.items()
        ]
        announced = _announced_bytes(scope["meridian"][0])
        is_endless = not passage.is_body_read and announced > DISCARDED_BYTES_MAX
        if is_endless or isinstance(error, SlowBody):
            headers.append((b"connection", b"close"))
        await answer(send, found.status, headers, found.body)


async def answer(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes = b""
) -> None:
    """Sends a whole response; names are lower-case."""
    if status != 204:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _accept(scope: Scope, send: Send, acceptance: Acceptance) -> None:
    if acceptance.has_subscribers:
        await answer(send, 201, [])
        return
    members: dict[str, Any] = problem.document(
        problem.NO_SUBSCRIBER,
        detail=f"The event is stored, but nobody subscribes to {acceptance.event_type} in "
        f"{acceptance.environment}.",
        instance=scope["path"],
    )
    headers = [(b"content-type", problem.CONTENT_TYPE.encode())]
    await answer(send, 202, headers, msgspec.json.encode(members))


def _environment(scope: Scope) -> str | None:
    """The environment in the path; None for the alias, whose realm names it."""
    environment: str | None = scope["path_params"].get("environment")
    if environment is not None:
        check_environment(environment)
    return environment


def _announced_bytes(headers: Headers) -> int:
    """Length of the body: Content-Length, or as long as any for a chunked one."""
    values = headers.get("content-length")
    if values:
        return int(values[0])
    return DISCARDED_BYTES_MAX + 1 if "transfer-encoding" in headers else 0
