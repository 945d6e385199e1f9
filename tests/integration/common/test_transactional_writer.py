"""Transactions: several records, and a group's offsets, all or nothing."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from libs.common.errors import FencedOut
from libs.common.kafka import config
from libs.common.kafka.transactions import (
    OffsetMoved,
    OutRecord,
    TransactionAborted,
    TransactionalWriter,
)
from libs.common.partitions import Partition
from libs.common.settings import KafkaSettings
from libs.common.topics import RECORD_BYTES_MAX
from tests.integration.common.topics_and_records import (
    WAIT_S,
    Pair,
    committed,
    eventually,
    new_topic,
    write,
)


class Writers:
    """Writers under one id, closed at the end."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._id = uuid.uuid4().hex
        self._started: list[TransactionalWriter] = []

    async def start(self) -> TransactionalWriter:
        writer = TransactionalWriter(self._kafka, transactional_id=self._id)
        self._started.append(writer)
        await writer.start()
        return writer

    async def close(self) -> None:
        for writer in self._started:
            await writer.close()


@pytest.fixture
async def writers(kafka_settings: KafkaSettings) -> AsyncIterator[Writers]:
    found = Writers(kafka_settings)
    yield found
    await found.close()


def records(topic: str, *pairs: Pair, partition: int = 0) -> list[OutRecord]:
    return [OutRecord(topic, key.encode(), value, partition) for key, value in pairs]


async def commit_again(writer: TransactionalWriter, wanted: list[OutRecord]) -> None:
    """Tries a transaction until it is not aborted, a few times."""
    for _ in range(3):
        with contextlib.suppress(TransactionAborted):
            return await writer.commit(wanted)
    pytest.fail("every transaction was aborted")


async def test_what_was_committed_is_there_in_its_order(
    writers: Writers, kafka_settings: KafkaSettings
) -> None:
    topic = await new_topic(kafka_settings)
    writer = await writers.start()
    await writer.commit(records(topic, ("a", b"1"), ("b", None)))
    await writer.commit(records(topic, ("c", b"3")))
    assert await committed(kafka_settings, topic) == [("a", b"1"), ("b", None), ("c", b"3")]


async def test_a_transaction_spans_topics(writers: Writers, kafka_settings: KafkaSettings) -> None:
    first, second = await new_topic(kafka_settings), await new_topic(kafka_settings)
    writer = await writers.start()
    await writer.commit([*records(first, ("a", b"1")), *records(second, ("b", b"2"))])
    assert await committed(kafka_settings, first) == [("a", b"1")]
    assert await committed(kafka_settings, second) == [("b", b"2")]


async def test_of_a_transaction_that_the_client_refuses_nothing_is_there(
    writers: Writers, kafka_settings: KafkaSettings
) -> None:
    topic = await new_topic(kafka_settings)
    writer = await writers.start()
    with pytest.raises(TransactionAborted):
        await writer.commit(records(topic, ("a", b"1"), ("b", bytes(RECORD_BYTES_MAX + 1))))
    await writer.commit(records(topic, ("c", b"3")))
    assert await committed(kafka_settings, topic) == [("c", b"3")]


async def test_of_a_transaction_that_the_broker_refuses_nothing_is_there(
    writers: Writers, kafka_settings: KafkaSettings
) -> None:
    topic = await new_topic(kafka_settings, config={"max.message.bytes": "1000"})
    writer = await writers.start()
    with pytest.raises(TransactionAborted):
        await writer.commit(records(topic, ("a", b"1"), ("b", bytes(2_000))))
    await commit_again(writer, records(topic, ("c", b"3")))
    assert await committed(kafka_settings, topic) == [("c", b"3")]


async def test_records_that_land_where_they_are_expected_are_committed(
    writers: Writers, kafka_settings: KafkaSettings
) -> None:
    topic = await new_topic(kafka_settings)
    writer = await writers.start()
    await writer.commit(records(topic, ("a", b"1"), ("b", b"2")), first_offset=0)
    await writer.commit(records(topic, ("c", b"3")), first_offset=3)
    assert len(await committed(kafka_settings, topic)) == 3


async def test_records_that_land_elsewhere_are_not_written(
    writers: Writers, kafka_settings: KafkaSettings
) -> None:
    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [("z", b"0")])
    writer = await writers.start()
    with pytest.raises(OffsetMoved):
        await writer.commit(records(topic, ("a", b"1")), first_offset=0)
    assert await committed(kafka_settings, topic) == [("z", b"0")]
    await writer.commit(records(topic, ("a", b"1")), first_offset=3)
    assert await committed(kafka_settings, topic) == [("z", b"0"), ("a", b"1")]


async def test_a_newer_writer_under_the_same_id_shuts_the_older_out_for_good(
    writers: Writers, kafka_settings: KafkaSettings
) -> None:
    topic = await new_topic(kafka_settings)
    older = await writers.start()
    await older.commit(records(topic, ("a", b"old")))
    newer = await writers.start()
    for _ in range(2):
        with pytest.raises(FencedOut):
            await older.commit(records(topic, ("a", b"late")))
    await newer.commit(records(topic, ("a", b"new")))
    assert await committed(kafka_settings, topic) == [("a", b"old"), ("a", b"new")]


async def test_writers_of_different_ids_do_not_disturb_each_other(
    kafka_settings: KafkaSettings,
) -> None:
    topic = await new_topic(kafka_settings)
    pair = [Writers(kafka_settings), Writers(kafka_settings)]
    first, second = [await one.start() for one in pair]
    await asyncio.gather(
        *(writer.commit(records(topic, ("k", b"v"))) for writer in (first, second) * 3)
    )
    assert len(await committed(kafka_settings, topic)) == 6
    for one in pair:
        await one.close()


class Member:
    """A plain static member of a group, and what the group has committed."""

    def __init__(self, kafka: KafkaSettings, topic: str, group: str) -> None:
        self.partition = Partition(kafka.topic_prefix + topic, 0)
        self._consumer = Consumer(config.group_consumer(kafka, group=group, instance="member-0"))
        self._consumer.subscribe([self.partition.topic])

    async def metadata(self) -> object:
        """The member's group metadata, once it has joined."""
        await eventually(self._joined)
        return self._consumer.consumer_group_metadata()

    async def committed(self) -> int:
        asked = [TopicPartition(*self.partition)]
        (found,) = await asyncio.to_thread(self._consumer.committed, asked, WAIT_S)
        return int(found.offset)

    async def close(self) -> None:
        await asyncio.to_thread(self._consumer.close)

    def _joined(self) -> bool:
        self._consumer.poll(0)
        return bool(self._consumer.assignment())


async def test_offsets_are_committed_together_with_the_records_or_not_at_all(
    writers: Writers, kafka_settings: KafkaSettings
) -> None:
    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [("in", b"1")] * 9)
    output = await new_topic(kafka_settings)
    member = Member(kafka_settings, topic, uuid.uuid4().hex)
    metadata = await member.metadata()
    writer = await writers.start()
    await writer.commit(
        records(output, ("a", b"1")), offsets={member.partition: 5}, group_metadata=metadata
    )
    assert await member.committed() == 5
    with pytest.raises(TransactionAborted):
        await writer.commit(
            records(output, ("b", bytes(RECORD_BYTES_MAX + 1))),
            offsets={member.partition: 7},
            group_metadata=metadata,
        )
    assert await member.committed() == 5
    assert await committed(kafka_settings, output) == [("a", b"1")]
    await member.close()


async def test_a_member_that_was_replaced_can_commit_neither_offsets_nor_records(
    writers: Writers, kafka_settings: KafkaSettings
) -> None:
    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [("in", b"1")] * 9)
    output = await new_topic(kafka_settings)
    group = uuid.uuid4().hex
    stalled = Member(kafka_settings, topic, group)
    old = await stalled.metadata()
    successor = Member(kafka_settings, topic, group)
    await successor.metadata()
    writer = await writers.start()
    with pytest.raises(FencedOut):
        await writer.commit(
            records(output, ("a", b"1")), offsets={stalled.partition: 5}, group_metadata=old
        )
    assert await committed(kafka_settings, output) == []
    assert await successor.committed() < 0
    await stalled.close()
    await successor.close()
