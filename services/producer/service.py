"""Publishing one event: who calls, what the event is, may it be stored, store it."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from libs.common.auth import bearer_token, check_realm
from libs.common.auth.identity import environment_of
from libs.common.clock import Clock, to_ms, to_text
from libs.common.errors import Overloaded
from libs.common.trace import TraceContext
from services.producer import metrics
from services.producer.domain import parts, stored
from services.producer.domain.content import Headers, Mode
from services.producer.domain.forwarded import HeaderFilter
from services.producer.domain.rules import violations
from services.producer.domain.stored import Receipt, SizeLimit
from services.producer.ports import EventLog, Registry, Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Everything that is not a decision."""

    tokens: Tokens
    registry: Registry
    event_log: EventLog
    clock: Clock
    new_uuid: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What an operator may set."""

    default_environment: str
    size_limit: SizeLimit
    header_filter: HeaderFilter


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """A verified client, and the environment that it publishes to."""

    client_id: str
    environment: str


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """One event as it came in; header names are lower-case."""

    mode: Mode
    headers: Headers
    body: bytes
    trace: TraceContext


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """The event is stored."""

    event_type: str
    environment: str
    has_subscribers: bool


class Admission:
    """Bounds what one process does at once: requests, and bytes held for their bodies."""

    def __init__(self, *, requests_max: int, bytes_max: int) -> None:
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self.requests = 0
        self.bytes = 0

    def enter(self) -> None:
        """Counts a request; `leave` has to follow. Raises Overloaded."""
        if self.requests >= self._requests_max:
            raise Overloaded(
                f"{self.requests} requests are being answered, which is the most. Nothing was "
                "stored; try again."
            )
        self.requests += 1

    def reserve(self, size: int) -> None:
        """Counts the bytes of a body; `leave` has to give them back. Raises Overloaded."""
        if self.bytes + size > self._bytes_max:
            raise Overloaded(
                f"Bodies of {self.bytes} bytes are being read or stored, and {size} more are too "
                "many. Nothing was stored; try again."
            )
        self.bytes += size

    def leave(self, reserved: int) -> None:
        """Ends a request that had reserved so many bytes."""
        self.requests -= 1
        self.bytes -= reserved


class Publisher:
    """The use case."""

    def __init__(self, outside: Outside, policy: Policy) -> None:
        self._outside = outside
        self._policy = policy

    async def identify(self, authorization: str | None, *, environment: str | None) -> Caller:
        """The caller by its token. Without an environment in the request the realm names it.

        Raises Unauthenticated, RealmMismatch or IssuerUnavailable.
        """
        identity = await self._outside.tokens.verify(bearer_token(authorization))
        default = self._policy.default_environment
        if environment is None:
            environment = environment_of(identity, default_environment=default)
        check_realm(identity, environment=environment, default_environment=default)
        return Caller(client_id=identity.client_id, environment=environment)

    async def publish(self, caller: Caller, submission: Submission) -> Acceptance:
        """Stores the event; returns once it is durable.

        Raises UnreadableBody, InvalidEvent, TooLarge, UnknownEventType, NotAPublisher, Overloaded
        and KafkaUnavailable, all meaning that nothing is stored, and AckTimeout: unknown.
        """
        received = self._read(submission)
        event_type: str = received.attributes["type"]
        receipt = self._receipt(caller)
        registration = self._outside.registry.registration(caller.environment, event_type)
        stored.check_publisher(registration, receipt, event_type)
        key, record = stored.record_of(
            received,
            receipt,
            resources_offset=registration.resources_offset,
            http_headers=self._http_headers(submission),
        )
        await self._outside.event_log.append(key, record)
        metrics.published_of(caller.environment, event_type).inc()
        return Acceptance(
            event_type=event_type,
            environment=caller.environment,
            has_subscribers=registration.has_subscribers,
        )

    def _read(self, submission: Submission) -> parts.Parts:
        if submission.mode is Mode.BINARY:
            received = parts.from_binary(submission.headers, submission.body)
        else:
            received = parts.from_json(submission.body)
        stored.check_fields(violations(received, submission.mode))
        stored.check_size(received, self._policy.size_limit)
        return received

    def _receipt(self, caller: Caller) -> Receipt:
        now = self._outside.clock()
        return Receipt(
            uuid=self._outside.new_uuid(),
            environment=caller.environment,
            publisher_id=caller.client_id,
            received_at=to_text(now),
            received_at_ms=to_ms(now),
        )

    def _http_headers(self, submission: Submission) -> dict[str, list[str]]:
        headers = self._policy.header_filter.forwarded(submission.headers)
        for name, value in submission.trace.as_headers().items():
            headers[name] = [value]
        return headers
