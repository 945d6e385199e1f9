"""A producer that tells the event loop, in batches, what Kafka has acknowledged.

librdkafka works in threads of its own; one more thread polls it for delivery reports and hands them
over with one `call_soon_threadsafe` a batch. Nothing waits for a batch to fill.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from libs.common import log
from libs.common.errors import (
    AckTimeout,
    KafkaUnavailable,
    Overloaded,
    PermanentError,
    PlatformError,
    TooLarge,
)
from libs.common.kafka import config
from libs.common.partitions import Partition

logger = log.get(__name__)

POLL_S = 0.1
PROBE_S = 1.0
FLUSH_S = 5.0
BY_KEY = -1
"""librdkafka's partition number for a partition that the key chooses."""

Headers = Sequence[tuple[str, bytes]]


class Stored(NamedTuple):
    """Where an acknowledged record stands."""

    topic: str
    partition: int
    offset: int


AckCallback = Callable[[Stored | PlatformError], None]
"""Called in the event loop, once per record, with its place or with why it is not known stored.

An error that it raises ends the process by way of `watch`.
"""

_Report = tuple[AckCallback, KafkaError | None, Message]


class RecordProducer(Protocol):
    """Produces records and reports each once; `AckProducer` on Kafka."""

    def produce(
        self,
        topic: str | Partition,
        *,
        key: bytes | None,
        value: bytes | None,
        on_ack: AckCallback,
        headers: Headers = (),
        timestamp_ms: int = 0,
    ) -> None:
        """Queues one record; `on_ack` follows. Raises Overloaded when the queue is full, TooLarge.

        The key chooses the partition unless `topic` names one. `timestamp_ms` 0 means now.
        """
        ...


class ProducerFailed(PermanentError):
    """The producer cannot go on; the process has to start again."""


def as_platform_error(error: KafkaError) -> PlatformError:
    """Kafka's delivery error in Meridian's words."""
    if error.code() == KafkaError._MSG_TIMED_OUT:
        return AckTimeout(
            "Kafka did not acknowledge in time. The event may be stored: send it again with the "
            "same id."
        )
    if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD):
        return TooLarge(f"Kafka refused the record: {error.str()}")
    if error.fatal() or error.code() == KafkaError._FATAL:
        return ProducerFailed(error.str())
    return AckTimeout(f"Kafka answered {error.name()}; whether the event is stored is not known.")


class AckProducer:
    """Produces records; each is reported once, in the event loop, when Kafka acknowledged it.

    Use as an async context manager inside the running loop: leaving it waits a bounded time for
    what is outstanding.

    Acknowledgements are reported at once, or, where nobody waits for a single one, collected for
    `report_interval_s`: that spares two threads a wake-up for every record.
    """

    def __init__(self, properties: dict[str, Any], *, report_interval_s: float = 0.0) -> None:
        self._loop = asyncio.get_running_loop()
        self._report_interval_s = report_interval_s
        self._reports: deque[_Report] = deque()
        self._handing_over = threading.Lock()
        self._closing = threading.Event()
        self._reachable = True
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._producer = Producer({**properties, "error_cb": self._on_error})
        self._thread = threading.Thread(target=self._poll, name="kafka-acks", daemon=True)

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.flush(FLUSH_S)
        await asyncio.to_thread(self._close)
        self._failed.cancel()

    async def watch(self) -> None:
        """Runs until the producer fails for good, then raises ProducerFailed."""
        await asyncio.shield(self._failed)

    @property
    def is_reachable(self) -> bool:
        """False from "all brokers down" until Kafka answers again."""
        return self._reachable

    @property
    def queued(self) -> int:
        """Records and requests that wait for Kafka."""
        return len(self._producer)

    def produce(
        self,
        topic: str | Partition,
        *,
        key: bytes | None,
        value: bytes | None,
        on_ack: AckCallback,
        headers: Headers = (),
        timestamp_ms: int = 0,
    ) -> None:
        """Queues one record; `on_ack` follows. Raises Overloaded when the queue is full, TooLarge.

        The key chooses the partition unless `topic` names one. `timestamp_ms` 0 means now.
        """
        name, partition = (topic, BY_KEY) if isinstance(topic, str) else topic
        try:
            self._producer.produce(
                name,
                partition=partition,
                value=value,
                key=key,
                headers=list(headers),
                timestamp=timestamp_ms,
                on_delivery=partial(self._report, on_ack),
            )
        except BufferError as error:
            raise Overloaded("the queue towards Kafka is full") from error
        except KafkaException as error:
            raise as_platform_error(error.args[0]) from error

    def send(
        self,
        topic: str | Partition,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        timestamp_ms: int = 0,
    ) -> asyncio.Future[Stored]:
        """Queues one record; the future gives its place once acknowledged, or raises.

        Raises KafkaUnavailable without queueing anything while no broker can be reached.
        """
        if not self._reachable:
            raise KafkaUnavailable("no Kafka broker can be reached", delay_s=PROBE_S)
        future: asyncio.Future[Stored] = self._loop.create_future()
        self.produce(
            topic,
            key=key,
            value=value,
            on_ack=partial(_resolve, future),
            headers=headers,
            timestamp_ms=timestamp_ms,
        )
        return future

    async def flush(self, timeout_s: float) -> bool:
        """Waits until nothing is queued or in flight; False when the time was not enough.

        What Kafka acknowledged until then has been reported when this returns.
        """
        left = await asyncio.to_thread(self._flush, timeout_s)
        await asyncio.sleep(0)
        return left == 0

    def _flush(self, timeout_s: float) -> int:
        try:
            return self._producer.flush(timeout_s)
        except (KafkaException, SystemError) as error:
            self._call_soon(self._fail, _reason(error))
            return len(self._producer)
        finally:
            self._hand_over()

    def _close(self) -> None:
        """Ends the thread; what Kafka has not acknowledged until now is reported as not known."""
        self._closing.set()
        self._thread.join()
        self._producer.purge()
        self._poll_once(0)

    def _report(self, on_ack: AckCallback, error: KafkaError | None, message: Message) -> None:
        self._reports.append((on_ack, error, message))

    def _poll(self) -> None:
        while not self._closing.is_set():
            self._poll_once(POLL_S)
            if not self._reachable:
                self._probe()
            if self._report_interval_s:
                self._closing.wait(self._report_interval_s)

    def _poll_once(self, timeout_s: float) -> None:
        try:
            self._producer.poll(timeout_s)
        except (KafkaException, SystemError) as error:
            # The client raises a fatal error instead of telling `error_cb`, inside a callback even,
            # where it turns up as a SystemError. Polling goes on: what failed has to be reported.
            self._call_soon(self._fail, _reason(error))
        finally:
            self._hand_over()

    def _hand_over(self) -> None:
        """Reports come from the polling and the flushing thread; none is lost, order is kept."""
        with self._handing_over:
            batch = [self._reports.popleft() for _ in range(len(self._reports))]
            if batch:
                self._call_soon(self._deliver, batch)

    def _call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *args)

    def _deliver(self, batch: list[_Report]) -> None:
        try:
            for on_ack, error, message in batch:
                if error is None:
                    self._reachable = True
                on_ack(_stored(message) if error is None else as_platform_error(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the process ends
            self._fail(str(error) or repr(error))

    def _probe(self) -> None:
        try:
            self._producer.list_topics(timeout=PROBE_S)
        except KafkaException as error:
            logger.warning("kafka.unreachable", detail=error.args[0].str())
            return
        logger.info("kafka.reachable")
        self._reachable = True

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._reachable = False
        config.log_error(error)

    def _fail(self, detail: str) -> None:
        if not self._failed.done():
            self._failed.set_exception(ProducerFailed(detail))


def _reason(error: Exception) -> str:
    cause = error if isinstance(error, KafkaException) else error.__cause__
    return str(cause.args[0].str()) if isinstance(cause, KafkaException) else repr(error)


def _stored(message: Message) -> Stored:
    return Stored(message.topic() or "", _known(message.partition()), _known(message.offset()))


def _known(number: int | None) -> int:
    return -1 if number is None else number


def _resolve(future: asyncio.Future[Stored], result: Stored | PlatformError) -> None:
    if future.done():
        return
    if isinstance(result, PlatformError):
        future.set_exception(result)
    else:
        future.set_result(result)
