"""What a stream does with a record of its lane. Pure."""

from datetime import datetime, timedelta
from enum import StrEnum

from libs.common import clock, topics
from libs.common.records import (
    Coordinates,
    DeliveryType,
    EventHead,
    Status,
    StatusChange,
    SubscriptionEvent,
)


class Verdict(StrEnum):
    """What becomes of a record that is no repeat."""

    SEND = "SEND"
    EXPIRED = "EXPIRED"
    """Its retention is over: it is recorded as such and not sent."""
    FOREIGN = "FOREIGN"
    """It was written for a former subscription of the same id, or for a callback."""
    UNKNOWN = "UNKNOWN"
    """It was written for a later subscription of the same id than the one that is known here."""


def judge(event: SubscriptionEvent, *, incarnation: int, now: datetime) -> Verdict:
    """The verdict for a stream of the subscription that began at `incarnation`.

    Raises ValueError for a time of publishing that is none.
    """
    if event.subscription_version > incarnation:
        return Verdict.UNKNOWN
    is_streamed = event.delivery_type is DeliveryType.SERVER_SENT_EVENT
    if event.subscription_version < incarnation or not is_streamed:
        return Verdict.FOREIGN
    retention = timedelta(seconds=topics.RETENTION_S[event.event_retention_time])
    if clock.from_text(event.published_at) + retention <= now:
        return Verdict.EXPIRED
    return Verdict.SEND


def status_change(
    event: SubscriptionEvent,
    head: EventHead,
    coordinates: Coordinates,
    *,
    status: Status,
    at: datetime,
) -> StatusChange:
    """The final status of an event that was sent, or that was too old to be sent."""
    is_expired = status is Status.EXPIRED
    return StatusChange(
        uuid=event.uuid,
        subscription_id=event.subscription_id,
        subscriber_id=event.subscriber_id,
        publisher_id=event.publisher_id,
        environment=event.environment,
        multiplexed_from=event.multiplexed_from,
        event=head,
        delivery_type=DeliveryType.SERVER_SENT_EVENT,
        status=status,
        at=clock.to_text(at),
        published_at=event.published_at,
        attempt=0 if is_expired else 1,
        coordinates=coordinates,
        error_type="expired" if is_expired else None,
        error_message="nobody read it before its retention ended" if is_expired else None,
    )
