"""Floor of delivery: POSTs each record, 64 at once, and keeps durable track of it.

A status record an event, and every 200 ms a transaction with a checkpoint record for each partition
that moved and the group's offsets. No retry, no lane, no repeat filter, no subscription.
"""

import argparse
import asyncio
import signal
import threading
import time
from collections import deque
from functools import partial
from typing import Any, Final

import aiohttp
import msgspec
import uvloop
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from bench.floor import topics
from libs.common.errors import PlatformError
from libs.common.kafka import config
from libs.common.kafka.producer import AckProducer, Stored
from libs.common.kafka.transactions import OutRecord, TransactionalWriter
from libs.common.partitions import Partition
from libs.common.settings import KafkaSettings

IN_FLIGHT_MAX: Final = 64
WAITING_MAX: Final = 5_000
CHECKPOINT_S: Final = 0.2
STATUS_LINGER_MS: Final = 50
POLL_S: Final = 0.1
FULL_S: Final = 0.001
BATCH_MAX: Final = 500
NAME: Final = "bench-floor-deliver"


class Intake(threading.Thread):
    """Reads the topic and hands batches to the event loop."""

    def __init__(self, kafka: KafkaSettings, delivery: "Delivery") -> None:
        super().__init__(name="intake", daemon=True)
        self._delivery = delivery
        self._loop = asyncio.get_running_loop()
        self._closing = threading.Event()
        self.group_metadata: Any = None
        self._consumer = Consumer(
            {
                **config.group_consumer(kafka, group=NAME, instance=NAME),
                "auto.offset.reset": "earliest",
            }
        )

    def run(self) -> None:
        """Reads until it is closed."""
        self._consumer.subscribe([topics.COPIED], on_assign=self._assigned)
        while not self._closing.is_set():
            if self._delivery.waiting > WAITING_MAX:
                time.sleep(FULL_S)
                continue
            first = self._consumer.poll(POLL_S)
            if first is not None:
                batch = [first, *self._consumer.consume(BATCH_MAX - 1, 0)]
                self._loop.call_soon_threadsafe(self._delivery.take, batch)
        self._consumer.close()

    def close(self) -> None:
        """Leaves the group."""
        self._closing.set()
        self.join()

    def _assigned(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        self.group_metadata = consumer.consumer_group_metadata()
        print(topics.READY, flush=True)


class Delivery:
    """Everything that happens in the event loop."""

    def __init__(
        self, http: aiohttp.ClientSession, producer: AckProducer, *, url: str, tasks: Any
    ) -> None:
        self._http = http
        self._producer = producer
        self._url = url
        self._tasks: asyncio.TaskGroup = tasks
        self._waiting: deque[Message] = deque()
        self._in_flight = 0
        self._settled: dict[int, int] = {}

    @property
    def waiting(self) -> int:
        """Records that wait for a free connection."""
        return len(self._waiting)

    def take(self, messages: list[Message]) -> None:
        """Takes over a batch."""
        self._waiting.extend(messages)
        self._pump()

    def moved(self) -> dict[int, int]:
        """The newest offset that was settled of each partition since the last call."""
        moved, self._settled = self._settled, {}
        return moved

    def _pump(self) -> None:
        while self._waiting and self._in_flight < IN_FLIGHT_MAX:
            self._in_flight += 1
            self._tasks.create_task(self._deliver(self._waiting.popleft()))

    async def _deliver(self, message: Message) -> None:
        if (error := message.error()) is not None:
            raise KafkaException(error)
        place = (message.partition() or 0, message.offset() or 0)
        async with self._http.post(self._url, data=message.value()) as response:
            await response.read()
        self._in_flight -= 1
        self._producer.produce(
            topics.STATUS,
            key=b"%d/%d" % place,
            value=_status(*place, http_status=response.status),
            on_ack=partial(self._stored, place),
        )
        self._pump()

    def _stored(self, place: tuple[int, int], result: Stored | PlatformError) -> None:
        if isinstance(result, PlatformError):
            raise result
        partition, offset = place
        self._settled[partition] = max(offset, self._settled.get(partition, 0))


def _status(partition: int, offset: int, *, http_status: int) -> bytes:
    """A record of about the size of the platform's."""
    return msgspec.json.encode(
        {
            "status": "DELIVERED",
            "at": time.time(),
            "httpStatus": http_status,
            "coordinates": {"topic": topics.COPIED, "partition": partition, "offset": offset},
            "padding": "x" * 400,
        }
    )


async def checkpoint_forever(
    delivery: Delivery, writer: TransactionalWriter, intake: Intake
) -> None:
    """Writes what moved and the group's offsets, together."""
    while True:
        await asyncio.sleep(CHECKPOINT_S)
        moved = delivery.moved()
        if not moved:
            continue
        await writer.commit(
            [
                OutRecord(topics.LANES, b"%d" % number, b"%d" % offset, number)
                for number, offset in moved.items()
            ],
            offsets={
                Partition(topics.COPIED, number): offset + 1 for number, offset in moved.items()
            },
            group_metadata=intake.group_metadata,
        )


async def run(kafka: KafkaSettings, url: str) -> None:
    """Delivers until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    writer = TransactionalWriter(kafka, transactional_id=NAME)
    await writer.start()
    properties = config.producer(kafka, client_id=NAME, linger_ms=STATUS_LINGER_MS)
    connector = aiohttp.TCPConnector(limit=IN_FLIGHT_MAX)
    async with (
        AckProducer(properties) as producer,
        aiohttp.ClientSession(connector=connector) as http,
        asyncio.TaskGroup() as tasks,
    ):
        delivery = Delivery(http, producer, url=url, tasks=tasks)
        intake = Intake(kafka, delivery)
        intake.start()
        checkpoints = tasks.create_task(checkpoint_forever(delivery, writer, intake))
        await stop.wait()
        await asyncio.to_thread(intake.close)
        checkpoints.cancel()
    await writer.close()


def main() -> None:
    """Reads the arguments and runs."""
    parser = argparse.ArgumentParser(prog="deliver", description=__doc__)
    parser.add_argument("--kafka", required=True)
    parser.add_argument("--callback", required=True)
    arguments = parser.parse_args()
    kafka = KafkaSettings(bootstrap_servers=arguments.kafka)
    uvloop.run(run(kafka, arguments.callback))


if __name__ == "__main__":
    main()
