"""A producer in memory, in the shape of `AckProducer`."""

from collections import deque
from typing import NamedTuple

from libs.common.errors import Overloaded, PlatformError, TooLarge
from libs.common.kafka.producer import AckCallback, Headers, Stored
from libs.common.partitions import Partition
from libs.common.topics import RECORD_BYTES_MAX


class Written(NamedTuple):
    """A record as it was produced."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class MemoryProducer:
    """Keeps what is produced; acknowledges when it is told to, in the order of the calls."""

    def __init__(self, *, queue_max: int = 100_000) -> None:
        self.written: list[Written] = []
        """What is acknowledged, in order."""
        self._queue: deque[tuple[Written, AckCallback]] = deque()
        self._queue_max = queue_max

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
        """As `AckProducer.produce`: raises Overloaded when the queue is full, and TooLarge."""
        if len(value or b"") > RECORD_BYTES_MAX:
            raise TooLarge("the record is too large")
        if len(self._queue) >= self._queue_max:
            raise Overloaded("the queue is full")
        name, partition = (topic, 0) if isinstance(topic, str) else topic
        self._queue.append((Written(name, partition, key, value, headers, timestamp_ms), on_ack))

    @property
    def queued(self) -> int:
        """Records that are not acknowledged."""
        return len(self._queue)

    def acknowledge(self, number: int | None = None) -> None:
        """Stores the first records of the queue; all of them, and what they lead to, by default."""
        while self._queue and number != 0:
            record, on_ack = self._queue.popleft()
            place = (record.topic, record.partition)
            offset = sum((one.topic, one.partition) == place for one in self.written)
            self.written.append(record)
            on_ack(Stored(record.topic, record.partition, offset))
            number = None if number is None else number - 1

    def fail(self, error: PlatformError) -> None:
        """Reports the first record of the queue as not stored."""
        _, on_ack = self._queue.popleft()
        on_ack(error)
