"""What to do next about an event at one subscription, in one or two sentences. Pure.

The words for reasons are those of `errorType` on the topic `status` (docs/operations.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from libs.common import clock
from libs.common.records import DeliveryType, EventHead, Status, StatusChange
from libs.common.resources import Subscription

ATTEMPTS_DEFAULT: Final = 11
TIMEOUT_S_DEFAULT: Final = 30.0
RETRY_DELAY_S_MIN: Final = 0.1
RETRY_DELAY_S_MAX: Final = 60.0
"""Delivery's defaults, by which an embedded platform goes."""

FIRST_REPORT_S: Final = 60.0
"""A first attempt has ended by then, unless the event waits behind others."""

Command = Callable[..., str]
"""Makes of words a command line of `meridian` that can be typed."""

TROUBLES: Final[Mapping[str, str]] = {
    "connect": "The callback could not be connected to",
    "name_not_resolved": "The callback's host name could not be resolved",
    "timeout": "The callback did not answer in time",
    "tls": "No TLS connection to the callback came about",
    "disconnected": "The callback closed the connection without an answer",
    "truncated_answer": "The callback broke off its answer",
    "http_status": "The callback answered {http_status}",
}
TROUBLE_UNNAMED: Final = "The callback gave no answer that counts"

FAILURES: Final[Mapping[str, str]] = {
    "attempts_exhausted": "It is not tried again. {start} Then {again}",
    "rejected": (
        "The callback answered {http_status}, which is final: 200, 201, 202 and 204 mean that it "
        "has the event. Correct the callback, {or_repeat}then {again}"
    ),
    "redirect_not_followed": (
        "Redirects are not followed: name their target as callback in the Rover file, apply it, "
        "then {again}"
    ),
    "address_refused": (
        "The callback's address is not permitted: name a public one in the Rover file, or have its "
        "network allowed (ALLOWED_CALLBACK_NETWORKS of control and delivery), then {again}"
    ),
    "invalid_callback_url": "Correct the callback in the Rover file, apply it, then {again}",
    "no_callback_url": "Name a callback in the Rover file, apply it, then {again}",
    "subscription_deleted": (
        "The subscription was deleted before it had the event. Apply it again if it is wanted; it "
        "gets what is published from then on."
    ),
}
FAILURE_UNNAMED: Final = "It is not tried again. Remove the reason shown above, then {again}"

SETTLED: Final[Mapping[Status, str]] = {
    Status.DELIVERED: "nothing, the subscriber has it.",
    Status.DUPLICATE: "nothing, the subscriber had it already.",
    Status.EXPIRED: (
        "Its retention ended before it could be delivered. A longer eventRetentionTime in the "
        "Rover file keeps later events for longer; for this one, {again}"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An event at one subscription."""

    event: EventHead
    stored_at: str
    subscription_id: str
    subscription: Subscription | None
    """As it is now; None when it does not exist any more."""
    change: StatusChange | None
    """Where the event stands there; None while delivery has reported nothing."""


def advice(case: Case, *, now: datetime, command: Command) -> str:
    """The next step."""
    if case.change is None:
        return _unreported(case, now=now, command=command)
    if case.change.status is Status.FAILED:
        text = FAILURES.get(case.change.error_type or "", FAILURE_UNNAMED)
    elif case.change.status in SETTLED:
        text = SETTLED[case.change.status]
    else:
        return _repeated(case, case.change, now=now, command=command)
    return text.format(
        http_status=case.change.http_status,
        start=_start(case, command),
        again=_again(case, command),
        or_repeat=_or_repeat(case.change),
    )


def retries_end(first_failed_at: datetime, subscription: Subscription | None) -> datetime:
    """When the last attempt begins if every one fails at once; wishes of the callback aside."""
    delays_s = (
        min(RETRY_DELAY_S_MIN * 2.0 ** min(attempt - 1, 60), RETRY_DELAY_S_MAX)
        for attempt in range(1, attempts_max(subscription))
    )
    return first_failed_at + timedelta(seconds=sum(delays_s))


def attempts_max(subscription: Subscription | None) -> int:
    """How often an event of the subscription is tried."""
    wished = subscription.spec.delivery.retry.attempts if subscription else None
    return wished or ATTEMPTS_DEFAULT


def _unreported(case: Case, *, now: datetime, command: Command) -> str:
    subscription = case.subscription
    if subscription and subscription.delivery_type is DeliveryType.SERVER_SENT_EVENT:
        client_id = subscription.spec.subscriber_id
        listen = command("listen", case.event.type, "--as", client_id)
        return f"It waits until its subscriber reads the stream: {listen}"
    look = command("event", case.event.id, "--wait", "30")
    if now - clock.from_text(case.stored_at) < timedelta(seconds=FIRST_REPORT_S):
        return f"Its first attempt is about to begin or under way: look again with {look}"
    return (
        "Delivery has reported nothing yet: it waits behind other events, or delivery does not "
        f"run. See {command('status')}, then {look}"
    )


def _repeated(case: Case, change: StatusChange, *, now: datetime, command: Command) -> str:
    trouble = TROUBLES.get(change.error_type or "", TROUBLE_UNNAMED)
    tried = (
        f"{trouble.format(http_status=change.http_status)} on attempt {change.attempt} of "
        f"{attempts_max(case.subscription)}"
    )
    if case.subscription is None:
        return f"{tried}, and its subscription has been deleted since: it ends as FAILED."
    end = retries_end(clock.from_text(change.at), case.subscription)
    slack_s = TIMEOUT_S_DEFAULT * attempts_max(case.subscription)
    if now > end + timedelta(seconds=slack_s):
        return (
            f"{tried}, and the others should have ended by now. See {command('status')}: a restart "
            "of delivery begins with the first attempt again."
        )
    until = clock.to_text(end)[11:19]
    later = "is tried again until about" if now < end else "was to be tried again until about"
    return f"{tried}; it {later} {until} UTC. {_start(case, command)}"


def _start(case: Case, command: Command) -> str:
    """How to get the callback going."""
    url = case.subscription.spec.callback if case.subscription else None
    port = local_port(url or "")
    if port is not None:
        return f"If nothing listens there, start a receiver: {command('sink', '--port', str(port))}"
    return "Get the callback going, or correct it in the Rover file and apply that."


def local_port(url: str) -> int | None:
    """The port of an http URL on this machine; None for any other URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or 80
        is_here = parts.hostname == "localhost" or ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return None
    return port if is_here and parts.scheme == "http" else None


def _again(case: Case, command: Command) -> str:
    line = command("publish", case.event.type, "--id", case.event.id, "--data", "...")
    return f"publish it again, to all subscribers of the type: {line}"


def _or_repeat(change: StatusChange) -> str:
    if (change.http_status or 0) < 500:
        return ""
    return "or have 5xx repeated (delivery.retry.on5xx: true in the Rover file), "
