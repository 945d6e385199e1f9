"""A broker that is killed and comes back: every client goes on, and none gives up."""

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import Iterator

import pytest

from deploy.local.kafka_process import KafkaProcess
from libs.common.kafka import config
from libs.common.kafka.admin import TopicEnds
from libs.common.kafka.producer import AckProducer
from libs.common.kafka.transactions import OutRecord, TransactionAborted, TransactionalWriter
from libs.common.settings import KafkaSettings
from tests.conftest import free_ports
from tests.integration.common.test_compacted_table import following, rows_become
from tests.integration.common.test_group_consumer import Group
from tests.integration.common.topics_and_records import WAIT_S, committed, new_topic


class Broker:
    """A Kafka of this module's own, which may be killed."""

    def __init__(self, process: KafkaProcess) -> None:
        self._process = process
        self.kafka = KafkaSettings(bootstrap_servers=process.bootstrap_servers)

    def kill(self) -> None:
        pid = self._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self._process.stop()

    async def start(self) -> None:
        self._process.start()
        await asyncio.to_thread(self._process.wait_ready)


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    process = KafkaProcess(tmp_path_factory.mktemp("broker"), free_ports().kafka)
    process.start()
    try:
        process.wait_ready()
        yield Broker(process)
    finally:
        process.stop()


async def test_every_client_goes_on_after_the_broker_was_killed(broker: Broker) -> None:
    kafka = broker.kafka
    topic, output = await new_topic(kafka), await new_topic(kafka)
    group = Group(kafka, topic)
    ends = TopicEnds(kafka, client_id="test")
    writer = TransactionalWriter(kafka, transactional_id=uuid.uuid4().hex, only_user=True)
    await writer.start()
    async with (
        AckProducer(gapless(kafka)) as producer,
        following(kafka, topic) as table,
        group.member() as (consumer, listener),
    ):
        await producer.send(topic, key=b"a", value=b"1")
        await writer.commit(transaction(output, 0))
        await listener.until(lambda: len(listener.records) == 1)
        assert await ends.of(topic, 0) == 1
        assert await committed(kafka, output) == [("0", b"0")]
        broker.kill()
        acknowledged = asyncio.get_running_loop().create_future()
        producer.produce(topic, key=b"a", value=b"2", on_ack=acknowledged.set_result)
        with pytest.raises(TransactionAborted):
            await writer.commit(
                transaction(output, 1),
                offsets={group.partition(0): 1},
                group_metadata=consumer.group_metadata,
            )
        await broker.start()
        await asyncio.wait_for(acknowledged, WAIT_S)
        await rows_become(table, {"a": 2})
        await listener.until(lambda: {record.offset for record in listener.records} == {0, 1})
        assert await ends.of(topic, 0) == 2
        for number in (2, 3):
            await until_committed(writer, transaction(output, number))
    assert await committed(kafka, output) == [("0", b"0"), ("2", b"2"), ("3", b"3")]
    await writer.close()


def gapless(kafka: KafkaSettings) -> dict[str, object]:
    return config.gapless_producer(kafka, client_id="test")


def transaction(topic: str, number: int) -> list[OutRecord]:
    value = b"%d" % number
    return [OutRecord(topic, value, value, 0)]


async def until_committed(writer: TransactionalWriter, records: list[OutRecord]) -> None:
    """Tries a transaction until it is not aborted."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(TransactionAborted):
                return await writer.commit(records)
