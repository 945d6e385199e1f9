"""Publishing on a real Kafka: what is answered, and what stands on `published` afterwards."""

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from libs.common import clock, topics
from libs.common.records import PublishedEvent
from libs.common.settings import KafkaSettings
from libs.common.testing.reading import end_offsets
from tests.integration.producer_app import (
    BIG,
    EVENT_ID,
    LEGACY,
    LONELY,
    PATH,
    SHOP,
    SUBSCRIBED,
    Producer,
    body,
    event,
    prepare,
    running,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRACE = "463ac35c9f6413ad48485a3953bb6124"
SPAN = "a2fb4a1d1a96d312"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def producer(kafka_settings: KafkaSettings) -> AsyncIterator[Producer]:
    await prepare(kafka_settings)
    async with running(kafka_settings, max_data_exempt_types=BIG) as found:
        yield found


async def published(
    producer: Producer, raw: bytes, *, path: str = PATH, **headers: str
) -> tuple[httpx.Response, PublishedEvent]:
    """Publishes one event that is stored; the answer and the one new record."""
    before = await producer.ends()
    sent = producer.headers(**headers)
    answer = await producer.client.post(path, content=raw, headers=sent)
    assert answer.status_code in {201, 202}, answer.text
    ((_, record),) = await producer.stored_since(before)
    return answer, record


def event_of(record: PublishedEvent) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(record.event)
    return found


async def test_an_event_is_answered_201_once_it_is_stored(producer: Producer) -> None:
    answer, record = await published(producer, body(), x_custom="v")
    assert (answer.status_code, answer.content) == (201, b"")
    assert uuid.UUID(record.uuid).version == 7
    assert (record.environment, record.publisher_id) == ("integration", SHOP)
    assert (record.status, record.only_subscriptions) == ("PROCESSED", None)
    assert record.http_headers["x-custom"] == ["v"]
    received_ms = clock.to_ms(clock.from_text(record.published_at))
    assert record.additional_fields == {"system-horizon-event-startTime": received_ms}
    assert event_of(record) == event(time=record.published_at)


async def test_the_record_names_the_resources_that_the_decision_was_made_on(
    producer: Producer,
) -> None:
    ends = await end_offsets(producer.settings.kafka, topics.RESOURCES)
    _, record = await published(producer, body())
    assert record.resources_offset == ends[0]


@pytest.mark.parametrize(
    "data",
    [
        b'{ "a" :  1.0,\n\t"b": [ 1e5, 1E400, -0 ] }',
        b'"\\u00e9\\/ \xe2\x82\xac"',
        b"12345678901234567890123456789.000",
        b'{"a":1,"a":2}',
        b'{"big":"' + b"x" * 1_000_000 + b'"}',
    ],
    ids=["spaces", "escapes", "digits", "repeated", "big"],
)
async def test_data_is_stored_byte_for_byte(producer: Producer, data: bytes) -> None:
    _, record = await published(producer, body(data="@").replace(b'"@"', data))
    members = msgspec.json.decode(record.event, type=dict[str, msgspec.Raw])
    assert bytes(memoryview(members["data"])) == data


async def test_nobody_subscribed_is_answered_202_and_stored_nevertheless(
    producer: Producer,
) -> None:
    answer, record = await published(producer, body(type=LONELY))
    assert answer.status_code == 202
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["type"] == "urn:meridian:problem:no-subscriber"
    assert (found["status"], found["instance"]) == (202, PATH)
    assert event_of(record)["type"] == LONELY


async def test_a_publisher_that_only_a_subscription_names_may_publish(producer: Producer) -> None:
    answer, _ = await published(producer, body(type=LEGACY))
    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({}, EVENT_ID),
        ({"subject": "order-7"}, "https://shop.example/orders order-7"),
        ({"subject": "order-7", "partitionkey": "customer-1"}, "customer-1"),
    ],
)
async def test_the_ordering_key_is_the_key_on_kafka(
    producer: Producer, fields: dict[str, Any], key: str
) -> None:
    before = await producer.ends()
    answer = await producer.client.post(PATH, content=body(**fields), headers=producer.headers())
    assert answer.status_code == 201
    ((message, record),) = await producer.stored_since(before)
    assert (message.key() or b"").decode() == record.ordering_key == key


async def test_extensions_subject_and_schema_are_kept_and_nulls_are_not(producer: Producer) -> None:
    fields = {"subject": "s", "dataschema": "urn:x", "tenant": "t", "count": 3, "flag": True}
    _, record = await published(producer, body(**fields, unset=None))
    assert event_of(record) == event(**fields, time=record.published_at)


async def test_a_structured_cloudevent_needs_no_uuid_and_no_data(producer: Producer) -> None:
    raw = body(id="order 7", data=..., time="2026-11-20T10:00:00Z")
    _, record = await published(producer, raw, content_type="application/cloudevents+json")
    assert event_of(record) == event(id="order 7", data=..., time="2026-11-20T10:00:00Z")


def binary(**more: str) -> dict[str, str]:
    attributes = {"id": "7", "type": SUBSCRIBED, "source": "/shop", "specversion": "1.0", **more}
    return {f"ce_{name}": value for name, value in attributes.items()}


async def test_a_binary_cloudevent_with_json_keeps_its_body_as_data(producer: Producer) -> None:
    raw = b'{ "order": 1.0 }'
    _, record = await published(producer, raw, **binary(subject="%E2%82%AC", tenant="t"))
    members = msgspec.json.decode(record.event, type=dict[str, msgspec.Raw])
    assert bytes(memoryview(members["data"])) == raw
    assert event_of(record) | {"data": 0} == {
        "id": "7",
        "type": SUBSCRIBED,
        "source": "/shop",
        "specversion": "1.0",
        "subject": "€",
        "tenant": "t",
        "datacontenttype": "application/json",
        "time": record.published_at,
        "data": 0,
    }
    assert not any(name.startswith("ce-") for name in record.http_headers)


async def test_a_binary_cloudevent_of_another_type_travels_in_base64(producer: Producer) -> None:
    raw = bytes(range(256))
    _, record = await published(producer, raw, **binary(), content_type="image/png")
    found = event_of(record)
    assert base64.b64decode(found["data_base64"]) == raw
    assert (found["datacontenttype"], "data" in found) == ("image/png", False)


async def test_exempt_types_may_have_more_data(producer: Producer) -> None:
    answer, _ = await published(producer, body(type=BIG, data="x" * 1_200_000))
    assert answer.status_code == 202


@pytest.mark.parametrize("path", ["/v1/integration/events/", "/horizon/events/v1"])
async def test_the_other_spellings_of_the_path_are_served(producer: Producer, path: str) -> None:
    answer, record = await published(producer, body(), path=path)
    assert (answer.status_code, record.environment) == (201, "integration")


@pytest.mark.parametrize("path", [PATH, "/horizon/events/v1/"])
async def test_realm_default_publishes_to_the_default_environment(
    producer: Producer, path: str
) -> None:
    token = producer.issuer.token(SHOP, realm="default")
    _, record = await published(producer, body(), path=path, authorization=f"Bearer {token}")
    assert record.environment == "integration"


async def test_a_client_that_only_azp_names_is_known(producer: Producer) -> None:
    token = producer.issuer.token(SHOP, clientId=None, azp=SHOP)
    _, record = await published(producer, body(), authorization=f"Bearer {token}")
    assert record.publisher_id == SHOP


async def test_secrets_and_connection_headers_do_not_travel(producer: Producer) -> None:
    _, record = await published(
        producer, body(), cookie="c", x_forwarded_for="1.2.3.4", tracestate="a=b"
    )
    assert set(record.http_headers) == {
        *("user-agent", "tracestate", "traceparent", "x-b3-traceid", "x-b3-spanid"),
        "x-b3-sampled",
    }


async def test_a_trace_is_continued_in_the_record_and_named_in_the_answer(
    producer: Producer,
) -> None:
    answer, record = await published(producer, body(), b3=f"{TRACE}-{SPAN}-0")
    assert answer.headers["x-b3-traceid"] == TRACE
    assert answer.headers["x-b3-sampled"] == "0"
    assert record.http_headers["x-b3-traceid"] == [TRACE]
    assert record.http_headers["x-b3-parentspanid"] == [SPAN]
    (traceparent,) = record.http_headers["traceparent"]
    assert traceparent == f"00-{TRACE}-{record.http_headers['x-b3-spanid'][0]}-00"


async def test_head_tells_that_the_service_answers(producer: Producer) -> None:
    answer = await producer.client.head(PATH)
    assert (answer.status_code, answer.content) == (204, b"")
    assert clock.from_text(answer.headers["x-health-check-timestamp"])


async def test_many_at_once_are_each_stored_once(producer: Producer) -> None:
    before = await producer.ends()
    ids = [str(uuid.uuid4()) for _ in range(100)]
    headers = producer.headers()
    answers = await asyncio.gather(
        *(producer.client.post(PATH, content=body(id=one), headers=headers) for one in ids)
    )
    assert {answer.status_code for answer in answers} == {201}
    found = [event_of(record)["id"] for _, record in await producer.stored_since(before)]
    assert sorted(found) == sorted(ids)


async def test_the_api_describes_itself(producer: Producer) -> None:
    found = (await producer.client.get("/openapi.json")).json()
    assert {"post", "head"} <= set(found["paths"]["/v1/{environment}/events"])
    assert {"201", "202", "400", "413", "504"} <= set(
        found["paths"]["/horizon/events/v1"]["post"]["responses"]
    )
    assert json.dumps(found).count("#/components/schemas/Problem") > 5
