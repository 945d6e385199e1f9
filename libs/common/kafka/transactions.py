"""Transactions: several records, and a group's offsets, all or nothing.

One thread of its own carries out one transaction after the other, so that the event loop never
waits for Kafka.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from libs.common import log
from libs.common.errors import FencedOut, TemporaryError
from libs.common.kafka import config
from libs.common.partitions import Partition
from libs.common.settings import KafkaSettings

logger = log.get(__name__)

START_S = 30.0
COMMIT_S = 10.0
ENDING_S = 60.0
SLICE_S = 1.0
"""After so long a call is looked at again: may it go on?"""


class TransactionAborted(TemporaryError):
    """Nothing of the transaction was written; it may be tried again."""


class OffsetMoved(TransactionAborted):
    """The records did not land where they were expected; nothing was written."""


class OutRecord(NamedTuple):
    """A record to be written in a transaction; topic without prefix; value None is a tombstone."""

    topic: str
    key: bytes
    value: bytes | None
    partition: int = -1
    """-1: by the key."""


class _Transaction(NamedTuple):
    """One transaction to be carried out."""

    records: list[OutRecord]
    offsets: dict[Partition, int]
    group_metadata: Any
    first_offset: int | None


class TransactionalWriter:
    """Writes in transactions under a stable id; a second writer with that id fences this one.

    One that is the `only_user` of its id goes on after Kafka was away: it takes the id anew, which
    ends what it had left open. librdkafka's own abort was seen to hang for good after that.
    """

    def __init__(
        self, kafka: KafkaSettings, *, transactional_id: str, only_user: bool = False
    ) -> None:
        self._prefix = kafka.topic_prefix
        self._servers = kafka.bootstrap_servers
        self._properties = config.transactional_producer(
            kafka, transactional_id=self._prefix + transactional_id
        )
        self._producer = Producer(self._properties)
        self._only_user = only_user
        self._is_started = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kafka-transactions")
        self._is_fenced = False
        self._is_given_up = threading.Event()

    async def start(self) -> None:
        """Ends what a former owner of the id left open; waits for Kafka for at most 30 s.

        Raises TransactionAborted, FencedOut.
        """
        logger.info("transactions.starting", bootstrap_servers=self._servers)
        await self._run(self._start)

    async def commit(
        self,
        records: Sequence[OutRecord],
        *,
        offsets: Mapping[Partition, int] | None = None,
        group_metadata: Any = None,
        first_offset: int | None = None,
    ) -> None:
        """Writes the records and offsets in one transaction.

        With `first_offset` the records, all of one partition, have to stand at that offset and the
        ones after it; otherwise OffsetMoved is raised. Raises TransactionAborted when nothing was
        written, also when the group has moved on without this member; FencedOut when another
        process has taken over the transactional id or the member's name, or when it is not known
        how the transaction ended.
        """
        transaction = _Transaction(list(records), dict(offsets or {}), group_metadata, first_offset)
        await self._run(self._commit, transaction)

    async def close(self) -> None:
        """Ends the thread, after the transaction under way."""
        if not self._is_fenced:
            # Closing would try to abort, which a fenced producer cannot do and need not do.
            await self._run(self._producer.close)
        await asyncio.to_thread(self._thread.shutdown)

    def give_up(self) -> None:
        """Lets the transaction under way fail soon; for a process that ends without `close`."""
        self._is_given_up.set()

    async def _run(self, function: Any, *args: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    def _start(self) -> None:
        try:
            self._patiently(self._producer.init_transactions, START_S)
        except KafkaException as error:
            raise self._translated(error) from error
        self._is_started = True

    def _commit(self, transaction: _Transaction) -> None:
        if not self._is_started:
            self._start()
        try:
            self._carry_out(transaction)
        except OffsetMoved:
            self._abort()
            raise
        except BufferError as error:
            self._abort()
            raise TransactionAborted("the records do not fit the queue towards Kafka") from error
        except SystemError as error:
            # The client raises a fatal error inside whatever callback runs at that moment, where it
            # turns up as a SystemError with the fatal error as its cause.
            if not isinstance(error.__cause__, KafkaException):
                raise
            raise self._translated(error.__cause__) from error
        except KafkaException as error:
            self._leave(error.args[0])
            raise self._translated(error) from error

    def _carry_out(self, transaction: _Transaction) -> None:
        self._producer.begin_transaction()
        self._produce(transaction)
        if transaction.group_metadata is not None:
            positions = [
                TopicPartition(p.topic, p.number, o) for p, o in transaction.offsets.items()
            ]
            send = self._producer.send_offsets_to_transaction
            self._patiently(partial(send, positions, transaction.group_metadata), COMMIT_S)
        self._end_transaction()

    def _leave(self, error: KafkaError) -> None:
        """Ends a transaction that failed."""
        if self._only_user and error.retriable():
            self._start_over()
        elif not error.fatal():
            self._abort()

    def _produce(self, transaction: _Transaction) -> None:
        landed: list[int | None] = []

        def delivered(_: Any, message: Message) -> None:
            landed.append(message.offset())

        for record in transaction.records:
            self._producer.produce(
                self._prefix + record.topic,
                key=record.key,
                value=record.value,
                partition=record.partition,
                on_delivery=delivered,
            )
        if transaction.first_offset is not None:
            self._producer.flush(COMMIT_S)
            first = transaction.first_offset
            if landed != list(range(first, first + len(transaction.records))):
                raise OffsetMoved(f"records stand at {landed[:3]}, not at {first}")

    def _end_transaction(self) -> None:
        try:
            self._patiently(self._producer.commit_transaction, ENDING_S)
        except KafkaException as error:
            if error.args[0].retriable():
                raise FencedOut("it is not known whether a transaction was committed") from error
            raise

    def _abort(self) -> None:
        try:
            self._patiently(self._producer.abort_transaction, COMMIT_S)
        except KafkaException as error:
            if self._only_user and error.args[0].retriable():
                self._start_over()
                return
            raise FencedOut(f"a transaction could not be ended: {error.args[0].str()}") from error

    def _start_over(self) -> None:
        """Leaves a transaction to the broker; the next one begins with taking the id anew."""
        self._producer = Producer(self._properties)
        self._is_started = False

    def _patiently(self, call: Callable[[float], object], timeout_s: float) -> None:
        """Calls until it succeeds, fails for good or the time is over: Kafka may be away."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                call(SLICE_S)
            except KafkaException as error:
                is_over = time.monotonic() > deadline_s or self._is_given_up.is_set()
                if is_over or not error.args[0].retriable():
                    raise
            else:
                return

    def _translated(self, error: KafkaException) -> Exception:
        cause = error.args[0]
        if cause.fatal():
            self._is_fenced = True
            return FencedOut(cause.str())
        if cause.code() == KafkaError.FENCED_INSTANCE_ID:
            return FencedOut(cause.str())
        return TransactionAborted(cause.str())
