"""Looking for an event on Kafka: whole topics at first, then only what has come since."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from libs.cli.errors import CommandFailed
from libs.cli.event_search import Search
from libs.common import topics
from libs.common.kafka import admin, config
from libs.common.kafka.producer import AckProducer
from libs.common.records import PublishedEvent, Status, encode
from libs.common.settings import KafkaSettings
from tests.unit.cli import events
from tests.unit.cli.events import EVENT, change, routing


@dataclass(slots=True)
class Log:
    """Writes records as the services do."""

    kafka: KafkaSettings
    producer: AckProducer

    async def write(self, topic: str, *records: Any) -> None:
        for record in records:
            value = record if isinstance(record, bytes) else encode(record)
            name = self.kafka.topic_prefix + topic
            await self.producer.send(name, key=b"k", value=value)


@pytest.fixture
async def log(kafka_settings: KafkaSettings) -> AsyncIterator[Log]:
    """All topics of a platform; they keep what earlier tests of the module wrote."""
    specs = topics.topic_specs(prefix=kafka_settings.topic_prefix, embedded=True)
    await admin.create_topics(kafka_settings, specs)
    async with AckProducer(config.producer(kafka_settings, client_id="test")) as producer:
        yield Log(kafka_settings, producer)


async def test_a_second_look_adds_what_has_come_since(log: Log) -> None:
    search = Search(log.kafka, EVENT.id)
    await log.write(topics.ROUTED, routing("s-1"), b"not a record, though it has " + id_bytes())
    first = await asyncio.to_thread(search.look)
    assert first.routing == routing("s-1")
    assert first.changes == ()
    delivered = change("s-1", Status.DELIVERED)
    await log.write(topics.STATUS, delivered)
    second = await asyncio.to_thread(search.look)
    assert second.routing == routing("s-1")
    assert second.changes == (delivered,)
    assert second.looked_through == first.looked_through + 1


async def test_of_events_with_one_id_the_newest_counts(log: Log) -> None:
    newer = routing("s-1", uuid="p-2", seconds=60)
    await log.write(topics.ROUTED, newer, routing("s-1"))
    found = await asyncio.to_thread(Search(log.kafka, EVENT.id).look)
    assert found.routing == newer
    assert found.routed_count == 2


async def test_an_event_that_is_only_stored_is_found_too(log: Log) -> None:
    head = msgspec.structs.replace(EVENT, id="2f1d7f0e-6c0b-4a5e-9d0a-0d2f4c8c7a11")
    published = PublishedEvent(
        uuid="p-3",
        environment="integration",
        publisher_id="eni--a--shop",
        published_at=events.at(0),
        ordering_key="k",
        resources_offset=0,
        event=msgspec.Raw(encode(head)),
    )
    await log.write(topics.PUBLISHED, published)
    found = await asyncio.to_thread(Search(log.kafka, head.id).look)
    assert found.routing is None
    assert found.published is not None
    assert found.published.uuid == "p-3"


async def test_topics_that_are_missing_are_named(kafka_settings: KafkaSettings) -> None:
    elsewhere = kafka_settings.model_copy(update={"topic_prefix": "absent-"})
    with pytest.raises(CommandFailed, match=r"cannot be read: topic absent-\w+ does not exist"):
        await asyncio.to_thread(Search(elsewhere, EVENT.id).look)


def id_bytes() -> bytes:
    """The id as it stands in a record."""
    return encode(EVENT.id)
