"""Records on Kafka: what is written can be read, payloads stay as they are."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.common.records import (
    Coordinates,
    DeliveryType,
    Drop,
    EventHead,
    Instance,
    LaneCheckpoint,
    LaneRecord,
    Match,
    Outcome,
    PartitionProgress,
    PublishedEvent,
    Record,
    RoutingRecord,
    Source,
    Status,
    StatusChange,
    SubscriptionEvent,
    decoder,
    encode,
    head_decoder,
)

SOURCE = Source(topic_id="q7ZXtQ", partition=3, leader_epoch=7, offset=1_200)
RAW = b'{ "id":"1",\t"type" : "orders.v1", "data":{"n":1.10,"s":"\\u00e4","n":2} }'
HEAD = EventHead(id="1", type="orders.v1", time="2026-11-20T10:00:00.000Z")
NOW = "2026-11-20T10:00:00.123Z"


def published(event: bytes = RAW) -> PublishedEvent:
    return PublishedEvent(
        uuid="u",
        environment="integration",
        publisher_id="shop",
        published_at=NOW,
        ordering_key="k",
        resources_offset=4_711,
        event=msgspec.Raw(event),
        only_subscriptions=["s"],
        http_headers={"x-custom": ["v", "w"]},
        additional_fields={"n": 1},
    )


def subscription_event() -> SubscriptionEvent:
    return SubscriptionEvent(
        uuid="u",
        multiplexed_from="p",
        environment="integration",
        subscription_id="s",
        subscription_version=812,
        subscriber_id="c",
        publisher_id="shop",
        ordering_key="k",
        source=SOURCE,
        delivery_type=DeliveryType.CALLBACK,
        event_retention_time="7d",
        published_at=NOW,
        event=msgspec.Raw(RAW),
        applied_scopes=["billing"],
    )


def routing_record() -> RoutingRecord:
    return RoutingRecord(
        published_uuid="p",
        source=SOURCE,
        environment="integration",
        event=HEAD,
        publisher_id="shop",
        published_at=NOW,
        at=NOW,
        outcome=Outcome.MATCHED,
        matched=[Match(subscription_id="s", uuid="u")],
        matched_count=1,
        dropped=[Drop(subscription_id="t", code="CONSUMER_FILTER_ERROR")],
        dropped_count=1,
    )


def status_change() -> StatusChange:
    return StatusChange(
        uuid="u",
        subscription_id="s",
        subscriber_id="c",
        publisher_id="shop",
        environment="integration",
        multiplexed_from="p",
        event=HEAD,
        delivery_type=DeliveryType.CALLBACK,
        status=Status.DELIVERED,
        at=NOW,
        published_at=NOW,
        attempt=1,
        coordinates=Coordinates(topic="subscribed-7d", partition=3, offset=812),
        http_status=200,
        duration_ms=12,
    )


CHECKPOINT = LaneCheckpoint(
    lane_id="s", state="PARKED", next_offset=812, reasons=["full"], pending=[790, 801]
)
PROGRESS = PartitionProgress(
    topic="subscribed-7d",
    partition=3,
    committed=790,
    settled_above=[(791, 9), (802, 3)],
    sources={"q7ZXtQ/3": (7, 1_200, "s")},
)
INSTANCE = Instance(address="127.0.0.1:8080", resources_offset=4, at=NOW)


@pytest.mark.parametrize(
    "record",
    [
        SOURCE,
        published(),
        subscription_event(),
        routing_record(),
        status_change(),
        CHECKPOINT,
        PROGRESS,
        INSTANCE,
    ],
    ids=lambda record: type(record).__name__,
)
def test_what_is_written_can_be_read_and_fields_of_later_versions_are_ignored(
    record: Record,
) -> None:
    written = encode(record)
    assert decoder(type(record)).decode(written) == record
    with_more = written[:-1] + b',"fieldOfALaterVersion":{"a":[1]}}'
    assert decoder(type(record)).decode(with_more) == record


def test_a_payload_passes_through_byte_for_byte() -> None:
    written = encode(published())
    assert RAW in written
    again = decoder(PublishedEvent).decode(written)
    assert bytes(again.event) == RAW
    assert RAW in encode(msgspec.structs.replace(subscription_event(), event=again.event))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=9))
def test_any_payload_passes_through_byte_for_byte(data: object) -> None:
    raw = json.dumps({"data": data}, indent=1).encode()
    assert bytes(decoder(PublishedEvent).decode(encode(published(raw))).event) == raw


def test_names_on_the_wire_are_those_of_the_contract() -> None:
    assert set(json.loads(encode(subscription_event()))) == {
        *("uuid", "multiplexedFrom", "environment", "subscriptionId", "subscriptionVersion"),
        *("subscriberId", "publisherId", "orderingKey", "source", "deliveryType", "status"),
        *("eventRetentionTime", "publishedAt", "appliedScopes", "event", "httpHeaders"),
        "additionalFields",
    }
    assert set(json.loads(encode(published()))) == {
        *("uuid", "environment", "status", "publisherId", "publishedAt", "orderingKey"),
        *("resourcesOffset", "onlySubscriptions", "event", "httpHeaders", "additionalFields"),
    }
    assert set(json.loads(encode(status_change()))) == {
        *("uuid", "subscriptionId", "subscriberId", "publisherId", "environment", "event"),
        *("multiplexedFrom", "deliveryType", "status", "at", "publishedAt", "attempt"),
        *("httpStatus", "durationMs", "coordinates", "errorType", "errorMessage", "redeliveryId"),
    }
    assert json.loads(encode(SOURCE)) == {
        "topicId": "q7ZXtQ",
        "partition": 3,
        "leaderEpoch": 7,
        "offset": 1_200,
    }


@pytest.mark.parametrize("record", [CHECKPOINT, PROGRESS])
def test_a_record_of_the_lanes_says_which_kind_it_is(record: LaneRecord) -> None:
    written = encode(record)
    assert json.loads(written)["kind"] == type(record).__name__
    assert msgspec.json.Decoder(LaneRecord).decode(written) == record


def test_a_drop_without_a_trace_has_no_such_member() -> None:
    (drop,) = json.loads(encode(routing_record()))["dropped"]
    assert drop == {"subscriptionId": "t", "code": "CONSUMER_FILTER_ERROR"}


def test_the_head_of_an_event_is_read_without_its_data() -> None:
    assert head_decoder.decode(RAW) == EventHead(id="1", type="orders.v1", time=None)


@pytest.mark.parametrize("broken", [b"", b"null", b"{}", b'{"uuid":1}', b"\xff"])
def test_what_is_no_record_is_a_value_error(broken: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decoder(SubscriptionEvent).decode(broken)
