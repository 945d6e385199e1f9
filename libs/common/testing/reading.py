"""Reads topics back in tests: where they end, and what stands between two ends."""

import asyncio

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from libs.common.kafka import config
from libs.common.settings import KafkaSettings

TIMEOUT_S = 20.0

Ends = dict[int, int]
"""End offset by partition."""


async def end_offsets(kafka: KafkaSettings, topic: str) -> Ends:
    """Where each partition of the topic (named without prefix) ends now."""
    return await asyncio.to_thread(_end_offsets, kafka, topic)


async def records_since(kafka: KafkaSettings, topic: str, ends: Ends) -> list[Message]:
    """Everything that was written after `ends`, by partition and offset."""
    return await asyncio.to_thread(_records_since, kafka, topic, ends)


def _consumer(kafka: KafkaSettings) -> Consumer:
    return Consumer(config.reader(kafka, client_id="test-reader"))


def _end_offsets(kafka: KafkaSettings, topic: str) -> Ends:
    name = kafka.topic_prefix + topic
    consumer = _consumer(kafka)
    try:
        partitions = consumer.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions
        return {
            partition: consumer.get_watermark_offsets(
                TopicPartition(name, partition), timeout=TIMEOUT_S
            )[1]
            for partition in partitions
        }
    finally:
        consumer.close()


def _records_since(kafka: KafkaSettings, topic: str, ends: Ends) -> list[Message]:
    name = kafka.topic_prefix + topic
    now = _end_offsets(kafka, topic)
    wanted = sum(now[partition] - ends[partition] for partition in now)
    consumer = _consumer(kafka)
    found: list[Message] = []
    try:
        consumer.assign([TopicPartition(name, p, offset) for p, offset in ends.items()])
        while len(found) < wanted:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise TimeoutError(f"{name}: {len(found)} of {wanted} records came")
            if message.error() is None:
                found.append(message)
    except KafkaException as error:
        raise AssertionError(f"{name} cannot be read: {error}") from error
    finally:
        consumer.close()
    return sorted(found, key=lambda message: (message.partition() or 0, message.offset() or 0))
