"""Lanes, policies and the callback request."""

import msgspec

from libs.common.ids import LaneId
from libs.common.records import (
    Coordinates,
    DeliveryType,
    EventHead,
    Source,
    Status,
    SubscriptionEvent,
)
from libs.common.resources import (
    DeliverySpec,
    Placement,
    RetrySpec,
    Subscription,
    SubscriptionSpec,
)
from services.delivery.domain.lane import Job, Lane
from services.delivery.domain.outcome import Answered, Policy, Unanswered
from services.delivery.domain.policy import policy_of
from services.delivery.domain.request import headers
from services.delivery.domain.status import Reason, attempt_of, status_change

LANE = LaneId("sub")


def job(offset: int = 0, **http_headers: list[str]) -> Job:
    event = SubscriptionEvent(
        uuid="u",
        multiplexed_from="p",
        environment="integration",
        subscription_id="sub",
        subscription_version=1,
        subscriber_id="eni--bi--reader",
        publisher_id="eni--orders--shop",
        ordering_key="k",
        source=Source(topic_id="t", partition=0, leader_epoch=0, offset=offset),
        delivery_type=DeliveryType.CALLBACK,
        event_retention_time="7d",
        published_at="2026-11-20T10:00:00.000Z",
        event=msgspec.Raw(b"{}"),
        http_headers={name.replace("_", "-"): values for name, values in http_headers.items()},
    )
    coordinates = Coordinates(topic="subscribed-7d", partition=0, offset=offset)
    head = EventHead(id="1", type="orders.v1")
    return Job(
        lane_id=LANE,
        coordinates=coordinates,
        event=event,
        head=head,
        size_bytes=2,
        published_at_s=1_795_168_800.0,
    )


def subscription_to(callback: str) -> Subscription:
    return msgspec.structs.replace(
        subscription(DeliverySpec()),
        spec=msgspec.structs.replace(subscription(DeliverySpec()).spec, callback=callback),
    )


def subscription(delivery: DeliverySpec, codes: list[int] | None = None) -> Subscription:
    return Subscription(
        id="sub",
        environment="integration",
        version=1,
        incarnation=1,
        placements=(Placement(after=0),),
        spec=SubscriptionSpec(
            subscription_id="sub",
            subscriber_id="s",
            publisher_id="p",
            type="orders.v1",
            delivery_type="callback",
            retryable_status_codes=codes,
            delivery=delivery,
        ),
    )


def test_a_lane_attempts_no_more_than_its_concurrency_at_once() -> None:
    lane = Lane(LANE)
    jobs = [job(offset) for offset in range(3)]
    for one in jobs:
        lane.add(one)
    assert lane.take(concurrency=2, now_s=0) is jobs[0]
    assert lane.take(concurrency=2, now_s=0) is jobs[1]
    assert lane.take(concurrency=2, now_s=0) is None
    lane.in_flight -= 1
    assert lane.take(concurrency=2, now_s=0) is jobs[2]


def test_a_slowed_lane_attempts_nothing_before_its_time() -> None:
    lane = Lane(LANE)
    lane.add(job())
    lane.slow_down(5.0)
    lane.slow_down(2.0)
    assert lane.take(concurrency=9, now_s=4.9) is None
    assert lane.take(concurrency=9, now_s=5.0) is not None


def test_a_subscription_s_wishes_go_before_the_defaults() -> None:
    wishes = DeliverySpec(timeout_seconds=3, retry=RetrySpec(on5xx=True, attempts=4))
    policy = policy_of(subscription(wishes, [418]), Policy())
    assert policy == Policy(
        attempts_max=4,
        timeout_s=3,
        retryable_statuses=frozenset({418}),
        retries_server_errors=True,
    )
    assert policy_of(subscription(DeliverySpec()), Policy(attempts_max=7)).attempts_max == 7


def test_the_request_carries_the_publisher_s_headers_and_the_platform_s_own() -> None:
    found = headers(
        job(x_custom=["1", "2"], x_event_id=["forged"], host=["evil"], te=["trailers"]).event,
        EventHead(id="1", type="orders.v1"),
    )
    assert [value for name, value in found if name == "x-custom"] == ["1", "2"]
    assert dict(found)["x-event-id"] == "1"
    assert dict(found)["x-meridian-uuid"] == "u"
    assert dict(found)["x-pubsub-subscriber-id"] == "eni--bi--reader"
    assert dict(found)["content-type"] == "application/json"
    assert not {"host", "te", "authorization"} & {name for name, _ in found}
    assert [value for name, value in found if name == "x-event-id"] == ["1"]


def test_a_status_says_what_the_subscriber_answered_and_why() -> None:
    attempt = attempt_of(Answered(status=503), number=2, duration_s=0.0123)
    change = status_change(
        job(7),
        status=Status.FAILED,
        at="2026-11-20T10:00:01.000Z",
        attempt=attempt,
        reason=Reason("rejected", "the callback answered 503"),
    )
    assert (change.http_status, change.duration_ms, change.attempt) == (503, 12, 2)
    assert (change.error_type, change.coordinates.offset) == ("rejected", 7)
    unanswered = Unanswered(error_type="connect", message="m")
    assert attempt_of(unanswered, number=1, duration_s=1).http_status is None
