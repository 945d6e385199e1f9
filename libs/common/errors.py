"""What can go wrong, first by who can fix it.

PlatformError
├── ClientError      the request or the resource is wrong: repeating it unchanged will not help
├── TemporaryError   repeating it later may help; `delay_s` says when, if known
└── PermanentError   neither helps; a person has to look

Errors know nothing of HTTP; `libs.common.problem` maps them to problem documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One fault in a request; `pointer` is a JSON pointer into it (RFC 6901), "" for the whole."""

    pointer: str
    detail: str


class PlatformError(Exception):
    """Root of all errors that Meridian raises on purpose."""


class ClientError(PlatformError):
    """The caller has to change something."""


class TemporaryError(PlatformError):
    """The caller may try again, after `delay_s` seconds if that is known."""

    def __init__(self, detail: str, *, delay_s: float | None = None) -> None:
        super().__init__(detail)
        self.delay_s = delay_s


class PermanentError(PlatformError):
    """Trying again will not help; a person has to look."""


class SettingsError(PermanentError):
    """The environment does not describe a process that can start."""


class Unauthenticated(ClientError):
    """No token, or none that this platform accepts."""


class RealmMismatch(Unauthenticated):
    """The token was issued by a realm that does not belong to the environment of the request."""


class Forbidden(ClientError):
    """The caller is known, and may not do this."""


class NotAPublisher(Forbidden):
    """The client is not among the publishers of the event type."""

    def __init__(self, *, client_id: str, event_type: str, environment: str) -> None:
        super().__init__(
            f"Client {client_id} is not a publisher of {event_type} in {environment}. "
            "Use a token of the client that exposes the type, or ask its owner to add this one "
            "as a publisher."
        )


class UnknownEventType(Forbidden):
    """Nobody exposes or subscribes to the event type in this environment."""

    def __init__(self, *, event_type: str, environment: str) -> None:
        super().__init__(
            f"Event type {event_type} has neither an exposure nor a subscription in {environment}; "
            "nothing was stored. Apply a Rover file that exposes it, then publish again."
        )


class NotTheSubscriber(Forbidden):
    """The subscription belongs to another client."""

    def __init__(self, *, client_id: str, subscription_id: str) -> None:
        super().__init__(
            f"Subscription {subscription_id} does not belong to client {client_id}. Use a token of "
            "the client that subscribed."
        )


class NotFound(ClientError):
    """What the request names does not exist."""


class UnknownSubscription(NotFound):
    """There is no such subscription in this environment."""

    def __init__(self, *, subscription_id: str, environment: str) -> None:
        super().__init__(
            f"There is no subscription {subscription_id} in {environment}. Apply a Rover file that "
            "subscribes; the answer names the stream's path."
        )


class UnreadableBody(ClientError):
    """The body is not what its content type says."""


class InvalidRequest(ClientError):
    """The request breaks rules; all of them are listed."""

    def __init__(self, detail: str, violations: Sequence[Violation]) -> None:
        super().__init__(detail)
        self.violations = tuple(violations)


class InvalidEvent(InvalidRequest):
    """The event breaks the rules of its fields; all violations are listed."""


class InvalidResource(InvalidRequest):
    """A resource document breaks rules; all violations are listed and nothing was applied."""


class NotAvailable(InvalidRequest):
    """The request asks for a feature that this version does not have."""


class UnsupportedMediaType(ClientError):
    """The content type of the body is not one that this resource takes."""


class TooLarge(ClientError):
    """The body, its data or the record made from it is over a limit."""


class SlowBody(ClientError):
    """The body did not arrive in time."""


class Conflict(ClientError):
    """The resource is not in the state that the request expects."""


class NotAStream(Conflict):
    """The subscription has a callback; its events are not streamed."""

    def __init__(self, *, subscription_id: str) -> None:
        super().__init__(
            f"Subscription {subscription_id} has deliveryType callback, so its events go to its "
            "callback. Only subscriptions with deliveryType server_sent_event are streamed."
        )


class NotAcceptable(ClientError):
    """The caller accepts none of the formats that there are."""


class PreconditionFailed(ClientError):
    """The resource is not at the version that If-Match names; nothing was changed."""


class Overloaded(TemporaryError):
    """A bound of this process is reached; nothing was stored."""


class NotReady(TemporaryError):
    """The process starts or shuts down; nothing was stored."""


class KafkaUnavailable(TemporaryError):
    """Kafka refused or could not be reached; nothing was stored."""


class NoEvent(TemporaryError):
    """No event came in time; the next request may bring one."""


class AckTimeout(TemporaryError):
    """Kafka did not acknowledge in time: the record may or may not be stored."""


class NotAppliedYet(TemporaryError):
    """A change is stored for good, but not every live process has reported it applied in time."""


class IssuerUnavailable(TemporaryError):
    """The keys of a trusted issuer could not be fetched, so its tokens cannot be checked now."""


class FencedOut(PermanentError):
    """Another process took over what this one owned; it has to start again."""
