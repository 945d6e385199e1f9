"""What every event log of the publish service does: the one on Kafka, and its fake."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from libs.common import topics
from libs.common.errors import TooLarge
from libs.common.kafka import admin, config
from libs.common.kafka.producer import AckProducer
from libs.common.settings import KafkaSettings
from libs.common.testing.event_log import MemoryEventLog
from libs.common.testing.reading import end_offsets, records_since
from libs.common.topics import RECORD_BYTES_MAX, TopicSpec
from services.producer.adapters.event_log import KafkaEventLog
from services.producer.ports import EventLog


@dataclass(frozen=True)
class Subject:
    """An event log, and a look at what it holds: (key, record), equal keys in their order."""

    log: EventLog
    stored: Callable[[], Awaitable[list[tuple[str, bytes]]]]


async def memory_subject() -> AsyncIterator[Subject]:
    log = MemoryEventLog()

    async def stored() -> list[tuple[str, bytes]]:
        return log.records

    yield Subject(log, stored)


async def kafka_subject(bootstrap_servers: str) -> AsyncIterator[Subject]:
    prefix = f"contract-{uuid.uuid4().hex[:8]}-"
    kafka = KafkaSettings(bootstrap_servers=bootstrap_servers, topic_prefix=prefix)
    size = {"max.message.bytes": str(RECORD_BYTES_MAX)}
    await admin.create_topics(
        kafka, [TopicSpec(name=prefix + "published", partitions=2, config=size)]
    )
    start = await end_offsets(kafka, topics.PUBLISHED)

    async def stored() -> list[tuple[str, bytes]]:
        found = await records_since(kafka, topics.PUBLISHED, start)
        return [((m.key() or b"").decode(), m.value() or b"") for m in found]

    async with AckProducer(config.producer(kafka, client_id="contract")) as producer:
        yield Subject(KafkaEventLog(producer, topic_prefix=prefix), stored)


@pytest.fixture(params=["memory", "kafka"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    made = (
        memory_subject()
        if request.param == "memory"
        else kafka_subject(request.getfixturevalue("kafka"))
    )
    async for found in made:
        yield found


async def test_what_was_appended_can_be_read_back_byte_for_byte(subject: Subject) -> None:
    record = b'{ "a" : "\xc3\xa4" }'
    await subject.log.append("key ä", record)
    assert await subject.stored() == [("key ä", record)]


async def test_equal_keys_keep_their_order(subject: Subject) -> None:
    for number in range(20):
        await subject.log.append("same", b"%d" % number)
    assert [record for _, record in await subject.stored()] == [b"%d" % n for n in range(20)]


async def test_many_may_be_appended_at_once(subject: Subject) -> None:
    appends = (subject.log.append(str(number), b"%d" % number) for number in range(200))
    await asyncio.gather(*appends)
    assert sorted(record for _, record in await subject.stored()) == sorted(
        b"%d" % number for number in range(200)
    )


async def test_a_record_over_the_limit_is_refused_and_nothing_is_stored(subject: Subject) -> None:
    with pytest.raises(TooLarge):
        await subject.log.append("key", bytes(RECORD_BYTES_MAX + 1))
    assert await subject.stored() == []
