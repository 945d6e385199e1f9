"""A multiplexer built from the real decisions, with a producer that is a queue.

The shell around the decisions is the smallest that can crash, stall and fall behind anywhere.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import msgspec

from libs.common import topics
from libs.common.partitions import CommittedOffset
from libs.common.records import Source, encode
from libs.common.resources import Catalog, Placement, Subscription
from services.multiplexer.domain.parsing import Poison, Readable, parse
from services.multiplexer.domain.pipeline import InFlight, Pipeline
from services.multiplexer.domain.position import CommitNote, note_text, start_offset
from services.multiplexer.domain.routing import (
    Output,
    TooLargePointer,
    match_of,
    output_for,
    recipients,
    routing_record,
    subscription_event,
)
from tests.unit.multiplexer.sequences_world import (
    ENVIRONMENT,
    EVENT_TYPE,
    PARTITIONS,
    Broker,
    Fault,
    Place,
    Published,
    PublishedRecord,
    ResourceLog,
    place_of,
)


class Committed(NamedTuple):
    """What the group has of one partition."""

    offset: int | None = None
    metadata: str = ""


@dataclass(slots=True)
class Group:
    """The consumer group: a newer generation shuts a former owner out."""

    generations: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    committed: defaultdict[int, Committed] = field(default_factory=lambda: defaultdict(Committed))

    def commit(self, partition: int, generation: int, value: Committed) -> None:
        """Refused from a former owner."""
        if generation == self.generations[partition]:
            self.committed[partition] = value


class Queued(NamedTuple):
    """A record in the producer's queue."""

    output: Output
    on_stored: Callable[[], None]


@dataclass(slots=True)
class State:
    """A source partition that this member has, or believes that it has."""

    partition: int
    generation: int
    note: CommitNote
    next_offset: int
    pipeline: Pipeline


@dataclass(slots=True)
class Member:
    """One process. Its producer keeps the order within an output partition, and only there."""

    fault: Fault | None = None
    position: int = 0
    """Up to where it has read `resources`."""
    states: dict[int, State] = field(default_factory=dict)
    queues: dict[Place, deque[Queued]] = field(default_factory=dict)
    unacknowledged: dict[Place, deque[Queued]] = field(default_factory=dict)
    _catalog: Catalog = field(default_factory=Catalog)

    def follow(self, resources: ResourceLog, documents: int) -> None:
        """Reads on in `resources`."""
        for key, resource in resources.documents[self.position : self.position + documents]:
            self._catalog.apply(key, resource)
            self.position += 1

    def take(self, partition: int, group: Group, published: Published) -> None:
        """Begins where the group stopped, as an assignment does."""
        note = CommitNote(topic_id=published.topic_id, subscribed_partitions=PARTITIONS)
        committed = group.committed[partition]
        found = CommittedOffset(*committed, 0, len(published.partitions[partition]))
        is_careless = self.fault is Fault.OTHER_TOPIC
        start = found.start() if is_careless else start_offset(found, now=note)
        group.generations[partition] += 1
        self.states[partition] = State(
            partition, group.generations[partition], note, start, Pipeline(next_commit=start)
        )

    def route(self, partition: int, published: Published) -> bool:
        """Evaluates one event; False when there is none, or when it has to wait."""
        state = self.states.get(partition)
        if state is None or state.note.topic_id != published.topic_id:
            return False
        log = published.partitions[partition]
        if state.next_offset >= len(log):
            return False
        record = log[state.next_offset]
        parsed = parse(record.value)
        if isinstance(parsed, Readable) and self._waits_for(parsed.event.resources_offset):
            return False
        state.next_offset += 1
        if isinstance(parsed, Poison):
            self._set_aside(state, record)
        else:
            self._route(state, record, parsed)
        return True

    def commit(self, group: Group) -> None:
        """Commits what is acknowledged."""
        for state in self.states.values():
            is_early = self.fault is Fault.COMMITS_EARLY
            offset = state.next_offset if is_early else state.pipeline.next_commit
            value = Committed(offset, note_text(state.note))
            group.commit(state.partition, state.generation, value)

    def store(self, place: Place, records: int, broker: Broker) -> bool:
        """The broker stores the first records of a queue; False ends the process."""
        queue = self.queues.get(place, deque())
        if self.fault is Fault.GIVES_UP_RECORDS and records and len(queue) > 1:
            queue.popleft()
        for _ in range(min(records, len(queue))):
            if not broker.store(place, queue[0].output):
                return False
            self.unacknowledged.setdefault(place, deque()).append(queue.popleft())
        return True

    def acknowledge(self, place: Place, records: int) -> None:
        """The process learns that records were stored."""
        waiting = self.unacknowledged.get(place, deque())
        for _ in range(min(records, len(waiting))):
            waiting.popleft().on_stored()

    def places(self) -> list[Place]:
        """Where something is under way."""
        waiting = [*self.queues.items(), *self.unacknowledged.items()]
        return sorted({place for place, records in waiting if records})

    def _waits_for(self, resources_offset: int) -> bool:
        return resources_offset > self.position and self.fault is not Fault.DOES_NOT_WAIT

    def _route(self, state: State, record: PublishedRecord, parsed: Readable) -> None:
        source = Source(
            topic_id=state.note.topic_id,
            partition=state.partition,
            leader_epoch=record.leader_epoch,
            offset=record.offset,
        )
        found = self._catalog.subscriptions_of(ENVIRONMENT, EVENT_TYPE)
        matched = recipients(parsed.event, found)
        if self.fault is Fault.UNORDERED:
            matched = [one for one in found if one in matched]
        outputs = [self._output(parsed, source, one) for one in matched]
        matches = [match_of(parsed.event, one) for one in matched]
        routing = routing_record(parsed.event, parsed.head, source, matched=matches, at="")
        self._begin(state, record, outputs, routing=encode(routing))

    def _output(self, parsed: Readable, source: Source, subscription: Subscription) -> Output:
        if self.fault is Fault.MOVES:
            now = Placement(after=-1, retention_class=subscription.spec.event_retention_time)
            subscription = msgspec.structs.replace(subscription, placements=(now,))
        uuid = match_of(parsed.event, subscription).uuid
        if self.fault not in {Fault.TOO_LARGE, Fault.SUBSCRIPTION_COUNTS}:
            return output_for(parsed.event, source, subscription, uuid=uuid)
        placed = subscription.placement_at(parsed.event.resources_offset).retention_class
        copy = subscription_event(
            parsed.event, source, subscription, uuid=uuid, retention_class=placed
        )
        value = encode(copy)
        key = subscription.id.encode()
        if self.fault is Fault.TOO_LARGE or len(value) <= topics.COPIED_BYTES_MAX:
            return Output(topic=topics.subscribed(placed), key=key, value=value)
        pointer = TooLargePointer(
            published_uuid=parsed.event.uuid, subscription_id=subscription.id, source=source
        )
        return Output(topic=topics.DEAD_LETTERS, key=key, value=encode(pointer), reason="too_large")

    def _set_aside(self, state: State, record: PublishedRecord) -> None:
        letter = Output(topic=topics.DEAD_LETTERS, key=b"", value=record.value, reason="unreadable")
        self._begin(state, record, [letter], routing=None)

    def _begin(
        self,
        state: State,
        record: PublishedRecord,
        outputs: Iterable[Output],
        *,
        routing: bytes | None,
    ) -> None:
        queued = list(outputs)
        event = InFlight(
            offset=record.offset,
            began_at_s=0.0,
            outputs=len(queued),
            routing=routing,
            key=str(record.offset).encode(),
        )
        if self.fault is Fault.ROUTES_EARLY:
            event.outputs = 0
        state.pipeline.begin(event)
        for output in queued:
            self._queue(output, partial(self._stored, state, event))
        self._queue_routing(state)

    def _stored(self, state: State, event: InFlight) -> None:
        if self.fault is not Fault.ROUTES_EARLY:
            state.pipeline.output_acknowledged(event)
        self._queue_routing(state)

    def _queue_routing(self, state: State) -> None:
        for due in state.pipeline.routing_due():
            output = Output(topic=topics.ROUTED, key=due.key, value=due.routing or b"")
            self._queue(output, partial(state.pipeline.routing_acknowledged, due))

    def _queue(self, output: Output, on_stored: Callable[[], None]) -> None:
        queue = self.queues.setdefault(place_of(output), deque())
        queue.append(Queued(output, on_stored))
