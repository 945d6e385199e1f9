"""Errors as problem documents (RFC 9457): the only place that knows both.

A problem has `type` (`urn:meridian:problem:<slug>`, described in docs/problems.md), `title`,
`status`, `detail`, `instance` (the path of the request) and, where several faults are listed,
`errors: [{pointer, detail}]`.
"""

import math
from dataclasses import dataclass
from typing import Any

import msgspec

from libs.common import errors
from libs.common.errors import InvalidRequest, PlatformError, TemporaryError

CONTENT_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:meridian:problem:"
RETRY_AFTER_S_DEFAULT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemKind:
    """What all problems of one kind share: HTTP status, slug and title."""

    status: int
    slug: str
    title: str


def _kind(status: int, slug: str, title: str) -> ProblemKind:
    return ProblemKind(status=status, slug=slug, title=title)


KINDS: dict[type[PlatformError], ProblemKind] = {
    errors.Unauthenticated: _kind(401, "unauthenticated", "No valid token"),
    errors.RealmMismatch: _kind(401, "realm-mismatch", "Token of another realm"),
    errors.Forbidden: _kind(403, "forbidden", "Not allowed"),
    errors.NotAPublisher: _kind(403, "not-a-publisher", "Not a publisher of this event type"),
    errors.NotTheSubscriber: _kind(403, "not-the-subscriber", "Another client's subscription"),
    errors.UnknownEventType: _kind(403, "unknown-event-type", "Unknown event type"),
    errors.UnknownSubscription: _kind(404, "unknown-subscription", "Unknown subscription"),
    errors.NotFound: _kind(404, "not-found", "Not found"),
    errors.UnreadableBody: _kind(400, "unreadable-body", "Body cannot be read"),
    errors.InvalidRequest: _kind(400, "invalid-request", "Invalid request"),
    errors.InvalidEvent: _kind(400, "invalid-event", "Invalid event"),
    errors.InvalidResource: _kind(400, "invalid-resource", "Invalid resource"),
    errors.NotAvailable: _kind(400, "not-available", "Feature not available"),
    errors.UnsupportedMediaType: _kind(415, "unsupported-media-type", "Unsupported media type"),
    errors.TooLarge: _kind(413, "too-large", "Too large"),
    errors.SlowBody: _kind(408, "slow-body", "Body did not arrive in time"),
    errors.Conflict: _kind(409, "conflict", "Conflict"),
    errors.NotAStream: _kind(409, "not-a-stream", "Not a stream"),
    errors.NotAcceptable: _kind(406, "not-acceptable", "Not acceptable"),
    errors.PreconditionFailed: _kind(412, "precondition-failed", "Changed meanwhile"),
    errors.Overloaded: _kind(503, "overloaded", "Too busy"),
    errors.NotReady: _kind(503, "not-ready", "Not ready"),
    errors.KafkaUnavailable: _kind(503, "kafka-unavailable", "Kafka cannot be reached"),
    errors.NoEvent: _kind(504, "no-event", "No event in time"),
    errors.AckTimeout: _kind(504, "ack-timeout", "No acknowledgement in time"),
    errors.NotAppliedYet: _kind(504, "not-applied-yet", "Stored, not yet applied everywhere"),
    errors.IssuerUnavailable: _kind(503, "issuer-unavailable", "Token issuer cannot be reached"),
    errors.ClientError: _kind(400, "bad-request", "Bad request"),
    errors.TemporaryError: _kind(503, "try-later", "Temporarily unavailable"),
    errors.PlatformError: _kind(500, "internal", "Internal error"),
}

FRAMEWORK_KINDS: dict[int, ProblemKind] = {
    404: _kind(404, "not-found", "Not found"),
    405: _kind(405, "method-not-allowed", "Method not allowed"),
    406: _kind(406, "not-acceptable", "Not acceptable"),
    431: _kind(431, "head-too-large", "Head of the request too large"),
}
"""Problems that the web framework raises by itself, by status."""

NO_SUBSCRIBER = _kind(202, "no-subscriber", "Stored, but nobody is subscribed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem ready to be sent: body as JSON bytes, headers without the content type."""

    status: int
    body: bytes
    headers: dict[str, str]


def kind_of(error: PlatformError) -> ProblemKind:
    """The kind of the nearest class in the error's ancestry."""
    return next(KINDS[cls] for cls in type(error).__mro__ if cls in KINDS)


def document(kind: ProblemKind, *, detail: str, instance: str) -> dict[str, Any]:
    """The members that every problem has."""
    return {
        "type": TYPE_PREFIX + kind.slug,
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "instance": instance,
    }


def problem(error: PlatformError, *, instance: str) -> Problem:
    """The problem document of an error; 401 has WWW-Authenticate, temporary ones Retry-After."""
    kind = kind_of(error)
    members = document(kind, detail=str(error), instance=instance)
    if isinstance(error, InvalidRequest):
        members["errors"] = [{"pointer": v.pointer, "detail": v.detail} for v in error.violations]
    headers: dict[str, str] = {}
    if kind.status == 401:
        headers["WWW-Authenticate"] = 'Bearer error="invalid_token"'
    if isinstance(error, TemporaryError) and kind.status == 503:
        headers["Retry-After"] = str(math.ceil(error.delay_s or RETRY_AFTER_S_DEFAULT))
    return Problem(status=kind.status, body=msgspec.json.encode(members), headers=headers)


def framework_problem(status: int, detail: str, *, instance: str) -> Problem:
    """The problem for a status that the web framework raised (404, 405, ...)."""
    kind = FRAMEWORK_KINDS.get(status) or _kind(status, "bad-request", "Bad request")
    body = msgspec.json.encode(document(kind, detail=detail, instance=instance))
    return Problem(status=status, body=body, headers={})
