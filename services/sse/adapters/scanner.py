"""Reads one lane's records from an offset on, for a stream that is behind its partition's end.

Blocking calls, for a thread; one scanner is used by one thread at a time.
"""

from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from libs.common import log
from libs.common.errors import KafkaUnavailable
from libs.common.kafka import config
from libs.common.kafka.consumer import as_record
from libs.common.partitions import ConsumedRecord, Partition
from libs.common.settings import KafkaSettings

logger = log.get(__name__)

BATCH_MAX = 500
POLL_S = 0.1
OFFSETS_S = 5.0


class Batch(NamedTuple):
    """What was read: the lane's records, and the offset below which nothing else is."""

    records: list[ConsumedRecord]
    position: int
    is_end: bool
    """True when nothing was at `position` at that moment."""


class Scanner:
    """One consumer, made for the first scan and used for one after the other."""

    def __init__(self, kafka: KafkaSettings, *, client_id: str) -> None:
        self._properties = {
            **config.reader(kafka, client_id=client_id),
            "queued.max.messages.kbytes": 4_096,
        }
        self._made: Consumer | None = None
        self._partition = Partition("", 0)
        self._position = 0

    @property
    def _consumer(self) -> Consumer:
        if self._made is None:
            self._made = Consumer(self._properties)
        return self._made

    def begin(self, partition: Partition, offset: int) -> None:
        """Starts a scan."""
        self._partition, self._position = partition, offset
        self._consumer.assign([TopicPartition(*partition, offset)])

    def read(self, key: bytes) -> Batch:
        """The next batch; an empty one that is not at the end when nothing came in time."""
        first = self._consumer.poll(POLL_S)
        messages = [] if first is None else [first, *self._consumer.consume(BATCH_MAX - 1, 0)]
        records, is_end = [], False
        for message in messages:
            if message.error() is None:
                self._position = (message.offset() or 0) + 1
                is_end = False
                if message.key() == key:
                    records.append(as_record(message))
            else:
                is_end = self._passed(message)
        return Batch(records, self._position, is_end)

    def end(self) -> None:
        """Ends a scan."""
        self._consumer.unassign()

    def close(self) -> None:
        """Ends for good."""
        if self._made is not None:
            self._made.close()

    def _passed(self, message: Message) -> bool:
        """Takes over what is no record; True at the end of the partition."""
        error = message.error()
        if error is None:
            return False
        if error.code() == KafkaError._PARTITION_EOF:
            self._position = max(self._position, message.offset() or 0)
            return True
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._go_to_first()
        else:
            config.log_error(error)
        return False

    def _go_to_first(self) -> None:
        """What retention has removed is gone; reading goes on with what is left."""
        try:
            low, _ = self._consumer.get_watermark_offsets(
                TopicPartition(*self._partition), timeout=OFFSETS_S
            )
        except KafkaException as error:
            raise KafkaUnavailable(error.args[0].str()) from error
        logger.warning(
            "stream.offset_gone", partition=self._partition, offset=self._position, to=low
        )
        self.begin(self._partition, low)
