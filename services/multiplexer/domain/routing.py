"""Whom one published event goes to, and what is written for each. Pure.

Output is strictly ascending in the bytes of the subscription id; topic and key depend only on the
subscription and the event's resources offset (see libs/common/sequences.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from libs.common import ids, topics
from libs.common.records import (
    DeliveryType,
    EventHead,
    Match,
    Outcome,
    PublishedEvent,
    RoutingRecord,
    Source,
    SubscriptionEvent,
    encode,
)
from libs.common.resources import Subscription
from libs.common.sequences import ascending

SELECTION_WITHOUT_FILTER: Final = "NO_FILTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One record to be written; `reason` is set when it is a dead letter."""

    topic: str
    key: bytes
    value: bytes
    reason: str | None = None


class TooLargePointer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Stands on `dead-letters` for a subscription event that is over the limit."""

    published_uuid: str
    subscription_id: str
    source: Source


def recipients(event: PublishedEvent, subscriptions: Iterable[Subscription]) -> list[Subscription]:
    """The subscriptions that receive the event, in the order of their records."""
    wanted = event.only_subscriptions
    by_id = {
        subscription.id: subscription
        for subscription in subscriptions
        if wanted is None or subscription.id in wanted
    }
    return [by_id[name] for name in ascending(by_id)]


def match_of(event: PublishedEvent, subscription: Subscription) -> Match:
    """The subscription, and the uuid of its copy: the same one whenever the event is evaluated."""
    return Match(
        subscription_id=subscription.id,
        uuid=ids.subscription_event_uuid(event.uuid, subscription.id),
    )


def output_for(
    event: PublishedEvent, source: Source, subscription: Subscription, *, uuid: str
) -> Output:
    """The record of one subscription, or the dead letter that takes its place when too large."""
    placement = subscription.placement_at(event.resources_offset)
    key = subscription.id.encode()
    if not is_too_large(event):
        copy = subscription_event(
            event, source, subscription, uuid=uuid, retention_class=placement.retention_class
        )
        value = encode(copy)
        return Output(topic=topics.subscribed(placement.retention_class), key=key, value=value)
    pointer = TooLargePointer(
        published_uuid=event.uuid, subscription_id=subscription.id, source=source
    )
    return Output(topic=topics.DEAD_LETTERS, key=key, value=encode(pointer), reason="too_large")


def is_too_large(event: PublishedEvent) -> bool:
    """True when the event's copies are over the limit.

    Decided from the event alone: an evaluation that repeats another one has to decide the same,
    also when a subscription, say its callback, was changed in between.
    """
    carried = encode((event.http_headers, event.additional_fields))
    return len(event.event) + len(carried) > topics.COPIED_BYTES_MAX


def subscription_event(
    event: PublishedEvent,
    source: Source,
    subscription: Subscription,
    *,
    uuid: str,
    retention_class: str,
) -> SubscriptionEvent:
    """The event as this subscription gets it."""
    delivery_type = subscription.delivery_type
    fields = {**event.additional_fields, "selectionFilterResult": SELECTION_WITHOUT_FILTER}
    if delivery_type is DeliveryType.CALLBACK:
        fields["callback-url"] = subscription.spec.callback
    return SubscriptionEvent(
        uuid=uuid,
        multiplexed_from=event.uuid,
        environment=event.environment,
        subscription_id=subscription.id,
        subscription_version=subscription.incarnation,
        subscriber_id=subscription.spec.subscriber_id,
        publisher_id=event.publisher_id,
        ordering_key=event.ordering_key,
        source=source,
        delivery_type=delivery_type,
        event_retention_time=retention_class,
        published_at=event.published_at,
        event=event.event,
        http_headers=event.http_headers,
        additional_fields=fields,
    )


def routing_record(
    event: PublishedEvent, head: EventHead, source: Source, *, matched: list[Match], at: str
) -> RoutingRecord:
    """What became of the event."""
    return RoutingRecord(
        published_uuid=event.uuid,
        source=source,
        environment=event.environment,
        event=head,
        publisher_id=event.publisher_id,
        published_at=event.published_at,
        at=at,
        outcome=Outcome.MATCHED if matched else Outcome.NO_SUBSCRIBER,
        matched=matched,
        matched_count=len(matched),
        dropped=[],
        dropped_count=0,
    )
