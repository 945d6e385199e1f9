"""The topic `published` as the event log."""

from libs.common import topics
from libs.common.kafka.producer import AckProducer


class KafkaEventLog:
    """Appends to `published`; events with equal keys share a partition, hence their order."""

    def __init__(self, producer: AckProducer, *, topic_prefix: str) -> None:
        self._producer = producer
        self._topic = topic_prefix + topics.PUBLISHED

    async def append(self, key: str, record: bytes) -> None:
        """Returns once all in-sync replicas have the record."""
        await self._producer.send(self._topic, key=key.encode(), value=record)
