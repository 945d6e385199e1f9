"""What is stored of an event, and whether it may be."""

import json
from typing import Any

import pytest

from libs.common.errors import InvalidEvent, NotAPublisher, TooLarge, UnknownEventType, Violation
from libs.common.records import PublishedEvent, decoder
from libs.common.topics import PUBLISHED_BYTES_MAX
from services.producer.domain import stored
from services.producer.domain.parts import Parts, from_json
from services.producer.domain.stored import Receipt, Registration, SizeLimit, ordering_key

RECEIPT = Receipt(
    uuid="018f3c1e-7a52-7bd0-9c1f-2f6d1c1a9b10",
    environment="integration",
    publisher_id="eni--orders--shop",
    received_at="2026-11-20T10:00:00.123Z",
    received_at_ms=1_795_168_800_123,
)
BODY = b'{"id":"1","type":"t","source":"s","specversion":"1.0","data":{ "x" : 1.0 },"ext":"e"}'


def record(body: bytes, headers: dict[str, list[str]] | None = None) -> tuple[str, PublishedEvent]:
    key, value = stored.record_of(
        from_json(body), RECEIPT, resources_offset=7, http_headers=headers or {}
    )
    return key, decoder(PublishedEvent).decode(value)


def test_the_record_says_who_published_what_when_and_what_was_known() -> None:
    key, found = record(BODY, {"x-custom": ["v"]})
    assert key == found.ordering_key == "1"
    assert (found.uuid, found.environment) == (RECEIPT.uuid, "integration")
    assert (found.publisher_id, found.published_at) == ("eni--orders--shop", RECEIPT.received_at)
    assert (found.status, found.resources_offset, found.only_subscriptions) == (
        "PROCESSED",
        7,
        None,
    )
    assert found.http_headers == {"x-custom": ["v"]}
    assert found.additional_fields == {"system-horizon-event-startTime": RECEIPT.received_at_ms}


def test_data_is_stored_byte_for_byte_and_extensions_are_kept() -> None:
    event = bytes(memoryview(record(BODY)[1].event))
    assert b'"data":{ "x" : 1.0 }' in event
    assert json.loads(event)["ext"] == "e"


def test_an_absent_time_becomes_the_time_of_receipt_and_a_given_one_stays() -> None:
    assert json.loads(bytes(memoryview(record(BODY)[1].event)))["time"] == RECEIPT.received_at
    given = BODY.replace(b'"ext":"e"', b'"time":"2020-01-01T00:00:00Z"')
    event = json.loads(bytes(memoryview(record(given)[1].event)))
    assert event["time"] == "2020-01-01T00:00:00Z"


def test_an_event_without_data_has_none_in_the_record() -> None:
    event = json.loads(bytes(memoryview(record(b'{"id":"1","subject":null}')[1].event)))
    assert event == {"id": "1", "time": RECEIPT.received_at}


def test_a_record_over_the_limit_is_too_large() -> None:
    filler = b"x" * (PUBLISHED_BYTES_MAX - len(BODY))
    with pytest.raises(TooLarge, match="with its headers"):
        record(BODY.replace(b"1.0 }", b'"' + filler + b'" }'))


@pytest.mark.parametrize(
    ("attributes", "key"),
    [
        ({"id": "1", "source": "s"}, "1"),
        ({"id": "1", "source": "s", "subject": ""}, "1"),
        ({"id": "1", "source": "s", "subject": "order-7"}, "s order-7"),
        ({"id": "1", "source": "s", "subject": "order-7", "partitionkey": "p"}, "p"),
    ],
)
def test_the_ordering_key_is_the_most_specific_wish(attributes: dict[str, Any], key: str) -> None:
    assert ordering_key(attributes) == key


def test_violations_are_all_listed_sorted_and_named_in_the_text() -> None:
    with pytest.raises(InvalidEvent) as caught:
        stored.check_fields([Violation("/type", "is bad"), Violation("/id", "is missing")])
    assert [v.pointer for v in caught.value.violations] == ["/id", "/type"]
    assert str(caught.value) == "/id is missing; /type is bad."


def test_the_text_names_ten_violations_and_counts_the_rest() -> None:
    with pytest.raises(InvalidEvent, match="and 2 more") as caught:
        stored.check_fields([Violation(f"/{number}", "is bad") for number in range(12)])
    assert len(caught.value.violations) == 12


def parts(data_bytes: int, event_type: str = "t") -> Parts:
    body = {"type": event_type, "data": "x" * (data_bytes - 2)}
    return from_json(json.dumps(body).encode())


def test_data_up_to_the_limit_passes_and_a_byte_more_does_not() -> None:
    stored.check_size(parts(100), SizeLimit(data_bytes_max=100))
    with pytest.raises(TooLarge, match="101 bytes"):
        stored.check_size(parts(101), SizeLimit(data_bytes_max=100))


def test_exempt_types_are_not_limited() -> None:
    limit = SizeLimit(data_bytes_max=100, exempt_types=frozenset({"big.v1"}))
    stored.check_size(parts(101, "big.v1"), limit)
    with pytest.raises(TooLarge):
        stored.check_size(parts(101, "other.v1"), limit)


def registration(*publishers: str, is_known: bool = True) -> Registration:
    return Registration(
        resources_offset=1,
        is_known=is_known,
        has_subscribers=False,
        publishers=frozenset(publishers),
    )


def test_a_publisher_of_the_type_may_publish() -> None:
    stored.check_publisher(registration("other", RECEIPT.publisher_id), RECEIPT, "t")


def test_another_client_may_not() -> None:
    with pytest.raises(NotAPublisher, match="eni--orders--shop is not a publisher of t"):
        stored.check_publisher(registration("other"), RECEIPT, "t")


def test_an_unknown_type_is_refused_before_ownership() -> None:
    with pytest.raises(UnknownEventType):
        stored.check_publisher(registration(is_known=False), RECEIPT, "t")
