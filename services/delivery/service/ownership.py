"""Partitions that this process owns: intake, checkpoints, hand-over.

Offsets and checkpoints are written together every 200 ms when something changed, and before a
partition goes. While that fails, or takes too long, no callback begins: a crash repeats what was
not written, and a process that was stalled finds out first whether its partitions are its own.

On assignment the former owner's checkpoints are read first; what was pending is brought from Kafka
by a reader of its own, while new records are delivered.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from libs.common import clock, log
from libs.common.ids import LaneId
from libs.common.kafka.transactions import TransactionAborted
from libs.common.partitions import CommittedOffset, ConsumedRecord, Partition
from libs.common.records import (
    Coordinates,
    DeliveryType,
    SubscriptionEvent,
    decoder,
    head_decoder,
)
from libs.common.sequences import position_of, source_key
from services.delivery import metrics
from services.delivery.domain.lane import Job
from services.delivery.domain.progress import NOBODY, Admission, restored
from services.delivery.ports import Callbacks, ProgressLog, Reader, StatusLog, Subscriptions
from services.delivery.service.courier import Courier
from services.delivery.service.owned import Owned
from services.delivery.settings import DeliverySettings

logger = log.get(__name__)

RELEASE_ATTEMPTS_MAX = 3
"""How often the last checkpoint of a partition is tried."""

PICK_MAX = 200
"""Pending records that are brought from Kafka at once."""

_decoder = decoder(SubscriptionEvent)


class Delivery:
    """Delivers the records of the partitions that this member owns. A `RebalanceListener`."""

    def __init__(
        self,
        settings: DeliverySettings,
        *,
        callbacks: Callbacks,
        status_log: StatusLog,
        subscriptions: Subscriptions,
        progress_log: ProgressLog,
    ) -> None:
        self._settings = settings
        self._status_log = status_log
        self._progress_log = progress_log
        self._reader: Reader | None = None
        self._owned: dict[Partition, Owned] = {}
        self._writing = asyncio.Lock()
        self._room = asyncio.Event()
        self._to_recover: asyncio.Queue[tuple[Owned, list[int]]] = asyncio.Queue()
        """Partitions with what their former owners left pending."""
        self.courier = Courier(
            settings,
            callbacks=callbacks,
            status_log=status_log,
            subscriptions=subscriptions,
            on_settled=self._room_made,
        )

    def read_from(self, reader: Reader) -> None:
        """Connects the consumer, which needs this object to be built."""
        self._reader = reader

    def on_batch(self, records: list[ConsumedRecord]) -> None:
        """Takes over records; those of partitions that are gone are left to their new owner."""
        touched = set()
        for record in records:
            owned = self._owned.get(record.partition)
            if owned is not None and not owned.is_closing:
                owned.backlog.append(record)
                touched.add(record.partition)
        for partition in touched:
            self._intake(self._owned[partition])

    async def assigned(
        self, partitions: Mapping[Partition, CommittedOffset]
    ) -> Mapping[Partition, int]:
        """Takes over what the former owners left."""
        left = await self._progress_log.read(list(partitions))
        starts = {}
        for partition, found in partitions.items():
            start = starts[partition] = found.start()
            owned = Owned(
                partition=partition,
                topic=self._progress_log.name_of(partition),
                progress=restored(
                    self._progress_log.name_of(partition),
                    partition.number,
                    start=start,
                    low=found.low,
                    records=left[partition],
                ),
            )
            self._owned[partition] = owned
            if pending := owned.progress.pending():
                self._to_recover.put_nowait((owned, pending))
        return starts

    async def revoked(self, partitions: Sequence[Partition]) -> None:
        """Settles or aborts what is in flight and writes the last checkpoint."""
        await self._hand_over(partitions, wait_s=self._settings.revoke_s)

    async def lost(self, partitions: Sequence[Partition]) -> None:
        """Drops everything; another member has the partitions already."""
        for partition in partitions:
            owned = self._owned.pop(partition, None)
            if owned is not None:
                self.courier.abandon(owned)

    async def drain(self) -> None:
        """Settles what is in flight, writes the last checkpoints; nothing new begins."""
        await self._hand_over(list(self._owned), wait_s=self._settings.stop_s)

    async def checkpoint_forever(self) -> None:
        """Writes what changed, every 200 ms; holds callbacks back while it cannot be written."""
        loop = asyncio.get_running_loop()
        while True:
            late = loop.call_later(self._settings.unsaved_s_max, self._hold)
            try:
                is_saved = False
                while not is_saved:
                    await asyncio.sleep(self._settings.checkpoint_interval_s)
                    is_saved = await self._checkpoint(list(self._owned.values()))
            finally:
                late.cancel()
            if self.courier.is_held:
                logger.info("callbacks.go_on")
                self.courier.go_on(self._owned.values())

    def _hold(self) -> None:
        logger.warning("callbacks.held", reason="progress cannot be written")
        self.courier.is_held = True

    async def recover_forever(self) -> None:
        """Brings the pending records of newly assigned partitions from Kafka."""
        while True:
            owned, offsets = await self._to_recover.get()
            for first in range(0, len(offsets), PICK_MAX):
                await self._recover(owned, offsets[first : first + PICK_MAX])

    async def _recover(self, owned: Owned, offsets: list[int]) -> None:
        if owned.is_closing:
            return
        records = await self._progress_log.pick(owned.partition, offsets)
        owned.progress.drop_pending(set(offsets) - {record.offset for record in records})
        for record in records:
            job = self._job(owned, record)
            if job is None:
                self._set_aside(owned, record)
                continue
            while not owned.is_closing and not self.courier.has_room(owned, job.lane_id):
                self._room.clear()
                await self._room.wait()
            if owned.is_closing:
                return
            self.courier.submit(owned, job)

    async def _hand_over(self, partitions: Sequence[Partition], *, wait_s: float) -> None:
        leaving = [self._owned[one] for one in partitions if one in self._owned]
        for owned in leaving:
            owned.is_closing = True
            owned.backlog.clear()
        self._room.set()
        await self.courier.release(leaving, wait_s=wait_s)
        for _ in range(RELEASE_ATTEMPTS_MAX):
            if await self._checkpoint(leaving, released=True):
                break
        for owned in leaving:
            self._owned.pop(owned.partition, None)

    async def _checkpoint(self, partitions: Sequence[Owned], *, released: bool = False) -> bool:
        """Writes what changed of the partitions; False when the transaction was aborted."""
        async with self._writing:
            now_s = time.monotonic()
            written = {}
            for owned in partitions:
                if self._owned.get(owned.partition) is not owned:
                    continue
                owned.progress.advance(now_s=now_s, pending_after_s=self._settings.pending_after_s)
                if owned.progress.is_changed or released:
                    written[owned.partition] = owned.progress.checkpoint(released=released)
            if not written:
                return True
            try:
                with metrics.checkpoint_seconds.time():
                    await self._progress_log.write(written)
            except TransactionAborted as error:
                logger.warning("checkpoint.aborted", detail=str(error))
                for owned in partitions:
                    if owned.partition in written:
                        owned.progress.restore_changes(written[owned.partition])
                return False
            return True

    def _room_made(self) -> None:
        """An event was settled: what waited for its lane or for memory may go on."""
        self._room.set()
        for owned in self._owned.values():
            if owned.backlog:
                self._intake(owned)

    def _intake(self, owned: Owned) -> None:
        """Admits what was read, as far as lanes and memory have room."""
        while owned.backlog and not owned.is_closing:
            record = owned.backlog[0]
            job = self._job(owned, record)
            if job is not None and not self.courier.has_room(owned, job.lane_id):
                break
            owned.backlog.popleft()
            self._admit(owned, record, job)
        self._pause_or_resume(owned)

    def _admit(self, owned: Owned, record: ConsumedRecord, job: Job | None) -> None:
        now_s = time.monotonic()
        if job is None:
            found = owned.progress.admit(record.offset, NOBODY, sequence=None, now_s=now_s)
            if found is Admission.DELIVER:
                self._set_aside(owned, record)
            return
        source = job.event.source
        sequence = (source_key(source), position_of(source, job.event.subscription_id))
        if job.event.delivery_type is not DeliveryType.CALLBACK:
            owned.progress.skip(record.offset, sequence=sequence)
            return
        found = owned.progress.admit(record.offset, job.lane_id, sequence=sequence, now_s=now_s)
        if found is Admission.DELIVER:
            self.courier.submit(owned, job)
        else:
            metrics.repeats.inc()

    def _set_aside(self, owned: Owned, record: ConsumedRecord) -> None:
        """Puts a record that nobody can read on `dead-letters`; it is settled when it is there."""
        logger.warning("record.set_aside", partition=owned.partition, offset=record.offset)
        owned.unstored += 1
        self._status_log.set_aside(
            record, reason="unreadable", on_stored=partial(self._stored, owned, record.offset)
        )

    def _stored(self, owned: Owned, offset: int) -> None:
        owned.unstored -= 1
        owned.progress.settle(offset)
        owned.calm.set()

    def _job(self, owned: Owned, record: ConsumedRecord) -> Job | None:
        """The event in a record; None when nobody can read it."""
        try:
            event = _decoder.decode(record.value or b"")
            head = head_decoder.decode(event.event)
            published_at_s = clock.from_text(event.published_at).timestamp()
        except (msgspec.MsgspecError, ValueError):
            return None
        return Job(
            lane_id=LaneId(event.subscription_id),
            coordinates=Coordinates(
                topic=owned.topic, partition=record.partition.number, offset=record.offset
            ),
            event=event,
            head=head,
            size_bytes=len(record.value or b""),
            published_at_s=published_at_s,
        )

    def _pause_or_resume(self, owned: Owned) -> None:
        if self._reader is None or owned.is_closing or owned.is_paused == bool(owned.backlog):
            return
        owned.is_paused = bool(owned.backlog)
        if owned.is_paused:
            metrics.paused_partitions.inc()
            self._reader.pause([owned.partition])
        else:
            metrics.paused_partitions.dec()
            self._reader.resume([owned.partition])
