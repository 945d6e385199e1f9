"""The multiplexer's use case: every published event becomes one record per matching subscription.

Pipelined: records are queued towards Kafka in strict order without waiting for acknowledgements,
and an offset is committed once everything before it is acknowledged. An event is evaluated against
one snapshot of the subscriptions, not before these are as new as those its publisher was answered
with. All state belongs to the event loop; a partition's state is dropped with the partition.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from libs.common import clock, dead_letters, log, topics
from libs.common.errors import Overloaded
from libs.common.kafka.consumer import CommitRefused
from libs.common.partitions import CommittedOffset, ConsumedRecord, Partition
from libs.common.records import Outcome, Source, encode
from services.multiplexer import metrics
from services.multiplexer.domain.parsing import Poison, Readable, parse
from services.multiplexer.domain.pipeline import InFlight, Pipeline
from services.multiplexer.domain.position import CommitNote, note_text, start_offset
from services.multiplexer.domain.routing import (
    Output,
    match_of,
    output_for,
    recipients,
    routing_record,
)
from services.multiplexer.ports import Abort, Headers, Reader, RecordLog, Resources, Subscriptions
from services.multiplexer.settings import MultiplexerSettings

logger = log.get(__name__)

FLUSH_S_MAX = 10.0
RETRY_S = 0.05
UNREADABLE = "unreadable"


@dataclass(slots=True, eq=False)
class PartitionState:
    """What is under way of one source partition."""

    partition: Partition
    pipeline: Pipeline
    inbox: deque[ConsumedRecord] = field(default_factory=deque)
    unsent: deque[Callable[[], None]] = field(default_factory=deque)
    """Records that are evaluated but did not fit into Kafka's queue, in order."""
    waits_for: int | None = None
    """The resources offset that the next event waits for."""
    is_paused: bool = False
    is_closing: bool = False
    """Nothing new begins; what has begun is finished."""


TopicsNow = Callable[[], Awaitable[CommitNote]]
"""What offsets are to be committed with, as the topics are now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Everything that the use case needs from outside."""

    resources: Resources
    subscriptions: Subscriptions
    records: RecordLog
    abort: Abort


class Multiplexer:
    """Routes records of the partitions that this member owns. A `RebalanceListener`."""

    def __init__(
        self, settings: MultiplexerSettings, outside: Outside, *, topics_now: TopicsNow
    ) -> None:
        self._settings = settings
        self._outside = outside
        self._topics_now = topics_now
        self._note = CommitNote(topic_id="", subscribed_partitions=0)
        self._reader: Reader | None = None
        self._states: dict[Partition, PartitionState] = {}
        self._waiting = asyncio.Event()
        self._finished = asyncio.Event()

    def read_from(self, reader: Reader) -> None:
        """Connects the consumer, which needs this object to be built."""
        self._reader = reader

    def on_batch(self, records: list[ConsumedRecord]) -> None:
        """Takes over records; those of partitions that are gone are left to their new owner."""
        touched = set()
        for record in records:
            state = self._states.get(record.partition)
            if state is not None and not state.is_closing:
                state.inbox.append(record)
                touched.add(state.partition)
        for partition in touched:
            self._pump(self._states[partition])

    async def assigned(
        self, partitions: Mapping[Partition, CommittedOffset]
    ) -> Mapping[Partition, int]:
        """Starts where the group has committed, in the topic as it is now."""
        self._note = await self._topics_now()
        starts = {
            partition: start_offset(found, now=self._note)
            for partition, found in partitions.items()
        }
        for partition, offset in starts.items():
            committed = partitions[partition].offset
            if committed is not None and offset != committed:
                logger.warning(
                    "partition.offset_moved", partition=partition, committed=committed, to=offset
                )
            self._states[partition] = PartitionState(
                partition=partition, pipeline=Pipeline(next_commit=offset)
            )
        return starts

    async def revoked(self, partitions: Sequence[Partition]) -> None:
        """Finishes and commits what is in flight of the partitions, or ends the process."""
        states = [self._states[partition] for partition in partitions if partition in self._states]
        for state in states:
            state.is_closing = True
            state.inbox.clear()
        await self._finish(states)
        await self._commit_now(states)
        for state in states:
            self._states.pop(state.partition, None)

    async def lost(self, partitions: Sequence[Partition]) -> None:
        """Forgets the partitions; what is in flight is a repeat that readers drop."""
        for partition in partitions:
            self._states.pop(partition, None)

    async def drain(self) -> None:
        """Finishes and commits everything that has begun; nothing new begins."""
        await self.revoked(list(self._states))

    async def commit_forever(self) -> None:
        """Commits what is finished, and ends the process when Kafka is silent for too long."""
        while True:
            await asyncio.sleep(self._settings.commit_interval_s)
            if self._reader is not None and (moved := self._moved(self._states.values())):
                self._reader.commit(moved, metadata=note_text(self._note))
            self._check_age()

    async def release_forever(self) -> None:
        """Lets partitions go on once the resources that they wait for are known here."""
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            for state in list(self._states.values()):
                if state.waits_for is not None:
                    await self._outside.resources.reached(state.waits_for)
                    self._release(state)

    async def retry_forever(self) -> None:
        """Queues again what Kafka's queue had no room for."""
        while True:
            await asyncio.sleep(RETRY_S)
            for state in list(self._states.values()):
                if state.unsent:
                    self._pump(state)

    def _release(self, state: PartitionState) -> None:
        offset, state.waits_for = state.waits_for, None
        metrics.waiting_partitions.dec()
        if self._states.get(state.partition) is state and offset is not None:
            self._pump(state, known_offset=offset)

    def _pump(self, state: PartitionState, *, known_offset: int = 0) -> None:
        """Routes what waits in the inbox, as far as bounds and resources permit."""
        known = max(known_offset, self._outside.resources.position)
        while self._has_sent(state) and state.inbox and state.waits_for is None:
            if len(state.pipeline) >= self._settings.outstanding_records_max:
                break
            parsed = parse(state.inbox[0].value)
            if isinstance(parsed, Readable) and parsed.event.resources_offset > known:
                state.waits_for = parsed.event.resources_offset
                metrics.waiting_partitions.inc()
                self._waiting.set()
                break
            record = state.inbox.popleft()
            if isinstance(parsed, Poison):
                self._set_aside(state, record, parsed)
            else:
                self._route(state, record, parsed)
        self._pause_or_resume(state)

    def _has_sent(self, state: PartitionState) -> bool:
        """Queues what is waiting to be queued; False when there is still no room."""
        while state.unsent:
            try:
                state.unsent[0]()
            except Overloaded:
                return False
            state.unsent.popleft()
        return True

    def _pause_or_resume(self, state: PartitionState) -> None:
        if self._reader is None:
            return
        bound = self._settings.inbox_records_max
        if not state.is_paused and len(state.inbox) > bound:
            state.is_paused = True
            self._reader.pause([state.partition])
        elif state.is_paused and len(state.inbox) <= bound // 2:
            state.is_paused = False
            self._reader.resume([state.partition])

    def _route(self, state: PartitionState, consumed: ConsumedRecord, parsed: Readable) -> None:
        event, source = parsed.event, self._source(consumed)
        found = recipients(
            event,
            self._outside.subscriptions.subscriptions_of(event.environment, parsed.head.type),
        )
        matched = [match_of(event, subscription) for subscription in found]
        outputs = [
            output_for(event, source, subscription, uuid=match.uuid)
            for subscription, match in zip(found, matched, strict=True)
        ]
        record = routing_record(
            event, parsed.head, source, matched=matched, at=clock.to_text(clock.utc_now())
        )
        in_flight = InFlight(
            offset=source.offset,
            began_at_s=time.monotonic(),
            outputs=len(outputs),
            routing=encode(record),
            key=event.uuid.encode(),
        )
        state.pipeline.begin(in_flight)
        for output in outputs:
            self._write(state, in_flight, output, timestamp_ms=parsed.published_ms)
        for subscription in found:
            metrics.multiplexed_of(
                event.environment, parsed.head.type, subscription.delivery_type
            ).inc()
        metrics.routed_of(Outcome.MATCHED if matched else Outcome.NO_SUBSCRIBER).inc()
        if not outputs:
            self._produce_routing(state)

    def _set_aside(self, state: PartitionState, record: ConsumedRecord, poison: Poison) -> None:
        """Puts a record that no code can read on `dead-letters`, as it came."""
        logger.warning("record.set_aside", partition=state.partition, offset=record.offset)
        in_flight = InFlight(
            offset=record.offset, began_at_s=time.monotonic(), outputs=1, routing=None, key=b""
        )
        output = Output(
            topic=topics.DEAD_LETTERS,
            key=record.key,
            value=record.value or b"",
            reason=UNREADABLE,
        )
        headers = [
            *dead_letters.headers(state.partition, record.offset, reason=UNREADABLE),
            ("detail", poison.reason.encode()),
        ]
        state.pipeline.begin(in_flight)
        self._write(state, in_flight, output, headers=headers)

    def _write(
        self,
        state: PartitionState,
        in_flight: InFlight,
        output: Output,
        *,
        headers: Headers = (),
        timestamp_ms: int = 0,
    ) -> None:
        if output.reason is not None:
            metrics.dead_letters.labels(output.reason).inc()
            headers = headers or dead_letters.headers(
                state.partition, in_flight.offset, reason=output.reason
            )
            timestamp_ms = 0
        self._queue(
            state,
            partial(
                self._outside.records.write,
                output,
                on_stored=partial(self._output_stored, state, in_flight),
                headers=headers,
                timestamp_ms=timestamp_ms,
            ),
        )

    def _queue(self, state: PartitionState, write: Callable[[], None]) -> None:
        """Queues a record now, or behind those that are waiting already."""
        state.unsent.append(write)
        self._has_sent(state)

    def _output_stored(self, state: PartitionState, in_flight: InFlight) -> None:
        state.pipeline.output_acknowledged(in_flight)
        if in_flight.outputs == 0:
            self._produce_routing(state)

    def _produce_routing(self, state: PartitionState) -> None:
        for due in state.pipeline.routing_due():
            output = Output(topic=topics.ROUTED, key=due.key, value=due.routing or b"")
            self._queue(
                state,
                partial(
                    self._outside.records.write,
                    output,
                    on_stored=partial(self._routing_stored, state, due),
                ),
            )
        self._finished.set()

    def _routing_stored(self, state: PartitionState, in_flight: InFlight) -> None:
        state.pipeline.routing_acknowledged(in_flight)
        self._finished.set()
        if state.inbox and self._states.get(state.partition) is state:
            self._pump(state)

    async def _finish(self, states: Sequence[PartitionState]) -> None:
        """Waits until nothing of the partitions is in flight, or ends the process."""
        try:
            async with asyncio.timeout(FLUSH_S_MAX):
                while any(len(state.pipeline) for state in states):
                    self._finished.clear()
                    await self._finished.wait()
        except TimeoutError:
            self._outside.abort("records were not acknowledged before the partition had to go")

    async def _commit_now(self, states: Sequence[PartitionState]) -> None:
        if self._reader is None or not (moved := self._moved(states)):
            return
        try:
            await self._reader.commit_now(moved, metadata=note_text(self._note))
        except CommitRefused as error:
            logger.warning("offsets.not_committed", detail=str(error))

    def _moved(self, states: Iterable[PartitionState]) -> dict[Partition, int]:
        """What is to be committed: offsets that Kafka has not confirmed."""
        reader = self._reader
        return {
            state.partition: state.pipeline.next_commit
            for state in states
            if reader is not None
            and reader.confirmed(state.partition) != state.pipeline.next_commit
        }

    def _check_age(self) -> None:
        now_s = time.monotonic()
        metrics.outstanding.set(sum(len(state.pipeline) for state in self._states.values()))
        for state in self._states.values():
            began_at_s = state.pipeline.oldest_began_at_s()
            if began_at_s is not None and now_s - began_at_s > self._settings.unacknowledged_s_max:
                self._outside.abort("Kafka did not acknowledge the oldest record in time")

    def _source(self, record: ConsumedRecord) -> Source:
        return Source(
            topic_id=self._note.topic_id,
            partition=record.partition.number,
            leader_epoch=record.leader_epoch,
            offset=record.offset,
        )
