"""Whom an event goes to, and what is written."""

import json

import msgspec
import pytest

from libs.common import ids, topics
from libs.common.records import EventHead, Outcome, PublishedEvent, Source, SubscriptionEvent
from libs.common.resources import Placement, Subscription, SubscriptionSpec
from services.multiplexer.domain.routing import (
    Output,
    match_of,
    output_for,
    recipients,
    routing_record,
)

SOURCE = Source(topic_id="t", partition=3, leader_epoch=7, offset=1200)
UUID = "0193b1c0-0000-7000-8000-000000000001"


def published(data: bytes = b'{"x": 1.0}', **changes: object) -> PublishedEvent:
    fields: dict[str, object] = {
        "uuid": UUID,
        "environment": "integration",
        "publisher_id": "eni--orders--shop",
        "published_at": "2026-11-20T10:00:00.123Z",
        "ordering_key": "k",
        "resources_offset": 10,
        "event": msgspec.Raw(b'{"id":"1","type":"orders.v1","data":' + data + b"}"),
        "http_headers": {"x-custom": ["v"]},
        "additional_fields": {"system-horizon-event-startTime": 5},
    }
    return PublishedEvent(**{**fields, **changes})  # type: ignore[arg-type]


def subscription(name: str, *placements: Placement) -> Subscription:
    return Subscription(
        id=name,
        environment="integration",
        version=9,
        incarnation=4,
        placements=placements or (Placement(after=4),),
        spec=SubscriptionSpec(
            subscription_id=name,
            subscriber_id="eni--bi--reader",
            publisher_id="eni--orders--shop",
            type="orders.v1",
            delivery_type="callback",
            callback="https://bi.example/in",
        ),
    )


def output_of(event: PublishedEvent, to: Subscription) -> Output:
    return output_for(event, SOURCE, to, uuid=match_of(event, to).uuid)


def test_records_ascend_in_the_bytes_of_the_subscription_id() -> None:
    found = recipients(published(), [subscription("b"), subscription("a"), subscription("B")])
    assert [one.id for one in found] == ["B", "a", "b"]


def test_a_replay_for_some_subscriptions_reaches_no_others() -> None:
    event = published(only_subscriptions=["b"])
    assert [one.id for one in recipients(event, [subscription("a"), subscription("b")])] == ["b"]


def test_the_event_is_passed_on_byte_for_byte_under_a_uuid_that_repeats() -> None:
    data = b'{"a" :1.50,  "u":"\\u00fc", "n":12345678901234567890}'
    first = output_of(published(data), subscription("a"))
    record = msgspec.json.decode(first.value, type=SubscriptionEvent)
    assert data in bytes(record.event)
    assert record.uuid == ids.subscription_event_uuid(UUID, "a")
    assert record.source == SOURCE
    assert record.subscription_version == 4
    assert output_of(published(data), subscription("a")) == first


def test_additional_fields_travel_along_with_what_the_multiplexer_adds() -> None:
    output = output_of(published(), subscription("a"))
    assert json.loads(output.value)["additionalFields"] == {
        "system-horizon-event-startTime": 5,
        "selectionFilterResult": "NO_FILTER",
        "callback-url": "https://bi.example/in",
    }


def test_a_copy_for_a_stream_says_so_and_names_no_callback() -> None:
    called = subscription("a")
    spec = msgspec.structs.replace(called.spec, delivery_type="server_sent_event", callback=None)
    output = output_of(published(), msgspec.structs.replace(called, spec=spec))
    record = json.loads(output.value)
    assert (output.topic, record["deliveryType"]) == ("subscribed-7d", "SERVER_SENT_EVENT")
    assert "callback-url" not in record["additionalFields"]


@pytest.mark.parametrize(
    ("resources_offset", "topic"),
    [
        (3, "subscribed-7d"),
        (5, "subscribed-7d"),
        (20, "subscribed-7d"),
        (21, "subscribed-1h"),
        (90, "subscribed-1h"),
    ],
)
def test_the_class_is_the_one_in_force_when_the_event_was_published(
    resources_offset: int, topic: str
) -> None:
    placed = subscription(
        "a", Placement(after=4, retention_class="7d"), Placement(after=20, retention_class="1h")
    )
    output = output_of(published(resources_offset=resources_offset), placed)
    assert (output.topic, output.key) == (topic, b"a")


def test_a_record_that_is_too_large_leaves_a_pointer_in_its_place() -> None:
    huge = b'"' + b"x" * topics.COPIED_BYTES_MAX + b'"'
    output = output_of(published(huge), subscription("a"))
    assert (output.topic, output.reason) == (topics.DEAD_LETTERS, "too_large")
    assert json.loads(output.value)["publishedUuid"] == UUID


def test_whether_an_event_is_too_large_does_not_depend_on_the_subscription() -> None:
    """A repeat has to decide as the first time did, whatever was changed in between."""
    short = subscription("a")
    spec = msgspec.structs.replace(short.spec, callback="https://bi.example/" + "x" * 1_500)
    long = msgspec.structs.replace(short, spec=spec)
    for room in range(0, 2_000, 100):
        event = published(b'"' + b"x" * (topics.COPIED_BYTES_MAX - room) + b'"')
        outputs = [output_of(event, one) for one in (short, long)]
        assert len({output.reason for output in outputs}) == 1
        assert all(len(output.value) < topics.RECORD_BYTES_MAX for output in outputs)


@pytest.mark.parametrize(
    ("names", "outcome"), [([], Outcome.NO_SUBSCRIBER), (["a", "b"], Outcome.MATCHED)]
)
def test_the_routing_record_names_everyone_who_matched(names: list[str], outcome: Outcome) -> None:
    record = routing_record(
        published(),
        EventHead(id="1", type="orders.v1"),
        SOURCE,
        matched=[match_of(published(), subscription(name)) for name in names],
        at="2026-11-20T10:00:01.000Z",
    )
    assert record.outcome is outcome
    assert [match.subscription_id for match in record.matched] == names
    assert [match.uuid for match in record.matched] == [
        ids.subscription_event_uuid(UUID, name) for name in names
    ]
    assert record.matched_count == len(names)
