"""Delivery's records on Kafka: statuses, dead letters, checkpoints."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from libs.common import dead_letters, topics
from libs.common.errors import PlatformError
from libs.common.kafka import reader
from libs.common.kafka.producer import ProducerFailed, RecordProducer, Stored
from libs.common.kafka.table import CompactedTable
from libs.common.kafka.transactions import OutRecord, TransactionalWriter
from libs.common.partitions import ConsumedRecord, Partition
from libs.common.records import LaneRecord, StatusChange, encode
from libs.common.resources import Catalog, Resource, Subscription
from libs.common.settings import KafkaSettings
from services.delivery.domain.progress import Checkpoint
from services.delivery.ports import OnStored

_lane_decoder: msgspec.json.Decoder[LaneRecord] = msgspec.json.Decoder(LaneRecord)


class KafkaStatusLog:
    """A `StatusLog` on a producer that waits for Kafka for as long as it takes."""

    def __init__(self, producer: RecordProducer, *, topic_prefix: str) -> None:
        self._producer = producer
        self._prefix = topic_prefix

    def record(self, change: StatusChange, *, on_stored: OnStored) -> None:
        """As the port says."""
        self._producer.produce(
            self._prefix + topics.STATUS,
            key=change.uuid.encode(),
            value=encode(change),
            on_ack=partial(_stored, on_stored),
        )

    def set_aside(self, record: ConsumedRecord, *, reason: str, on_stored: OnStored) -> None:
        """As the port says."""
        self._producer.produce(
            self._prefix + topics.DEAD_LETTERS,
            key=record.key,
            value=record.value,
            on_ack=partial(_stored, on_stored),
            headers=dead_letters.headers(record.partition, record.offset, reason=reason),
        )


def _stored(on_stored: OnStored, result: Stored | PlatformError) -> None:
    if isinstance(result, PlatformError):
        raise ProducerFailed(f"a status was not stored: {result}")
    on_stored()


class KafkaProgressLog:
    """A `ProgressLog` on the table `lanes` and the consumer group."""

    def __init__(
        self,
        kafka: KafkaSettings,
        writer: TransactionalWriter,
        *,
        instance: str,
        group_metadata: Callable[[], Any],
    ) -> None:
        self._kafka = kafka
        self._writer = writer
        self._instance = instance
        self._group_metadata = group_metadata

    def name_of(self, partition: Partition) -> str:
        """As the port says."""
        return partition.topic.removeprefix(self._kafka.topic_prefix)

    async def read(self, partitions: Sequence[Partition]) -> Mapping[Partition, list[LaneRecord]]:
        """As the port says."""
        numbers = sorted({partition.number for partition in partitions})
        client_id = f"{self._instance}-lanes"
        records = await asyncio.to_thread(
            reader.read_to_end, self._kafka, topics.LANES, numbers, client_id=client_id
        )
        latest = {record.key.decode(): record.value for record in records}
        found: dict[Partition, list[LaneRecord]] = {partition: [] for partition in partitions}
        by_name = {f"{self.name_of(one)}/{one.number}": one for one in partitions}
        for key, value in latest.items():
            partition = by_name.get("/".join(key.split("/")[:2]))
            if partition is not None and value is not None:
                found[partition].append(_lane_decoder.decode(value))
        return found

    async def write(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """As the port says."""
        records = []
        for partition, checkpoint in checkpoints.items():
            name = f"{self.name_of(partition)}/{partition.number}"
            records.append(_record(name, checkpoint.progress, partition))
            for lane_id, lane in checkpoint.lanes.items():
                records.append(_record(f"{name}/{lane_id}", lane, partition))
        await self._writer.commit(
            records,
            offsets={partition: found.committed for partition, found in checkpoints.items()},
            group_metadata=self._group_metadata(),
        )

    async def pick(self, partition: Partition, offsets: Sequence[int]) -> list[ConsumedRecord]:
        """As the port says."""
        client_id = f"{self._instance}-pending"

        def read() -> list[ConsumedRecord]:
            return list(reader.read_offsets(self._kafka, partition, offsets, client_id=client_id))

        return await asyncio.to_thread(read)


def _record(key: str, value: LaneRecord | None, partition: Partition) -> OutRecord:
    return OutRecord(
        topic=topics.LANES,
        key=key.encode(),
        value=None if value is None else encode(value),
        partition=partition.number,
    )


class KafkaSubscriptions:
    """`Subscriptions` from the table `resources`."""

    def __init__(self, catalog: Catalog, table: CompactedTable[Resource]) -> None:
        self._catalog = catalog
        self._table = table

    def get(self, subscription_id: str) -> Subscription | None:
        """As the port says."""
        return self._catalog.subscriptions.get(subscription_id)

    async def known_since(self, version: int) -> None:
        """As the port says."""
        await self._table.reached(version + 1)
