"""What every producer keeps, in memory and on a real Kafka."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.common.errors import PlatformError, TooLarge
from libs.common.kafka import config
from libs.common.kafka.admin import create_topics
from libs.common.kafka.producer import AckProducer, Stored
from libs.common.settings import KafkaSettings
from libs.common.testing.producer import MemoryProducer
from libs.common.topics import RECORD_BYTES_MAX, TopicSpec

ACKNOWLEDGED_S_MAX = 30.0


class Rig:
    """A producer and the account of what it reported."""

    def __init__(self, producer: AckProducer | MemoryProducer, topic: str) -> None:
        self.producer = producer
        self.topic = topic
        self.reports: list[tuple[bytes, Stored | PlatformError]] = []
        self._reported = asyncio.Event()

    def produce(self, value: bytes) -> None:
        def on_ack(result: Stored | PlatformError) -> None:
            self.reports.append((value, result))
            self._reported.set()

        self.producer.produce(self.topic, key=b"k", value=value, on_ack=on_ack)

    async def all_reported(self, number: int) -> None:
        if isinstance(self.producer, MemoryProducer):
            self.producer.acknowledge()
        async with asyncio.timeout(ACKNOWLEDGED_S_MAX):
            while len(self.reports) < number:
                self._reported.clear()
                await self._reported.wait()


@pytest.fixture(params=["memory", "kafka"])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    if request.param == "memory":
        yield Rig(MemoryProducer(), "t")
        return
    settings: KafkaSettings = request.getfixturevalue("kafka_settings")
    topic = f"{settings.topic_prefix}t-{abs(hash(request.node.name))}"
    properties = {"max.message.bytes": str(RECORD_BYTES_MAX)}
    await create_topics(settings, [TopicSpec(name=topic, partitions=1, config=properties)])
    gapless = config.gapless_producer(settings, client_id="contract")
    async with AckProducer(gapless) as producer:
        yield Rig(producer, topic)


async def test_every_record_is_reported_once_in_the_order_of_the_calls(rig: Rig) -> None:
    values = [b"%d" % number for number in range(500)]
    for value in values:
        rig.produce(value)
    assert rig.reports == []
    await rig.all_reported(len(values))
    assert [value for value, _ in rig.reports] == values
    assert [stored for _, stored in rig.reports] == [
        Stored(rig.topic, 0, offset) for offset in range(500)
    ]
    assert rig.producer.queued == 0


async def test_a_record_that_is_too_large_is_refused_at_once(rig: Rig) -> None:
    with pytest.raises(TooLarge):
        rig.produce(b"x" * (RECORD_BYTES_MAX + 1))
    rig.produce(b"small")
    await rig.all_reported(1)
    assert [value for value, _ in rig.reports] == [b"small"]
