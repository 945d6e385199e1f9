"""What became of an event, told for a person. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from libs.cli.event_advice import Case, Command, advice
from libs.cli.output import shortened
from libs.common.records import (
    DeliveryType,
    Outcome,
    PublishedEvent,
    RoutingRecord,
    Status,
    StatusChange,
)
from libs.common.resources import Subscription

CASES_MAX: Final = 20
CHANGES_MAX: Final = 10
"""Subscriptions that are shown, and statuses of each: the last ones."""
MESSAGE_CHARACTERS_MAX: Final = 200
DAYS_KEPT: Final = 8
"""How long `routed` and `status` keep their records."""

RANKS: Final[Mapping[Status, int]] = {
    Status.DELIVERED: 4,
    Status.FAILED: 3,
    Status.DUPLICATE: 2,
    Status.EXPIRED: 1,
}
"""Final statuses; of several for one uuid the highest counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What Kafka holds about an event id at one moment."""

    event_id: str
    published: PublishedEvent | None
    """The newest event with the id that is stored; looked for only while it is not routed."""
    routing: RoutingRecord | None
    """The newest event with the id that was matched with subscriptions."""
    routed_count: int
    """How many events with the id were; publishing an id again makes another event."""
    changes: tuple[StatusChange, ...]
    """Statuses of all events with the id, each subscription's in their order."""
    subscriptions: dict[str, Subscription]
    """All subscriptions as they are now, by id."""
    looked_through: int
    """Records that were read for this."""


def is_found(findings: Findings) -> bool:
    """Whether an event with the id is stored."""
    return findings.routing is not None or findings.published is not None


def is_settled(findings: Findings) -> bool:
    """Whether nothing more will happen to the event."""
    routing = findings.routing
    return routing is not None and all(
        case.change is not None and case.change.status in RANKS for case in cases(routing, findings)
    )


def tell(findings: Findings, *, now: datetime, command: Command) -> list[str]:
    """The story, line by line; `command` makes command lines that can be typed."""
    return [
        *_told(findings, now=now, command=command),
        "",
        f"Looked through {findings.looked_through} records; Kafka keeps them for {DAYS_KEPT} days.",
    ]


def _told(findings: Findings, *, now: datetime, command: Command) -> list[str]:
    if findings.routing is not None:
        return _routed(findings.routing, findings, now=now, command=command)
    if (event := findings.published) is not None:
        look = command("event", findings.event_id, "--wait", "30")
        stored = f"Stored {event.published_at} by {event.publisher_id} in {event.environment}"
        return [
            f"Event {findings.event_id}",
            f"{stored}; not matched with subscriptions yet.",
            f"Next: see whether the multiplexer runs ({command('status')}), and look again: {look}",
        ]
    return [
        f"No event with the id {findings.event_id} was stored in the last {DAYS_KEPT} days.",
        "Next: compare the id with what was published and answered; only 201 and 202 mean stored.",
    ]


def _routed(
    routing: RoutingRecord, findings: Findings, *, now: datetime, command: Command
) -> list[str]:
    event = routing.event
    stored = f"Stored {routing.published_at} by {routing.publisher_id} in {routing.environment}"
    lines = [f"Event {event.id}, {event.type}", f"{stored}; {_outcome(routing)}."]
    if findings.routed_count > 1:
        lines.append(f"{findings.routed_count} events have this id; this is the newest.")
    if routing.outcome is Outcome.NO_SUBSCRIBER:
        apply = command("apply", "-f", "...")
        again = command("publish", event.type, "--data", "...")
        lines.append(
            f"Next: apply a Rover file with a subscription ({apply}), then publish again: {again}"
        )
    found = sorted(cases(routing, findings), key=_urgency)
    for case in found[:CASES_MAX]:
        lines += ["", *_case(case, history(routing, findings)[case.subscription_id])]
        lines.append(f"  Next: {advice(case, now=now, command=command)}")
    if len(found) > CASES_MAX:
        lines += ["", _rest(found[CASES_MAX:])]
    return lines


def _outcome(routing: RoutingRecord) -> str:
    if routing.outcome is Outcome.NO_SUBSCRIBER:
        return f"nobody was subscribed to {routing.event.type}"
    dropped = f", filters dropped it for {routing.dropped_count}" if routing.dropped_count else ""
    return f"matched {_counted(routing.matched_count, 'subscription')}{dropped}"


def cases(routing: RoutingRecord, findings: Findings) -> list[Case]:
    """Where the event stands at each subscription that it matched."""
    changes = history(routing, findings)
    return [
        Case(
            event=routing.event,
            stored_at=routing.published_at,
            subscription_id=match.subscription_id,
            subscription=findings.subscriptions.get(match.subscription_id),
            change=counting(changes[match.subscription_id]),
        )
        for match in routing.matched
    ]


def history(routing: RoutingRecord, findings: Findings) -> Mapping[str, list[StatusChange]]:
    """The statuses of this event, not of others with its id, by subscription."""
    changes: defaultdict[str, list[StatusChange]] = defaultdict(list)
    for change in findings.changes:
        if change.multiplexed_from == routing.published_uuid and change.redelivery_id is None:
            changes[change.subscription_id].append(change)
    return changes


def counting(changes: Sequence[StatusChange]) -> StatusChange | None:
    """The status that counts: the final one of the highest rank, else the last one."""
    final = [change for change in changes if change.status in RANKS]
    if final:
        return max(final, key=lambda change: RANKS[change.status])
    return changes[-1] if changes else None


def _case(case: Case, changes: Sequence[StatusChange]) -> list[str]:
    subscriber = case.change.subscriber_id if case.change else None
    if case.subscription is not None:
        where = _where(case.subscription)
        subscriber = case.subscription.spec.subscriber_id
    else:
        where = "deleted since"
    lines = [f"{subscriber or 'Subscription'} {where} (subscription {case.subscription_id})"]
    if not changes:
        lines.append("  no status yet")
    if len(changes) > CHANGES_MAX:
        lines.append(f"  {len(changes) - CHANGES_MAX} earlier statuses")
    return [*lines, *(f"  {_change(change)}" for change in changes[-CHANGES_MAX:])]


def _where(subscription: Subscription) -> str:
    if subscription.delivery_type is DeliveryType.SERVER_SENT_EVENT:
        return "by stream"
    return f"at {subscription.spec.callback or 'no callback'}"


def _change(change: StatusChange) -> str:
    parts = [
        _attempt(change),
        f"HTTP {change.http_status}" if change.http_status else "",
        f"{change.duration_ms} ms" if change.duration_ms is not None else "",
        change.error_type or "",
        shortened(printable(change.error_message or ""), MESSAGE_CHARACTERS_MAX),
    ]
    return f"{change.at}  {change.status:<10}  {', '.join(part for part in parts if part)}"


def _attempt(change: StatusChange) -> str:
    if not change.attempt:
        return "no attempt"
    is_stream = change.delivery_type is DeliveryType.SERVER_SENT_EVENT
    return "sent on the stream" if is_stream else f"attempt {change.attempt}"


def _urgency(case: Case) -> int:
    """FAILED and EXPIRED first, then what is under way, then what is delivered."""
    if case.change is None or case.change.status not in RANKS:
        return 1
    return 0 if case.change.status in (Status.FAILED, Status.EXPIRED) else 2


def _rest(found: Sequence[Case]) -> str:
    counts: defaultdict[str, int] = defaultdict(int)
    for case in found:
        counts[case.change.status if case.change else "no status yet"] += 1
    listed = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"And {_counted(len(found), 'subscription')} more: {listed}."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """The text without characters that a terminal would act on."""
    return "".join(character if character.isprintable() else " " for character in text)
