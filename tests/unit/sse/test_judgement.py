"""What a stream does with a record, and where it looks for records."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from libs.common import clock
from libs.common.ids import LaneId
from libs.common.partitions import ConsumedRecord, Partition, partition_of
from libs.common.records import (
    Coordinates,
    DeliveryType,
    EventHead,
    Source,
    Status,
    SubscriptionEvent,
)
from libs.common.resources import Placement, Subscription, SubscriptionSpec
from services.sse.domain.claims import Place
from services.sse.domain.judgement import Verdict, judge, status_change
from services.sse.domain.places import places_of
from services.sse.service.queue import Budget, ReadAhead

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def event(**changes: object) -> SubscriptionEvent:
    found = SubscriptionEvent(
        uuid="u",
        multiplexed_from="p",
        environment="integration",
        subscription_id="s",
        subscription_version=7,
        subscriber_id="reader",
        publisher_id="shop",
        ordering_key="k",
        source=Source(topic_id="t", partition=0, leader_epoch=0, offset=0),
        delivery_type=DeliveryType.SERVER_SENT_EVENT,
        event_retention_time="1h",
        published_at=clock.to_text(NOW - timedelta(minutes=59)),
        event=msgspec.Raw(b"{}"),
    )
    return msgspec.structs.replace(found, **changes)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, Verdict.SEND),
        ({"subscription_version": 6}, Verdict.FOREIGN),
        ({"subscription_version": 8}, Verdict.UNKNOWN),
        ({"delivery_type": DeliveryType.CALLBACK}, Verdict.FOREIGN),
        ({"published_at": clock.to_text(NOW - timedelta(minutes=60))}, Verdict.EXPIRED),
        ({"event_retention_time": "7d", "published_at": "2026-11-15T12:00:00.000Z"}, Verdict.SEND),
    ],
)
def test_only_young_events_of_this_subscription_are_sent(
    changes: dict[str, object], verdict: Verdict
) -> None:
    assert judge(event(**changes), incarnation=7, now=NOW) is verdict


def test_a_status_says_what_was_sent_and_why_something_was_not() -> None:
    place = Coordinates(topic="subscribed-1h", partition=1, offset=9)
    head = EventHead(id="e", type="t")
    sent = status_change(event(), head, place, status=Status.DELIVERED, at=NOW)
    assert (sent.status, sent.attempt, sent.error_type) == (Status.DELIVERED, 1, None)
    assert (sent.delivery_type, sent.coordinates) == (DeliveryType.SERVER_SENT_EVENT, place)
    late = status_change(event(), head, place, status=Status.EXPIRED, at=NOW)
    assert (late.status, late.attempt, late.error_type) == (Status.EXPIRED, 0, "expired")


def subscription(*placements: Placement) -> Subscription:
    spec = SubscriptionSpec(
        subscription_id="s",
        subscriber_id="reader",
        publisher_id="",
        type="t",
        delivery_type="server_sent_event",
    )
    return Subscription(
        id="s",
        environment="integration",
        version=7,
        incarnation=7,
        placements=placements,
        spec=spec,
    )


def test_a_stream_reads_every_class_the_newest_first() -> None:
    decided = clock.to_text(NOW)
    found = places_of(
        subscription(
            Placement(after=1, retention_class="7d"),
            Placement(after=5, retention_class="1d", at=decided),
            Placement(after=9, retention_class="7d", at=decided),
        ),
        partitions=16,
    )
    number = partition_of(b"s", 16)
    lane = LaneId("s")
    assert list(found.items()) == [
        (Place("subscribed-1d", number, lane), NOW - timedelta(minutes=5)),
        (Place("subscribed-7d", number, lane), None),
    ]


def record(size: int) -> ConsumedRecord:
    return ConsumedRecord(Partition("t", 0), 0, 0, b"k", bytes(size))


def test_a_queue_is_bounded_by_records_bytes_and_the_process() -> None:
    place = Place("subscribed-7d", 0, LaneId("s"))
    budget = Budget(1_000)
    queue = ReadAhead(budget, records_max=3, bytes_max=500)
    assert queue.offer(place, record(900))
    assert not queue.offer(place, record(1))
    other = ReadAhead(budget, records_max=3, bytes_max=500)
    assert other.offer(place, record(200))
    assert not other.offer(place, record(1))
    queue.take()
    assert other.offer(place, record(100))
    assert not other.is_low
    assert other.offer(place, record(0))
    assert not other.offer(place, record(0))
    other.clear()
    assert (other.size, budget.size, len(other)) == (0, 0, 0)
    assert other.is_low
