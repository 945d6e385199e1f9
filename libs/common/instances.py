"""The topic `instances`: which processes live, where, and what of `resources` they have applied.

Each process writes its line on every change and every 5 s; one seen within 15 s is live.
"""

import asyncio
import contextlib
from datetime import datetime
from typing import Protocol

from libs.common import clock, log, topics
from libs.common.errors import PlatformError
from libs.common.kafka.producer import AckProducer
from libs.common.records import Instance, decoder, encode

logger = log.get(__name__)

INTERVAL_S = 5.0
LIVE_S = 15.0

_decoder = decoder(Instance)


def decode_instance(_: str, value: bytes) -> Instance:
    """For a `CompactedTable`; keys are `service/instance`. ValueError for a broken line."""
    found = _decoder.decode(value)
    clock.from_text(found.at)
    return found


def is_live(instance: Instance, now: datetime) -> bool:
    """True when the process was seen within 15 s."""
    return (now - clock.from_text(instance.at)).total_seconds() <= LIVE_S


class Followed(Protocol):
    """A table whose progress the line reports; `CompactedTable` is one."""

    @property
    def position(self) -> int:
        """Everything below this offset is applied."""
        ...

    async def moved(self) -> None:
        """Returns at the next progress."""
        ...


class Beacon:
    """Writes the line of this process."""

    def __init__(
        self,
        producer: AckProducer,
        *,
        topic_prefix: str,
        service: str,
        instance: str,
        address: str,
        resources: Followed,
    ) -> None:
        self._producer = producer
        self._topic = topic_prefix + topics.INSTANCES
        self._key = f"{service}/{instance}".encode()
        self._address = address
        self._resources = resources

    async def run(self) -> None:
        """Writes until cancelled, and then a tombstone: the process is gone."""
        try:
            while True:
                offset = self._resources.position
                self._write(offset)
                await self._changed_or_due(offset)
        finally:
            self._send(None)

    async def _changed_or_due(self, offset: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(INTERVAL_S):
                while self._resources.position == offset:
                    await self._resources.moved()

    def _write(self, offset: int) -> None:
        line = Instance(
            address=self._address, resources_offset=offset, at=clock.to_text(clock.utc_now())
        )
        self._send(encode(line))

    def _send(self, value: bytes | None) -> None:
        try:
            self._producer.produce(self._topic, key=self._key, value=value, on_ack=_ignore)
        except PlatformError as error:
            logger.warning("instance.not_written", detail=str(error))


def _ignore(result: object) -> None:
    """A line that is lost is written again within 5 s."""
    if isinstance(result, PlatformError):
        logger.warning("instance.not_written", detail=str(result))
