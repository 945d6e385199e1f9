"""Records of lanes for streams: one tail reader, and a few scanners for those that are behind."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TypeVar, TypeVarTuple

from libs.common import clock, log
from libs.common.errors import KafkaUnavailable
from libs.common.kafka.admin import first_offset
from libs.common.partitions import ConsumedRecord, Partition
from services.sse import metrics
from services.sse.adapters.scanner import Scanner
from services.sse.adapters.tail_reader import TailReader
from services.sse.domain.claims import Place
from services.sse.domain.cursor import Cursor, Phase, Tail, Tails
from services.sse.ports import Reading, Sink
from services.sse.settings import SseSettings

logger = log.get(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SLICE_S = 1.0
"""A scan makes room for others after so long."""
PAUSE_S = 0.002
"""Between two batches of a scan, so that live streams do not feel it."""


class LaneFeed:
    """A `Feed` on Kafka."""

    def __init__(self, settings: SseSettings) -> None:
        self._kafka = settings.kafka
        self._client_id = settings.instance
        self._scans_max = settings.scans_max
        self._tails = Tails()
        self._waiting: asyncio.Queue[Cursor] = asyncio.Queue()
        self._tail_reader = TailReader(
            settings.kafka,
            client_id=settings.instance,
            on_records=self._arrived,
            on_broken=self._broken,
        )
        self._threads = ThreadPoolExecutor(settings.scans_max, thread_name_prefix="kafka-scan")

    async def first_offset(self, place: Place, since: datetime | None) -> int:
        """As the port says."""
        since_ms = clock.to_ms(since) if since is not None else None
        return await first_offset(self._kafka, self._partition_of(place), since_ms=since_ms)

    def read(self, place: Place, start: int, sink: Sink) -> Reading:
        """As the port says."""
        cursor = Cursor(
            partition=self._partition_of(place),
            key=place.lane_id.encode(),
            sink=sink,
            next_offset=start,
        )
        self._wait(cursor)
        return _Reading(self, cursor)

    def position(self, cursor: Cursor) -> int:
        """Every record of the cursor's lane below was handed over."""
        return self._tails.position(cursor)

    def resume(self, cursor: Cursor) -> None:
        """Goes on with a cursor whose stream was full."""
        if cursor.phase is Phase.FULL:
            cursor.phase = Phase.BEHIND
            self._wait(cursor)

    def close(self, cursor: Cursor) -> None:
        """Ends a cursor."""
        unread = self._tails.close(cursor)
        if unread is not None:
            self._tail_reader.unfollow(unread)

    async def run(self) -> None:
        """Reads until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tail_reader.run(), name="tail")
                for number in range(self._scans_max):
                    group.create_task(self._scan_forever(number), name=f"scan-{number}")
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _partition_of(self, place: Place) -> Partition:
        return Partition(self._kafka.topic_prefix + place.topic, place.partition)

    def _wait(self, cursor: Cursor) -> None:
        self._waiting.put_nowait(cursor)
        metrics.behind.inc()

    def _arrived(self, tail: Tail, records: list[ConsumedRecord]) -> None:
        if not self._tails.arrived(tail, records):
            self._tail_reader.unfollow(tail)

    def _broken(self, tail: Tail) -> None:
        for cursor in self._tails.broken(tail):
            self._wait(cursor)

    async def _scan_forever(self, number: int) -> None:
        scanner = Scanner(self._kafka, client_id=f"{self._client_id}-scan-{number}")
        try:
            while True:
                cursor = await self._waiting.get()
                metrics.behind.dec()
                await self._scan(scanner, cursor)
        finally:
            await asyncio.shield(self._in_thread(scanner.close))

    async def _scan(self, scanner: Scanner, cursor: Cursor) -> None:
        """Scans for one cursor until it is live, full or closed, or for a slice of time."""
        until_s = time.monotonic() + SLICE_S
        if cursor.phase is not Phase.BEHIND:
            return
        await self._in_thread(scanner.begin, cursor.partition, cursor.next_offset)
        # Whoever changes the phase has the cursor from then on, and may have it scanned anew.
        while await self._is_behind_after(scanner, cursor):
            if time.monotonic() > until_s:
                self._wait(cursor)
                break
            await asyncio.sleep(PAUSE_S)
            if cursor.phase is not Phase.BEHIND:
                break
        await self._in_thread(scanner.end)

    async def _is_behind_after(self, scanner: Scanner, cursor: Cursor) -> bool:
        """Reads one batch; True when the scan has to go on."""
        try:
            batch = await self._in_thread(scanner.read, cursor.key)
        except KafkaUnavailable as error:
            logger.warning("stream.scan_failed", detail=str(error))
            return cursor.phase is Phase.BEHIND
        if cursor.phase is not Phase.BEHIND:
            return False
        tail = self._tails.scanned(
            cursor, batch.records, position=batch.position, is_end=batch.is_end
        )
        if tail is not None:
            self._tail_reader.follow(tail)
        return cursor.phase is Phase.BEHIND

    async def _in_thread(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)


class _Reading:
    """A `Reading` of one cursor."""

    def __init__(self, feed: LaneFeed, cursor: Cursor) -> None:
        self._feed = feed
        self._cursor = cursor

    def position(self) -> int:
        """As the port says."""
        return self._feed.position(self._cursor)

    def resume(self) -> None:
        """As the port says."""
        self._feed.resume(self._cursor)

    def close(self) -> None:
        """As the port says."""
        self._feed.close(self._cursor)
