"""A member of a consumer group: one thread polls, batches and rebalances go to the event loop.

The thread hands over one batch at a time, not before the event loop has taken the one before, so
what is buffered here is bounded by two batches. Whatever is asked of the consumer goes through a
queue of commands to that thread: a call from another thread would wait for as long as the thread
polls (seen with confluent-kafka 2.16, where pause, resume and commit hung beside a poll).

A rebalance waits in the thread until the service has done its part in the event loop; no record of
the partitions concerned is handed over meanwhile.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from queue import SimpleQueue
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from libs.common import log
from libs.common.errors import FencedOut, PermanentError, TemporaryError
from libs.common.kafka import config
from libs.common.partitions import CommittedOffset, ConsumedRecord, Partition
from libs.common.settings import KafkaSettings

logger = log.get(__name__)

BATCH_MAX = 500
POLL_S = 0.1
COMMAND_S = 0.01
OFFSETS_S = 30.0
"""Longest wait for offsets: those in a transaction of a killed owner are not told before the broker
has aborted it, which takes 5 s and up to 10 s more until the broker looks."""


class RebalanceListener(Protocol):
    """What a service does when partitions come and go. The calls never overlap."""

    async def assigned(
        self, partitions: Mapping[Partition, CommittedOffset]
    ) -> Mapping[Partition, int]:
        """Prepares the partitions; returns the offset at which each is to be read."""
        ...

    async def revoked(self, partitions: Sequence[Partition]) -> None:
        """Finishes and commits what is in flight; another member has them after the return."""
        ...

    async def lost(self, partitions: Sequence[Partition]) -> None:
        """Drops everything: another member may have the partitions already."""
        ...


OnBatch = Callable[[list[ConsumedRecord]], None]
"""Takes over a batch in the event loop, without waiting."""


class CommitRefused(TemporaryError):
    """Offsets were not committed; they may be committed later, here or by another member."""


class ConsumerFailed(PermanentError):
    """The consumer cannot go on; the process has to start again."""


class GroupConsumer:
    """Reads topics as a static member of a group. Build and use it inside the running loop."""

    def __init__(
        self,
        kafka: KafkaSettings,
        topics: Sequence[str],
        *,
        group: str,
        instance: str,
        listener: RebalanceListener,
        on_batch: OnBatch,
    ) -> None:
        prefix = kafka.topic_prefix
        self._loop = asyncio.get_running_loop()
        self._topics = [prefix + topic for topic in topics]
        self._listener = listener
        self._on_batch = on_batch
        self._closing = threading.Event()
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._group_metadata: object = None
        self._is_member = False
        self._consumer = Consumer(
            {
                **config.group_consumer(kafka, group=prefix + group, instance=instance),
                "on_commit": self._on_commit,
            }
        )
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._confirmed: dict[Partition, int] = {}
        self._under_way = threading.Lock()
        """Held from handing a batch over until the event loop has taken it."""
        self._thread = threading.Thread(target=self._run, name=f"kafka-{group}", daemon=True)

    @property
    def group_metadata(self) -> object:
        """The group metadata captured when partitions last came or began to go.

        Offsets sent with it are refused once another member has taken over; metadata asked for
        later would be accepted although the partitions are gone. While they are being revoked the
        group has a new generation already, and this member is their owner still.
        """
        return self._group_metadata

    def start(self) -> None:
        """Joins the group."""
        self._thread.start()

    async def watch(self) -> None:
        """Runs until the consumer fails for good, then raises the reason."""
        await asyncio.shield(self._failed)

    def readiness(self) -> str | None:
        """For the health endpoint: None once the group has given this member its share."""
        return None if self._is_member else "joining the consumer group"

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Hands over nothing more of the partitions, except what is on its way."""
        wanted = [TopicPartition(*partition) for partition in partitions]
        self._commands.put(lambda: self._consumer.pause(wanted))

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Goes on where `pause` stopped."""
        wanted = [TopicPartition(*partition) for partition in partitions]
        self._commands.put(lambda: self._consumer.resume(wanted))

    def commit(self, offsets: Mapping[Partition, int], *, metadata: str) -> None:
        """Sends offsets of owned partitions; `confirmed` tells when they are committed."""
        wanted = _positions(offsets, metadata)
        self._commands.put(lambda: self._consumer.commit(offsets=wanted, asynchronous=True))

    async def commit_now(self, offsets: Mapping[Partition, int], *, metadata: str) -> None:
        """Commits offsets of owned partitions; raises CommitRefused, also once this has ended."""
        done: asyncio.Future[None] = self._loop.create_future()

        def commit() -> None:
            try:
                self._consumer.commit(offsets=_positions(offsets, metadata), asynchronous=False)
            except KafkaException as error:
                refused = CommitRefused(error.args[0].str())
                self._loop.call_soon_threadsafe(_set_exception, done, refused)
            else:
                self._loop.call_soon_threadsafe(_set_result, done)

        self._commands.put(commit)
        await asyncio.wait({done, self._ended}, return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise CommitRefused("the consumer has ended")
        await done

    def confirmed(self, partition: Partition) -> int | None:
        """The offset that Kafka last confirmed for an owned partition."""
        return self._confirmed.get(partition)

    async def close(self) -> None:
        """Stops polling and leaves; `revoked` is called for what is still owned."""
        self._closing.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)
        self._failed.cancel()

    def _run(self) -> None:
        try:
            self._consumer.subscribe(
                self._topics,
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
            while not self._closing.is_set():
                self._run_commands()
                first = self._consumer.poll(POLL_S)
                if first is not None:
                    self._hand_over([first, *self._consumer.consume(BATCH_MAX - 1, 0)])
        except Exception as error:  # noqa: BLE001 - whatever it is, the process ends
            self._fail(error)
        finally:
            self._close()
            self._call_soon(_set_result, self._ended)

    def _run_commands(self) -> None:
        while not self._commands.empty():
            try:
                self._commands.get()()
            except KafkaException as error:
                logger.warning("kafka.command_refused", detail=error.args[0].str())

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if error is not None:
            logger.warning("offsets.not_committed", code=error.name(), detail=error.str())
            return
        self._call_soon(self._confirm, partitions)

    def _confirm(self, partitions: list[TopicPartition]) -> None:
        for entry in partitions:
            if entry.error is None:
                self._confirmed[Partition(entry.topic, entry.partition)] = entry.offset

    def _forget(self, partitions: Sequence[Partition]) -> None:
        """What was confirmed when these partitions were owned before says nothing now."""
        for partition in partitions:
            self._confirmed.pop(partition, None)

    def _close(self) -> None:
        try:
            self._consumer.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, the process ends
            self._fail(error)

    def _hand_over(self, messages: list[Message]) -> None:
        records = [as_record(message) for message in messages if _is_record(message)]
        if not records:
            return
        while not self._under_way.acquire(timeout=POLL_S):
            if self._closing.is_set():
                return
        self._loop.call_soon_threadsafe(self._take, records)

    def _take(self, records: list[ConsumedRecord]) -> None:
        try:
            if not self._failed.done():
                self._on_batch(records)
        except Exception as error:  # noqa: BLE001 - whatever it is, the process ends
            self._set_failed(error)
        finally:
            self._under_way.release()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._group_metadata = consumer.consumer_group_metadata()
        found = self._committed(consumer, partitions) if partitions else {}
        self._call_soon(self._forget, list(found))
        # What is asked meanwhile waits: a pause before the assignment would have no effect.
        starts = self._in_loop(self._listener.assigned(found), obeys=False) if found else {}
        wanted = [TopicPartition(p.topic, p.number, offset) for p, offset in starts.items()]
        consumer.incremental_assign(wanted)
        # A partition that was paused when it went would come back paused.
        consumer.resume(wanted)
        self._is_member = True
        logger.info("group.assigned", partitions=[f"{p.topic}/{p.number}" for p in found])

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._group_metadata = consumer.consumer_group_metadata()
        gone = [Partition(p.topic, p.partition) for p in partitions]
        self._in_loop(self._listener.revoked(gone))
        consumer.incremental_unassign(partitions)
        logger.info("group.revoked", partitions=[f"{p.topic}/{p.number}" for p in gone])

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = [Partition(p.topic, p.partition) for p in partitions]
        self._in_loop(self._listener.lost(gone))
        consumer.incremental_unassign(partitions)
        logger.warning("group.lost", partitions=[f"{p.topic}/{p.number}" for p in gone])

    @staticmethod
    def _committed(
        consumer: Consumer, partitions: list[TopicPartition]
    ) -> dict[Partition, CommittedOffset]:
        found = {}
        for entry in consumer.committed(partitions, timeout=OFFSETS_S):
            if entry.error is not None:
                raise KafkaException(entry.error)
            low, high = consumer.get_watermark_offsets(entry, timeout=OFFSETS_S)
            offset = entry.offset if entry.offset >= 0 else None
            partition = Partition(entry.topic, entry.partition)
            found[partition] = CommittedOffset(offset, entry.metadata or "", low, high)
        return found

    def _in_loop(self, coroutine: Coroutine[Any, Any, Any], *, obeys: bool = True) -> Any:
        """Runs a coroutine in the event loop and waits for it; carries out commands meanwhile."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        while True:
            if obeys:
                self._run_commands()
            try:
                return future.result(COMMAND_S)
            except FutureTimeoutError:
                if future.done():
                    raise
                if self._loop.is_closed():
                    raise FencedOut("the event loop ended during a rebalance") from None

    def _call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *args)

    def _fail(self, error: Exception) -> None:
        self._call_soon(self._set_failed, error)

    def _set_failed(self, error: Exception) -> None:
        if not self._failed.done():
            detail = error.args[0].str() if isinstance(error, KafkaException) else None
            self._failed.set_exception(ConsumerFailed(detail) if detail else error)


def as_record(message: Message) -> ConsumedRecord:
    """The record in a message without error; raises ConsumerFailed for one without a place."""
    number, offset, epoch = message.partition(), message.offset(), message.leader_epoch()
    if number is None or offset is None:
        raise ConsumerFailed("Kafka delivered a record without a place")
    return ConsumedRecord(
        partition=Partition(message.topic() or "", number),
        offset=offset,
        leader_epoch=-1 if epoch is None else epoch,
        key=message.key() or b"",
        value=message.value(),
    )


def _positions(offsets: Mapping[Partition, int], metadata: str) -> list[TopicPartition]:
    return [
        TopicPartition(partition.topic, partition.number, offset, metadata)
        for partition, offset in offsets.items()
    ]


def _set_result(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _set_exception(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _is_record(message: Message) -> bool:
    """False for an error that passes by itself; raises for one that does not."""
    error = message.error()
    if error is None:
        return True
    if error.retriable() or error.code() == KafkaError._TRANSPORT:
        logger.warning("kafka.read_error", code=error.name(), detail=error.str())
        return False
    raise ConsumerFailed(f"{message.topic()}/{message.partition()}: {error.str()}")
