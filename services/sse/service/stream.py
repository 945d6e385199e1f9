"""One consumer's stream: claims its lanes, sends their events, notes how far it came.

An event is DELIVERED once its bytes have left this process and the status is on Kafka. What the
checkpoint says is settled is never sent again; what it does not say yet is, with the same uuid, by
the stream that comes next: at most what was sent since the last checkpoint.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial

import msgspec

from libs.common import clock, log
from libs.common.clock import Clock
from libs.common.ids import LaneId
from libs.common.partitions import ConsumedRecord
from libs.common.records import (
    Coordinates,
    EventHead,
    Status,
    StreamCheckpoint,
    SubscriptionEvent,
    decoder,
    head_decoder,
)
from libs.common.resources import Subscription
from libs.common.sequences import position_of, source_key
from services.sse import metrics
from services.sse.domain import wire
from services.sse.domain.claims import NOBODY, Claims, Place
from services.sse.domain.judgement import Verdict, judge, status_change
from services.sse.domain.places import places_of
from services.sse.domain.progress import LaneProgress, begun, resumed
from services.sse.domain.wire import UNLIMITED, Format, Limits
from services.sse.ports import Disconnected, Feed, Outlet, Reading, StreamLog, Subscriptions
from services.sse.service.queue import Budget, ReadAhead
from services.sse.settings import SseSettings

logger = log.get(__name__)

CHUNK_BYTES = 65_536
"""Events that are ready are sent together up to this size."""

_decoder = decoder(SubscriptionEvent)


class Ending(StrEnum):
    """Why a stream ends."""

    DISCONNECTED = "disconnected"
    CUT_OUT = "cut_out"
    """A newer connection has the lane, or somebody ended the stream."""
    ENOUGH = "enough"
    IDLE = "idle"
    TOO_SLOW = "too_slow"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the consumer asked for."""

    form: Format
    limits: Limits = UNLIMITED
    with_http_headers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Everything that streams need from outside."""

    subscriptions: Subscriptions
    claims: Claims
    log: StreamLog
    feed: Feed
    clock: Clock
    partitions: int
    """Of each `subscribed-*` topic."""


@dataclass(slots=True)
class _Lane:
    progress: LaneProgress
    reading: Reading


@dataclass(slots=True)
class _Sent:
    lane: _Lane
    event: SubscriptionEvent
    head: EventHead
    coordinates: Coordinates


class Stream:
    """A stream from its claim to its last checkpoint. `run` it once."""

    def __init__(
        self,
        subscription: Subscription,
        wishes: Wishes,
        *,
        connection_id: str,
        outside: Outside,
        settings: SseSettings,
        budget: Budget,
    ) -> None:
        self.lane_id = LaneId(subscription.id)
        self._subscription = subscription
        self._wishes = wishes
        self._connection_id = connection_id
        self._outside = outside
        self._settings = settings
        self._queue = ReadAhead(
            budget,
            records_max=settings.queue_records_max,
            bytes_max=settings.queue_bytes_max,
        )
        self._lanes: dict[Place, _Lane] = {}
        self._epoch = NOBODY
        self._ending: Ending | None = None
        self._changed = asyncio.Event()
        self._scope: asyncio.Timeout | None = None
        self._unstored = 0
        self._sent = 0
        self._sent_bytes = 0
        self._now = asyncio.get_running_loop().time
        self._began_s = self._event_s = self._wrote_s = self._now()
        self._log = logger.bind(subscription=subscription.id, connection=connection_id)

    async def run(self, outlet: Outlet) -> Ending:
        """Streams until something ends it, and says what.

        Raises KafkaUnavailable when it cannot begin.
        """
        await self._claim()
        try:
            await self._open_lanes()
            self._event_s = self._wrote_s = self._now()
            if self._wishes.form is Format.EVENT_STREAM and self._ending is None:
                await self._write(outlet.begin())
            while self._ending is None:
                if self._queue and self._unstored < self._settings.unstored_max:
                    await self._send(outlet)
                else:
                    await self._wait(outlet)
        finally:
            self.end(Ending.STOPPING)
            await self._release()
            self._log.info("stream.ended", reason=self._ending, sent=self._sent)
        return self._ending or Ending.STOPPING

    def end(self, ending: Ending) -> None:
        """Ends the stream for the first reason that is given."""
        if self._ending is None:
            self._ending = ending
            self._changed.set()
            if self._scope is not None and not self._scope.expired():
                self._scope.reschedule(self._now())

    def claims_changed(self) -> None:
        """Somebody claimed the lane, or wrote a checkpoint."""
        if self._epoch != NOBODY and self._outside.claims.epoch(self.lane_id) > self._epoch:
            self.end(Ending.CUT_OUT)
        self._changed.set()

    def subscription_changed(self) -> None:
        """The subscription is another, or its events have gone to other places."""
        found = self._outside.subscriptions.get(self.lane_id)
        if found is None or found.incarnation != self._subscription.incarnation:
            self.end(Ending.SUBSCRIPTION_CHANGED)
        elif self._places_of(found).keys() != self._places_of(self._subscription).keys():
            # The next stream reads the new places too.
            self.end(Ending.SUBSCRIPTION_CHANGED)

    def checkpoint(self) -> None:
        """Notes how far it came, if that has changed."""
        for place, lane in self._lanes.items():
            if self._ending is None and not self._queue:
                # What others wrote into the partition need not be read again.
                lane.progress.pass_over(lane.reading.position())
            if lane.progress.is_changed:
                self._write_checkpoint(place, lane)

    async def _claim(self) -> None:
        newest = next(iter(self._places_of(self._subscription)))
        self._epoch = await self._outside.log.claim(newest, connection_id=self._connection_id)
        self._log = self._log.bind(epoch=self._epoch)
        self._log.info("stream.claimed")
        self.claims_changed()

    async def _open_lanes(self) -> None:
        places = self._places_of(self._subscription)
        await self._former_released(places)
        for place, since in places.items():
            found = self._outside.claims.checkpoint(place)
            if found is not None:
                progress = resumed(found)
            else:
                start = await self._outside.feed.first_offset(place, since)
                progress = begun(next_offset=start, sources={})
            if self._ending is None:
                sink = partial(self._offered, place)
                reading = self._outside.feed.read(place, progress.next_offset, sink)
                lane = self._lanes[place] = _Lane(progress, reading)
                self._write_checkpoint(place, lane, on_stored=partial(self._forget_former, place))

    def _places_of(self, subscription: Subscription) -> dict[Place, datetime | None]:
        return places_of(subscription, partitions=self._outside.partitions)

    async def _former_released(self, places: Iterable[Place]) -> None:
        """Waits a moment for the last word of the stream before: it may be about to come."""

        def is_released(place: Place) -> bool:
            found = self._outside.claims.checkpoint(place)
            return found is None or found.released

        try:
            async with asyncio.timeout(self._settings.takeover_s):
                while self._ending is None and not all(is_released(one) for one in places):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            self._log.info("stream.former_not_released")

    def _forget_former(self, place: Place) -> None:
        for epoch in self._outside.claims.epochs_below(place, self._epoch):
            self._outside.log.forget(place, epoch)

    def _offered(self, place: Place, record: ConsumedRecord) -> bool:
        is_taken = self._queue.offer(place, record)
        self._changed.set()
        return is_taken

    async def _send(self, outlet: Outlet) -> None:
        """Sends what is ready, and records it once it has left."""
        chunk = bytearray()
        sent: list[_Sent] = []
        while self._queue and len(chunk) < CHUNK_BYTES and self._ending is None:
            if self._is_enough(len(sent), len(chunk)):
                self.end(Ending.ENOUGH)
                break
            found = self._next_to_send()
            if found is not None:
                sent.append(found)
                chunk += self._frame(found)
        self._read_on()
        if sent and await self._write(outlet.write(bytes(chunk))):
            self._sent_bytes += len(chunk)
            self._event_s = self._now()
            for one in sent:
                self._delivered(one)
            if self._is_enough(0, 0):
                self.end(Ending.ENOUGH)

    def _is_enough(self, events: int, size_bytes: int) -> bool:
        return self._wishes.limits.is_reached(
            events=self._sent + events,
            elapsed_s=self._now() - self._began_s,
            size_bytes=self._sent_bytes + size_bytes,
        )

    def _next_to_send(self) -> _Sent | None:
        """The next record of the queue, if it is to be sent."""
        place, record = self._queue.take()
        try:
            event = _decoder.decode(record.value or b"")
            head = head_decoder.decode(event.event)
            verdict = judge(
                event, incarnation=self._subscription.incarnation, now=self._outside.clock()
            )
        except (msgspec.MsgspecError, ValueError):
            return None  # delivery, which reads every record, sets it aside
        lane = self._lanes[place]
        if verdict is Verdict.UNKNOWN:
            self.end(Ending.SUBSCRIPTION_CHANGED)
            return None
        source = source_key(event.source)
        position = position_of(event.source, event.subscription_id)
        if verdict is Verdict.FOREIGN:
            lane.progress.skip(record.offset, source, position)
            return None
        if not lane.progress.admit(record.offset, source, position):
            metrics.repeats.inc()
            return None
        coordinates = Coordinates(
            topic=place.topic, partition=place.partition, offset=record.offset
        )
        found = _Sent(lane, event, head, coordinates)
        if verdict is Verdict.EXPIRED:
            metrics.expired.inc()
            self._record(found, Status.EXPIRED)
            return None
        return found

    def _frame(self, found: _Sent) -> bytes:
        event = found.event
        headers = event.http_headers if self._wishes.with_http_headers else None
        return wire.frame(
            bytes(event.event), uuid=event.uuid, form=self._wishes.form, http_headers=headers
        )

    def _read_on(self) -> None:
        if self._queue.is_low:
            for lane in self._lanes.values():
                lane.reading.resume()

    async def _write(self, writing: Awaitable[None]) -> bool:
        """Waits until something has left; False when the stream ends first."""
        try:
            async with asyncio.timeout(self._settings.send_timeout_s) as self._scope:
                await writing
        except TimeoutError:
            self.end(Ending.TOO_SLOW)
            return False
        except Disconnected:
            self.end(Ending.DISCONNECTED)
            return False
        finally:
            self._scope = None
        self._wrote_s = self._now()
        return True

    def _delivered(self, sent: _Sent) -> None:
        self._sent += 1
        event = sent.event
        metrics.sent_of(event.environment, sent.head.type).inc()
        elapsed = self._outside.clock() - clock.from_text(event.published_at)
        metrics.end_to_end_seconds.observe(max(elapsed.total_seconds(), 0.0))
        self._record(sent, Status.DELIVERED)

    def _record(self, sent: _Sent, status: Status) -> None:
        change = status_change(
            sent.event, sent.head, sent.coordinates, status=status, at=self._outside.clock()
        )
        self._unstored += 1
        metrics.unstored.inc()
        self._outside.log.record(
            change, on_stored=partial(self._stored, sent.lane, sent.coordinates.offset)
        )

    def _stored(self, lane: _Lane, offset: int) -> None:
        self._unstored -= 1
        metrics.unstored.dec()
        lane.progress.settle(offset)
        self._changed.set()

    async def _wait(self, outlet: Outlet) -> None:
        """Waits for events, for room, for the end, or for what silence leads to."""
        is_lines = self._wishes.form is Format.JSON_LINES
        silent_s = self._settings.idle_timeout_s if is_lines else self._settings.keep_alive_s
        due_s = (self._event_s if is_lines else self._wrote_s) + silent_s
        minutes = self._wishes.limits.minutes
        until_s = min(due_s, self._began_s + minutes * 60) if minutes else due_s
        self._changed.clear()
        try:
            async with asyncio.timeout_at(until_s):
                await self._changed.wait()
        except TimeoutError:
            if self._is_enough(0, 0):
                self.end(Ending.ENOUGH)
            elif is_lines:
                self.end(Ending.IDLE)
            else:
                await self._write(outlet.write(wire.KEEP_ALIVE))

    async def _release(self) -> None:
        """Reads nothing more and leaves the last word to the stream that comes next."""
        self._queue.clear()
        for lane in self._lanes.values():
            lane.reading.close()
        try:
            async with asyncio.timeout(self._settings.release_s):
                while self._unstored:
                    self._changed.clear()
                    await self._changed.wait()
                await self._last_word()
        except TimeoutError:
            self._log.warning("stream.not_released", unstored=self._unstored)

    async def _last_word(self) -> None:
        left = set(self._lanes)

        def stored(place: Place) -> None:
            left.discard(place)
            self._changed.set()

        for place, lane in self._lanes.items():
            self._write_checkpoint(place, lane, released=True, on_stored=partial(stored, place))
        while left:
            self._changed.clear()
            await self._changed.wait()

    def _write_checkpoint(
        self,
        place: Place,
        lane: _Lane,
        *,
        released: bool = False,
        on_stored: Callable[[], None] = lambda: None,
    ) -> None:
        checkpoint = StreamCheckpoint(
            lane_id=self.lane_id,
            epoch=self._epoch,
            next_offset=lane.progress.next_offset,
            sources=lane.progress.sources(),
            resource_version=self._subscription.version,
            released=released,
        )
        self._outside.log.checkpoint(place, checkpoint, on_stored=on_stored)
        lane.progress.is_changed = False
