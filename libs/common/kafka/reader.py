"""Reading a piece of a topic once: partitions to their end, or single records by offset.

Blocking functions, each with a consumer of its own; call them in a thread.
"""

import time
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from libs.common.errors import KafkaUnavailable
from libs.common.kafka import config
from libs.common.kafka.consumer import as_record
from libs.common.kafka.table import METADATA_S, end_offsets
from libs.common.partitions import ConsumedRecord, Partition
from libs.common.settings import KafkaSettings

BATCH_MAX = 500
POLL_S = 0.1
IDLE_S_MAX = 20.0
FROM_BEGINNING = OFFSET_BEGINNING


def read_to_end(
    kafka: KafkaSettings, topic: str, partitions: Sequence[int], *, client_id: str
) -> list[ConsumedRecord]:
    """All committed records up to the end that is listed now, uncommitted records included.

    `topic` is without prefix. Waits for a transaction that another process left open to be ended by
    the broker. Raises KafkaUnavailable when nothing moves for 20 s.
    """
    starts = dict.fromkeys(partitions, FROM_BEGINNING)
    return list(scan_to_end(kafka, topic, starts, client_id=client_id))


def scan_to_end(
    kafka: KafkaSettings, topic: str, starts: Mapping[int, int], *, client_id: str
) -> Iterator[ConsumedRecord]:
    """As `read_to_end`, one record after the other, for topics that need not fit into memory.

    `starts` has the offset of each partition at which to begin, FROM_BEGINNING for the first one
    that the broker still has.
    """
    name = kafka.topic_prefix + topic
    admin = AdminClient(config.silent(kafka, client_id=client_id))
    ends = end_offsets(admin, name, list(starts))
    consumer = Consumer(config.reader(kafka, client_id=client_id))
    try:
        _find_leaders(consumer, name)
        consumer.assign([TopicPartition(name, number, starts[number]) for number in ends])
        yield from _until(consumer, ends)
    finally:
        consumer.close()


def _find_leaders(consumer: Consumer, topic: str) -> None:
    """Asks for the topic's leaders: without them a client waits 0.5 s before it finds a start."""
    try:
        consumer.list_topics(topic, timeout=METADATA_S)
    except KafkaException as error:
        raise KafkaUnavailable(f"leaders of {topic}: {error.args[0].str()}") from error


def read_offsets(
    kafka: KafkaSettings, partition: Partition, offsets: Sequence[int], *, client_id: str
) -> Iterator[ConsumedRecord]:
    """The records at the ascending offsets, those that still exist; raises KafkaUnavailable."""
    if not offsets:
        return
    wanted = set(offsets)
    properties = {**config.reader(kafka, client_id=client_id), "auto.offset.reset": "earliest"}
    consumer = Consumer(properties)
    try:
        consumer.assign([TopicPartition(*partition, offsets[0])])
        for record in _until(consumer, {partition.number: offsets[-1] + 1}):
            if record.offset in wanted:
                yield record
    finally:
        consumer.close()


def _until(consumer: Consumer, ends: dict[int, int]) -> Iterator[ConsumedRecord]:
    """Records below the end of each partition, until all of them are reached."""
    missing = {number for number, end in ends.items() if end > 0}
    idle_since_s = time.monotonic()
    while missing:
        first = consumer.poll(POLL_S)
        if first is None:
            if time.monotonic() - idle_since_s > IDLE_S_MAX:
                raise KafkaUnavailable(f"partitions {sorted(missing)} could not be read to the end")
            continue
        idle_since_s = time.monotonic()
        for message in [first, *consumer.consume(BATCH_MAX - 1, 0)]:
            number, position = _progress(message)
            if position >= ends[number]:
                missing.discard(number)
            if message.error() is None and position <= ends[number]:
                yield as_record(message)


def _progress(message: Message) -> tuple[int, int]:
    """Partition, and the offset below which everything has been seen."""
    error = message.error()
    number, offset = message.partition(), message.offset()
    if number is None or offset is None:
        raise KafkaUnavailable(f"a record without a place: {error}")
    if error is None:
        return number, offset + 1
    if error.code() == KafkaError._PARTITION_EOF:
        return number, offset
    raise KafkaUnavailable(f"partition {number} cannot be read: {error.str()}")
