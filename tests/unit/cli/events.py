"""Records about one event, as the services would have written them."""

from datetime import UTC, datetime, timedelta

from libs.cli.event_story import Findings
from libs.common import clock
from libs.common.records import (
    Coordinates,
    DeliveryType,
    EventHead,
    Match,
    Outcome,
    RoutingRecord,
    Source,
    Status,
    StatusChange,
)
from libs.common.resources import (
    DeliverySpec,
    Placement,
    RetrySpec,
    Subscription,
    SubscriptionSpec,
)

EVENT = EventHead(id="3e00feb9-d248-4a1e-a9b5-ab278a0727b8", type="a.b.v1")
STORED = datetime(2026, 11, 20, 10, 0, 0, 123_000, tzinfo=UTC)


def at(seconds: float) -> str:
    """A moment after the event was stored."""
    return clock.to_text(STORED + timedelta(seconds=seconds))


def command(*words: str) -> str:
    """A command line as the person would type it."""
    return " ".join(("./meridian", *words))


def routing(*subscriptions: str, uuid: str = "p-1", seconds: float = 0.0) -> RoutingRecord:
    """The event matched these subscriptions."""
    return RoutingRecord(
        published_uuid=uuid,
        source=Source(topic_id="t", partition=0, leader_epoch=0, offset=0),
        environment="integration",
        event=EVENT,
        publisher_id="eni--a--shop",
        published_at=at(seconds),
        at=at(seconds + 0.01),
        outcome=Outcome.MATCHED if subscriptions else Outcome.NO_SUBSCRIBER,
        matched=[Match(subscription_id=each, uuid=f"{uuid}-{each}") for each in subscriptions],
        matched_count=len(subscriptions),
        dropped=[],
        dropped_count=0,
    )


def change(
    subscription: str,
    status: Status,
    *,
    seconds: float = 0.1,
    attempt: int = 1,
    error_type: str | None = None,
    http_status: int | None = None,
    published_uuid: str = "p-1",
) -> StatusChange:
    """One status of the event at a subscription."""
    return StatusChange(
        uuid=f"{published_uuid}-{subscription}",
        subscription_id=subscription,
        subscriber_id="eni--a--billing",
        publisher_id="eni--a--shop",
        environment="integration",
        multiplexed_from=published_uuid,
        event=EVENT,
        delivery_type=DeliveryType.CALLBACK,
        status=status,
        at=at(seconds),
        published_at=at(0),
        attempt=attempt,
        coordinates=Coordinates(topic="subscribed-7d", partition=0, offset=0),
        http_status=http_status,
        duration_ms=2,
        error_type=error_type,
        error_message=None if error_type is None else f"because of {error_type}",
    )


def subscription(
    subscription_id: str,
    *,
    callback: str = "http://127.0.0.1:9000/orders",
    attempts: int | None = None,
) -> Subscription:
    """A subscription as it is now."""
    return Subscription(
        id=subscription_id,
        environment="integration",
        version=1,
        incarnation=1,
        placements=(Placement(after=-1),),
        spec=SubscriptionSpec(
            subscription_id=subscription_id,
            subscriber_id="eni--a--billing",
            publisher_id="eni--a--shop",
            type=EVENT.type,
            delivery_type="callback",
            callback=callback,
            delivery=DeliverySpec(retry=RetrySpec(attempts=attempts)),
        ),
    )


def findings(
    routed: RoutingRecord | None,
    *changes: StatusChange,
    existing: tuple[Subscription, ...] = (),
    routed_count: int = 1,
) -> Findings:
    """What a search found."""
    return Findings(
        event_id=EVENT.id,
        published=None,
        routing=routed,
        routed_count=routed_count,
        changes=changes,
        subscriptions={each.id: each for each in existing},
        looked_through=7,
    )
