"""The producer that reports what Kafka has acknowledged."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator

import pytest

from libs.common.errors import AckTimeout, KafkaUnavailable, Overloaded, PlatformError, TooLarge
from libs.common.kafka import config
from libs.common.kafka.producer import AckProducer, ProducerFailed, Stored
from libs.common.partitions import Partition, partition_of
from libs.common.settings import KafkaSettings
from libs.common.testing.reading import records_since
from libs.common.topics import RECORD_BYTES_MAX
from tests.integration.common.topics_and_records import (
    WAIT_S,
    committed,
    eventually,
    new_topic,
)

SMALL = {"max.message.bytes": "1000"}


@pytest.fixture
async def producer(kafka_settings: KafkaSettings) -> AsyncIterator[AckProducer]:
    async with AckProducer(config.producer(kafka_settings, client_id="test")) as found:
        yield found


@pytest.fixture
async def nowhere() -> AsyncIterator[KafkaSettings]:
    """Settings that lead to a port where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield KafkaSettings(bootstrap_servers=f"127.0.0.1:{taken.getsockname()[1]}")


async def test_records_are_reported_with_their_places_in_their_order(
    producer: AckProducer, kafka_settings: KafkaSettings
) -> None:
    topic = await new_topic(kafka_settings)
    name = kafka_settings.topic_prefix + topic
    sent = [producer.send(name, key=b"k", value=b"%d" % number) for number in range(100)]
    async with asyncio.timeout(WAIT_S):
        places = await asyncio.gather(*sent)
    assert places == [Stored(name, 0, offset) for offset in range(100)]
    assert await committed(kafka_settings, topic) == [("k", b"%d" % n) for n in range(100)]


async def test_each_record_is_reported_once_in_the_event_loop(
    producer: AckProducer, kafka_settings: KafkaSettings
) -> None:
    name = kafka_settings.topic_prefix + await new_topic(kafka_settings)
    reports: list[tuple[int, int]] = []
    for number in range(500):

        def on_ack(_: object, number: int = number) -> None:
            reports.append((number, threading.get_ident()))

        producer.produce(name, key=None, value=b"v", on_ack=on_ack)
    assert reports == []
    assert await producer.flush(WAIT_S)
    assert reports == [(number, threading.get_ident()) for number in range(500)]
    assert producer.queued == 0


async def test_after_a_flush_everything_acknowledged_has_been_reported(
    producer: AckProducer, kafka_settings: KafkaSettings
) -> None:
    name = kafka_settings.topic_prefix + await new_topic(kafka_settings)
    reports: list[Stored | PlatformError] = []
    for number in range(1, 41):
        producer.produce(name, key=None, value=b"v", on_ack=reports.append)
        assert await producer.flush(WAIT_S)
        assert len(reports) == number


async def test_leaving_waits_for_what_is_outstanding(kafka_settings: KafkaSettings) -> None:
    name = kafka_settings.topic_prefix + await new_topic(kafka_settings)
    properties = config.producer(kafka_settings, client_id="test", linger_ms=200)
    async with AckProducer(properties) as producer:
        sent = [producer.send(name, key=None, value=b"v") for _ in range(10)]
    assert [future.result().offset for future in sent] == list(range(10))


async def test_headers_and_times_are_written_as_given(
    producer: AckProducer, kafka_settings: KafkaSettings
) -> None:
    topic = await new_topic(kafka_settings)
    name = kafka_settings.topic_prefix + topic
    headers = [("reason", b"too_large"), ("reason", b"\x00")]
    await producer.send(name, key=b"k", value=None, headers=headers, timestamp_ms=1_795_168_800_123)
    (message,) = await records_since(kafka_settings, topic, {0: 0})
    assert message.headers() == headers
    assert message.timestamp()[1] == 1_795_168_800_123
    assert message.value() is None


async def test_a_key_goes_to_the_partition_where_java_clients_put_it(
    producer: AckProducer, kafka_settings: KafkaSettings
) -> None:
    name = kafka_settings.topic_prefix + await new_topic(kafka_settings, partitions=16)
    murmur2 = {"21": -973_932_308, "foobar": -790_332_482, "a-little-bit-long-string": -985_981_536}
    for key, hashed in murmur2.items():
        place = await producer.send(name, key=key.encode(), value=b"v")
        assert place.partition == (hashed & 0x7FFF_FFFF) % 16
        assert place.partition == partition_of(key.encode(), 16)


async def test_a_partition_can_be_named_instead_of_chosen(
    producer: AckProducer, kafka_settings: KafkaSettings
) -> None:
    name = kafka_settings.topic_prefix + await new_topic(kafka_settings, partitions=16)
    for number in (0, 15):
        place = await producer.send(Partition(name, number), key=b"21", value=b"v")
        assert (place.topic, place.partition) == (name, number)


async def test_a_record_over_the_producers_limit_is_refused_at_once(
    producer: AckProducer, kafka_settings: KafkaSettings
) -> None:
    name = kafka_settings.topic_prefix + await new_topic(kafka_settings)
    with pytest.raises(TooLarge):
        producer.send(name, key=None, value=bytes(RECORD_BYTES_MAX + 1))


async def test_a_record_over_the_topics_limit_is_reported_as_too_large(
    producer: AckProducer, kafka_settings: KafkaSettings
) -> None:
    name = kafka_settings.topic_prefix + await new_topic(kafka_settings, config=SMALL)
    with pytest.raises(TooLarge):
        await producer.send(name, key=None, value=bytes(2_000))
    assert (await producer.send(name, key=None, value=b"v")).offset == 0


async def test_once_no_broker_answers_nothing_more_is_queued(nowhere: KafkaSettings) -> None:
    properties = {**config.producer(nowhere, client_id="test"), "message.timeout.ms": 200}
    async with AckProducer(properties) as producer:
        await eventually(lambda: not producer.is_reachable)
        with pytest.raises(KafkaUnavailable) as error:
            producer.send("t", key=None, value=b"v")
        assert error.value.delay_s is not None


async def test_a_record_that_is_not_acknowledged_in_time_may_or_may_not_be_stored(
    nowhere: KafkaSettings,
) -> None:
    properties = {**config.producer(nowhere, client_id="test"), "message.timeout.ms": 200}
    reported: asyncio.Future[Stored | PlatformError] = asyncio.get_running_loop().create_future()
    async with AckProducer(properties) as producer, asyncio.timeout(WAIT_S):
        producer.produce("t", key=None, value=b"v", on_ack=reported.set_result)
        assert isinstance(await reported, AckTimeout)


async def test_a_full_queue_is_overload(nowhere: KafkaSettings) -> None:
    properties = {
        **config.producer(nowhere, client_id="test"),
        "message.timeout.ms": 200,
        "queue.buffering.max.messages": 2,
    }
    async with AckProducer(properties) as producer:
        for _ in range(2):
            producer.produce("t", key=None, value=b"v", on_ack=lambda _: None)
        with pytest.raises(Overloaded):
            producer.produce("t", key=None, value=b"v", on_ack=lambda _: None)


async def test_a_gap_ends_a_producer_that_promised_none(kafka_settings: KafkaSettings) -> None:
    topic = await new_topic(kafka_settings, config=SMALL)
    name = kafka_settings.topic_prefix + topic
    reports: list[Stored | PlatformError] = []
    async with AckProducer(config.gapless_producer(kafka_settings, client_id="test")) as producer:
        producer.produce(name, key=None, value=bytes(2_000), on_ack=reports.append)
        producer.produce(name, key=None, value=b"v", on_ack=reports.append)
        with pytest.raises(ProducerFailed, match="gap"):
            await asyncio.wait_for(producer.watch(), WAIT_S)
        with pytest.raises(ProducerFailed):
            producer.produce(name, key=None, value=b"v", on_ack=reports.append)
    assert [isinstance(report, PlatformError) for report in reports] == [True, True]
    assert await committed(kafka_settings, topic) == []


@pytest.mark.parametrize("error", [ProducerFailed("no"), KeyError("no")])
async def test_an_error_in_a_report_ends_the_producer(
    producer: AckProducer, kafka_settings: KafkaSettings, error: Exception
) -> None:
    def on_ack(_: object) -> None:
        raise error

    name = kafka_settings.topic_prefix + await new_topic(kafka_settings)
    producer.produce(name, key=None, value=b"v", on_ack=on_ack)
    with pytest.raises(ProducerFailed, match="no"):
        await asyncio.wait_for(producer.watch(), WAIT_S)


async def test_a_caller_that_gave_up_disturbs_nobody(
    producer: AckProducer, kafka_settings: KafkaSettings
) -> None:
    name = kafka_settings.topic_prefix + await new_topic(kafka_settings)
    producer.send(name, key=None, value=b"1").cancel()
    assert (await producer.send(name, key=None, value=b"2")).offset == 1
