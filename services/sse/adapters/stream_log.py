"""Claims, checkpoints and statuses of streams on Kafka."""

import asyncio
from collections.abc import Callable
from functools import partial

from libs.common import clock, topics
from libs.common.errors import KafkaUnavailable, PlatformError
from libs.common.kafka.producer import ProducerFailed, RecordProducer, Stored
from libs.common.kafka.table import CompactedTable
from libs.common.partitions import Partition
from libs.common.records import Claim, StatusChange, StreamCheckpoint, StreamRecord, encode
from services.sse.domain.claims import Place
from services.sse.ports import OnStored
from services.sse.settings import SseSettings

RETRY_S = 2.0

OnPlace = Callable[[Stored], None]


class KafkaStreamLog:
    """A `StreamLog` on a producer that waits for Kafka for as long as it takes."""

    def __init__(
        self, settings: SseSettings, producer: RecordProducer, table: CompactedTable[StreamRecord]
    ) -> None:
        self._instance = settings.instance
        self._claim_timeout_s = settings.claim_timeout_s
        self._prefix = settings.kafka.topic_prefix
        self._producer = producer
        self._table = table

    async def claim(self, place: Place, *, connection_id: str | None) -> int:
        """As the port says."""
        record = Claim(
            lane_id=place.lane_id,
            instance=self._instance,
            connection_id=connection_id,
            at=clock.to_text(clock.utc_now()),
        )
        stored: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()
        self._write(place, place.claim_key, encode(record), partial(_resolve, stored))
        try:
            async with asyncio.timeout(self._claim_timeout_s):
                epoch = (await stored).offset
                while self._table.position_in(place.partition) <= epoch:
                    await self._table.moved()
        except TimeoutError:
            raise KafkaUnavailable(
                "Kafka did not take the stream's claim in time.", delay_s=RETRY_S
            ) from None
        return epoch

    def checkpoint(
        self, place: Place, checkpoint: StreamCheckpoint, *, on_stored: OnStored
    ) -> None:
        """As the port says."""
        key = place.checkpoint_key(checkpoint.epoch)
        self._write(place, key, encode(checkpoint), lambda _: on_stored())

    def forget(self, place: Place, epoch: int) -> None:
        """As the port says."""
        self._write(place, place.checkpoint_key(epoch), None, lambda _: None)

    def record(self, change: StatusChange, *, on_stored: OnStored) -> None:
        """As the port says."""
        self._producer.produce(
            self._prefix + topics.STATUS,
            key=change.uuid.encode(),
            value=encode(change),
            on_ack=partial(_stored, lambda _: on_stored()),
        )

    def _write(self, place: Place, key: str, value: bytes | None, on_stored: OnPlace) -> None:
        self._producer.produce(
            Partition(self._prefix + topics.STREAMS, place.partition),
            key=key.encode(),
            value=value,
            on_ack=partial(_stored, on_stored),
        )


def _stored(on_stored: OnPlace, result: Stored | PlatformError) -> None:
    if isinstance(result, PlatformError):
        raise ProducerFailed(f"a record was not stored: {result}")
    on_stored(result)


def _resolve(future: asyncio.Future[Stored], place: Stored) -> None:
    if not future.done():
        future.set_result(place)
