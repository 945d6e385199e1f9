"""A compacted topic as a table in memory.

Reads its topic from the start, says when it has caught up with what was there at start, applies
tombstones, then follows. Readers get a plain mapping, a change callback and the offset reached.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from libs.common import log
from libs.common.errors import KafkaUnavailable, PermanentError, PlatformError
from libs.common.kafka import config
from libs.common.settings import KafkaSettings

logger = log.get(__name__)

V = TypeVar("V")
Decode = Callable[[str, bytes], V]
"""Key and value to a row; raises ValueError (msgspec.DecodeError is one) for a broken record."""

OnChange = Callable[[str, V | None], None]
"""Called in the event loop for every change; an error that it raises ends `follow`."""

BATCH_MAX = 500
POLL_S = 0.1
LATEST = cast("OffsetSpec", OffsetSpec.latest())
METADATA_S = 5.0
RETRY_S = 1.0

_PASSING = (KafkaError._PARTITION_EOF, KafkaError._TRANSPORT)


class TableFailed(PermanentError):
    """The topic of a table cannot be followed any longer; the process has to start again."""


class CompactedTable(Generic[V]):
    """The latest value of every key of one topic. All state changes in the event loop."""

    def __init__(
        self,
        kafka: KafkaSettings,
        topic: str,
        *,
        decode: Decode[V],
        client_id: str,
        on_change: OnChange[V] | None = None,
    ) -> None:
        self._kafka = kafka
        self._topic = kafka.topic_prefix + topic
        self._decode = decode
        self._on_change = on_change
        self._client_id = f"{client_id}-{topic}"
        self._rows: dict[str, V] = {}
        self._offsets: dict[str, int] = {}
        self._positions: dict[int, int] = {}
        self._targets: dict[int, int] | None = None
        self._moved = asyncio.Event()
        self._closing = threading.Event()
        self._fault: str | None = None
        self.rows: Mapping[str, V] = MappingProxyType(self._rows)
        self.offsets: Mapping[str, int] = MappingProxyType(self._offsets)
        """Where each row's record stands in its partition."""

    @property
    def position(self) -> int:
        """Everything below this offset of partition 0 is applied; the table `resources` has one."""
        return self.position_in(0)

    def position_in(self, partition: int) -> int:
        """Everything below this offset of the partition is applied."""
        return self._positions.get(partition, 0)

    @property
    def is_caught_up(self) -> bool:
        """True once everything is applied that was on the topic when reading began."""
        return self._targets is not None and all(
            self._positions.get(partition, 0) >= end for partition, end in self._targets.items()
        )

    def readiness(self) -> str | None:
        """For the health endpoint: None when caught up, else how far the table is."""
        if self.is_caught_up:
            return None
        if self._targets is None:
            return f"waiting for topic {self._topic}"
        return f"reading: at {sum(self._positions.values())} of {sum(self._targets.values())}"

    async def moved(self) -> None:
        """Returns at the next progress."""
        await self._moved.wait()

    async def caught_up(self) -> None:
        """Returns once the table has caught up."""
        while not self.is_caught_up:
            await self.moved()

    async def reached(self, offset: int, *, partition: int = 0) -> None:
        """Returns once everything below `offset` of the partition is applied.

        An offset beyond the end of the topic (it was restored from elsewhere) is cut to the end.
        """
        if self.position_in(partition) >= offset:
            return
        end = await self._known_end(partition)
        while self.position_in(partition) < min(offset, end):
            await self.moved()

    async def follow(self) -> None:
        """Reads until cancelled; raises TableFailed when the topic cannot be read any longer."""
        loop = asyncio.get_running_loop()
        failed: asyncio.Future[None] = loop.create_future()
        thread = threading.Thread(
            target=self._read, args=(loop, failed), name=self._client_id, daemon=True
        )
        thread.start()
        try:
            await failed
        finally:
            self._closing.set()
            await asyncio.shield(asyncio.to_thread(thread.join))

    async def _known_end(self, partition: int) -> int:
        """The end of a partition, once Kafka tells it."""
        while True:
            try:
                return await asyncio.to_thread(self._end_of, partition)
            except KafkaUnavailable as error:
                logger.warning("table.kafka_unavailable", topic=self._topic, detail=str(error))
                await asyncio.sleep(RETRY_S)

    def _end_of(self, partition: int) -> int:
        admin = AdminClient(config.silent(self._kafka, client_id=self._client_id))
        return end_offsets(admin, self._topic, [partition])[partition]

    def _read(self, loop: asyncio.AbstractEventLoop, failed: asyncio.Future[None]) -> None:
        try:
            self._read_until_closed(loop)
        except PlatformError as error:
            detail = f"{self._topic}: {error}"
        except KafkaException as error:
            detail = f"{self._topic}: {error.args[0].str()}"
        else:
            return
        if not loop.is_closed():
            loop.call_soon_threadsafe(_fail, failed, detail)

    def _read_until_closed(self, loop: asyncio.AbstractEventLoop) -> None:
        consumer = Consumer(config.reader(self._kafka, client_id=self._client_id))
        try:
            targets = self._wait_for_topic(consumer)
            if targets is None:
                return
            loop.call_soon_threadsafe(self._begin, targets)
            consumer.assign([TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in targets])
            while not self._closing.is_set():
                first = consumer.poll(POLL_S)
                if first is not None:
                    batch = [first, *consumer.consume(BATCH_MAX - 1, 0)]
                    _check(batch)
                    applied = threading.Event()
                    loop.call_soon_threadsafe(self._apply, batch, applied)
                    self._wait_for(applied)
        finally:
            consumer.close()

    def _wait_for(self, applied: threading.Event) -> None:
        while not applied.wait(POLL_S) and not self._closing.is_set():
            pass
        if self._fault is not None:
            raise TableFailed(f"a change was not taken over: {self._fault}")

    def _wait_for_topic(self, consumer: Consumer) -> dict[int, int] | None:
        """End offsets (uncommitted records included) per partition; None when closed meanwhile."""
        admin = AdminClient(config.silent(self._kafka, client_id=self._client_id))
        while not self._closing.is_set():
            try:
                found = consumer.list_topics(self._topic, timeout=METADATA_S).topics[self._topic]
                if found.error is None and found.partitions:
                    return end_offsets(admin, self._topic, sorted(found.partitions))
                logger.warning("table.topic_missing", topic=self._topic)
            except (KafkaException, KafkaUnavailable) as error:
                logger.warning("table.kafka_unavailable", topic=self._topic, detail=str(error))
            self._closing.wait(RETRY_S)
        return None

    def _begin(self, targets: dict[int, int]) -> None:
        self._targets = targets
        self._signal()

    def _apply(self, batch: list[Message], applied: threading.Event) -> None:
        try:
            for message in batch:
                self._apply_one(message)
        except Exception as error:  # noqa: BLE001 - whatever it is, the table is wrong from here on
            self._fault = repr(error)
        finally:
            applied.set()
        self._signal()

    def _apply_one(self, message: Message) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if partition is None or offset is None:
            return
        if error is None:
            self._put(message)
            self._positions[partition] = offset + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            self._positions[partition] = max(offset, self._positions.get(partition, 0))

    def _put(self, message: Message) -> None:
        key = (message.key() or b"").decode(errors="replace")
        raw = message.value()
        value: V | None = None
        if raw is not None:
            try:
                value = self._decode(key, raw)
            except (ValueError, RecursionError) as error:
                logger.warning("table.record_broken", topic=self._topic, key=key, detail=str(error))
        if value is None:
            self._rows.pop(key, None)
            self._offsets.pop(key, None)
        else:
            self._rows[key] = value
            self._offsets[key] = message.offset() or 0
        if self._on_change is not None:
            self._on_change(key, value)

    def _signal(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


def _check(batch: list[Message]) -> None:
    """Raises TableFailed for an error that reading on would hide."""
    for message in batch:
        error = message.error()
        if error is None or error.code() in _PASSING or error.retriable():
            continue
        raise TableFailed(error.str())


def end_offsets(admin: AdminClient, topic: str, partitions: list[int]) -> dict[int, int]:
    """The offset after the last record, uncommitted ones included; raises KafkaUnavailable."""
    try:
        try:
            return _end_offsets(admin, topic, partitions)
        except KafkaException:
            # A client that lives for long asks with the leaders' epochs as it knows them, is
            # refused once a broker has started again, and would not look by itself for minutes.
            admin.list_topics(topic, timeout=METADATA_S)
            return _end_offsets(admin, topic, partitions)
    except KafkaException as error:
        raise KafkaUnavailable(f"end offsets of {topic}: {error.args[0].str()}") from error


def _end_offsets(admin: AdminClient, topic: str, partitions: list[int]) -> dict[int, int]:
    wanted = {TopicPartition(topic, p): LATEST for p in partitions}
    futures = admin.list_offsets(
        wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=METADATA_S
    )
    return {tp.partition: future.result().offset for tp, future in futures.items()}


def _fail(future: asyncio.Future[None], detail: str) -> None:
    if not future.done():
        future.set_exception(TableFailed(detail))
