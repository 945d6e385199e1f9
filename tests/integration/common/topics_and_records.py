"""Topics of a test's own, and records on them, written past the classes under test."""

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Producer

from libs.common.kafka import admin, config, reader
from libs.common.settings import KafkaSettings
from libs.common.topics import TopicSpec

WAIT_S = 30.0
Pair = tuple[str, bytes | None]
"""Key and value; None is a tombstone."""


async def new_topic(
    kafka: KafkaSettings, *, partitions: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Creates an empty topic and gives its name without prefix."""
    name = uuid.uuid4().hex[:8]
    spec = TopicSpec(
        name=kafka.topic_prefix + name, partitions=partitions, config=dict(config or {})
    )
    await admin.create_topics(kafka, [spec])
    return name


async def write(
    kafka: KafkaSettings, topic: str, pairs: Sequence[Pair], *, partition: int = 0
) -> None:
    """Writes records one after the other, and waits until Kafka has them."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0})
    _produce(producer, kafka.topic_prefix + topic, pairs, partition)
    assert await asyncio.to_thread(producer.flush, WAIT_S) == 0


async def write_in_transaction(
    kafka: KafkaSettings, topic: str, pairs: Sequence[Pair], *, end: str
) -> Producer:
    """Writes records in one transaction whose `end` is `commit`, `abort` or `open`."""
    producer = Producer(
        {
            **config.transactional_producer(kafka, transactional_id=uuid.uuid4().hex),
            "transaction.timeout.ms": 1_000,
            "message.timeout.ms": 1_000,
        }
    )
    await asyncio.to_thread(producer.init_transactions, WAIT_S)
    producer.begin_transaction()
    _produce(producer, kafka.topic_prefix + topic, pairs, 0)
    await asyncio.to_thread(producer.flush, WAIT_S)
    if end == "commit":
        await asyncio.to_thread(producer.commit_transaction, WAIT_S)
    elif end == "abort":
        await asyncio.to_thread(producer.abort_transaction, WAIT_S)
    return producer


def _produce(producer: Producer, topic: str, pairs: Sequence[Pair], partition: int) -> None:
    for key, value in pairs:
        producer.produce(topic, key=key, value=value, partition=partition)


async def committed(kafka: KafkaSettings, topic: str, *, partitions: int = 1) -> list[Pair]:
    """All committed records of the topic, partition after partition."""
    found = await asyncio.to_thread(
        reader.read_to_end, kafka, topic, range(partitions), client_id="test-reader"
    )
    found.sort(key=lambda record: (record.partition.number, record.offset))
    return [(record.key.decode(), record.value) for record in found]


async def eventually(condition: Callable[[], Any], *, within_s: float = WAIT_S) -> Any:
    """The first true result of a condition that no event announces; fails after a bounded time."""
    until_s = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < until_s, "the condition did not come true in time"
        await asyncio.sleep(0.02)
    return found
