"""Reads partitions at their ends: one consumer in a thread of its own for the whole process."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from libs.common import log
from libs.common.errors import PermanentError
from libs.common.kafka import config
from libs.common.kafka.consumer import as_record
from libs.common.partitions import ConsumedRecord, Partition
from libs.common.settings import KafkaSettings
from services.sse.domain.cursor import Tail

logger = log.get(__name__)

BATCH_MAX = 500
POLL_S = 0.05

OnRecords = Callable[[Tail, list[ConsumedRecord]], None]
OnBroken = Callable[[Tail], None]


class TailFailed(PermanentError):
    """The consumer cannot go on; the process has to start again."""


class TailReader:
    """Hands records of followed partitions to the event loop, a batch at a time."""

    def __init__(
        self, kafka: KafkaSettings, *, client_id: str, on_records: OnRecords, on_broken: OnBroken
    ) -> None:
        self._kafka = kafka
        self._client_id = f"{client_id}-tail"
        self._on_records = on_records
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._commands: SimpleQueue[Callable[[Consumer], None]] = SimpleQueue()
        self._followed: dict[Partition, Tail] = {}
        """Belongs to the thread."""
        self._closing = threading.Event()

    def follow(self, tail: Tail) -> None:
        """Reads a partition from the tail's `next_offset` on."""
        start = TopicPartition(*tail.partition, tail.next_offset)

        def command(consumer: Consumer) -> None:
            self._followed[tail.partition] = tail
            consumer.incremental_assign([start])

        self._commands.put(command)

    def unfollow(self, tail: Tail) -> None:
        """Reads it no longer."""

        def command(consumer: Consumer) -> None:
            if self._followed.get(tail.partition) is tail:
                del self._followed[tail.partition]
                consumer.incremental_unassign([TopicPartition(*tail.partition)])

        self._commands.put(command)

    async def run(self) -> None:
        """Reads until cancelled; raises TailFailed when that is no longer possible."""
        thread = threading.Thread(target=self._read, name=self._client_id, daemon=True)
        thread.start()
        try:
            await self._failed
        finally:
            self._closing.set()
            await asyncio.shield(asyncio.to_thread(thread.join))

    def _read(self) -> None:
        try:
            properties = config.reader(self._kafka, client_id=self._client_id)
            consumer = Consumer({**properties, "enable.partition.eof": False})
            try:
                self._read_until_closed(consumer)
            finally:
                consumer.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, the process ends
            self._call_soon(self._fail, repr(error))

    def _read_until_closed(self, consumer: Consumer) -> None:
        while not self._closing.is_set():
            while not self._commands.empty():
                self._commands.get()(consumer)
            first = consumer.poll(POLL_S)
            if first is None:
                continue
            batches = self._sorted([first, *consumer.consume(BATCH_MAX - 1, 0)], consumer)
            if batches:
                taken = threading.Event()
                self._call_soon(self._take, batches, taken)
                while not taken.wait(POLL_S) and not self._closing.is_set():
                    pass

    def _sorted(
        self, messages: list[Message], consumer: Consumer
    ) -> dict[Tail, list[ConsumedRecord]]:
        """Records by the tail that they were read for."""
        batches: dict[Tail, list[ConsumedRecord]] = {}
        for message in messages:
            tail = self._followed.get(Partition(message.topic() or "", message.partition() or 0))
            if tail is None:
                continue
            error = message.error()
            if error is None:
                batches.setdefault(tail, []).append(as_record(message))
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                logger.warning("stream.tail_broken", partition=tail.partition, detail=error.str())
                del self._followed[tail.partition]
                consumer.incremental_unassign([TopicPartition(*tail.partition)])
                self._call_soon(self._on_broken, tail)
            elif error.code() != KafkaError._PARTITION_EOF:
                config.log_error(error)
        return batches

    def _take(self, batches: dict[Tail, list[ConsumedRecord]], taken: threading.Event) -> None:
        try:
            for tail, records in batches.items():
                self._on_records(tail, records)
        except Exception as error:  # noqa: BLE001 - whatever it is, the process ends
            self._fail(repr(error))
        finally:
            taken.set()

    def _call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *args)

    def _fail(self, detail: str) -> None:
        if not self._failed.done():
            self._failed.set_exception(TailFailed(detail))
