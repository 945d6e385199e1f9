"""What multiplexers meet, as plain values: `resources`, `published`, the logs that they write.

The reference is kept here: which copies an event was promised, and which of them readers accepted.
"""

import zlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

import msgspec

from libs.common import ids, topics
from libs.common.records import PublishedEvent, RoutingRecord, Source, SubscriptionEvent, encode
from libs.common.resources import Kind, Resource
from libs.common.sequences import Position, RepeatFilter, position_of, source_key
from services.control.domain.draft import Draft, Snapshot
from services.multiplexer.domain.routing import Output, TooLargePointer

ENVIRONMENT, EVENT_TYPE = "integration", "orders.v1"
SOURCE_PARTITIONS: Final = 2
PARTITIONS: Final = 2
"""Of `routed`, and of every `subscribed-*`."""

NOW: Final = datetime(2026, 11, 20, 10, tzinfo=UTC)

Place = tuple[str, int]
"""Topic and partition number."""

Event = tuple[str, int, int]
"""Topic id, partition and offset of a published event."""

Copy = tuple[Event, str]
"""An event for a subscription."""


class Fault(StrEnum):
    """A rule of decision 0002 that is switched off; the texts begin with its number."""

    GIVES_UP_RECORDS = "1: a record is given up, and those behind it are written"
    COMMITS_EARLY = "1: an offset is committed before everything below it is acknowledged"
    DOES_NOT_WAIT = "2: an event is evaluated before its resources are known"
    UNORDERED = "2: an event's copies are queued in any order"
    MOVES = "3: a copy goes where the subscription is now"
    FORGETS = "3: a subscription that is created again forgets where it was"
    TOO_LARGE = "4: what is too large is found out by Kafka"
    SUBSCRIPTION_COUNTS = "4: whether a copy is too large depends on its subscription"
    OTHER_TOPIC = "5: an offset is taken for one of the topic as it is now"
    ONE_KEY = "5: positions of another topic are compared"
    SETS_BACK = "6: a replay sets the group's offset back"
    ROUTES_EARLY = "6: a routing record is written with its copies"


class Size(StrEnum):
    """How large an event is."""

    SMALL = "SMALL"
    NEAR = "NEAR"
    """Its copies are near the limit."""
    LARGE = "LARGE"
    """Larger than what Kafka takes."""


@cache
def body(size: Size) -> bytes:
    """The event as it is published."""
    room = {
        Size.SMALL: 0,
        Size.NEAR: topics.COPIED_BYTES_MAX - 1_000,
        Size.LARGE: topics.RECORD_BYTES_MAX,
    }[size]
    return b'{"id":"1","type":"%s","data":"%s"}' % (EVENT_TYPE.encode(), b"x" * room)


def event_of(source: Source) -> Event:
    """Which event a source names."""
    return (source.topic_id, source.partition, source.offset)


def place_of(output: Output) -> Place:
    """The partition that a key falls into."""
    count = 1 if output.topic == topics.DEAD_LETTERS else PARTITIONS
    return output.topic, zlib.crc32(output.key) % count


@dataclass(slots=True)
class ResourceLog:
    """The topic `resources`, written by the real rules of the control plane."""

    forgets_places: bool = False
    documents: list[tuple[str, Resource]] = field(default_factory=list)
    _rows: dict[str, Resource] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The position of whoever has read everything."""
        return len(self.documents)

    def subscribe(self, name: str, *, retention_class: str, has_long_url: bool) -> None:
        """Creates or changes a subscription."""
        spec = {
            "subscriptionId": name,
            "subscriberId": "eni--bi--reader",
            "publisherId": "eni--orders--shop",
            "type": EVENT_TYPE,
            "deliveryType": "callback",
            "callback": "https://bi.example/" + "x" * (1_000 if has_long_url else 0),
            "eventRetentionTime": retention_class,
        }
        draft = Draft(Snapshot(rows=self._rows, next_offset=self.end, now=NOW))
        draft.put(Kind.SUBSCRIPTION, ENVIRONMENT, name, owner="eni--bi", spec=spec)
        self._store(draft)

    def unsubscribe(self, name: str) -> None:
        """Deletes a subscription."""
        draft = Draft(Snapshot(rows=self._rows, next_offset=self.end, now=NOW))
        draft.remove(Kind.SUBSCRIPTION, ENVIRONMENT, name)
        self._store(draft)

    def names_at(self, position: int) -> set[str]:
        """The subscriptions that exist for whoever has read so far."""
        found = {resource.id: resource for _, resource in self.documents[:position]}
        return {name for name, resource in found.items() if not resource.status.deleted}

    def _store(self, draft: Draft) -> None:
        for key, resource in draft.writes.items():
            assert resource is not None
            assert resource.version == self.end
            self.documents.append((key, resource))
            self._rows[key] = resource
            if resource.status.deleted and self.forgets_places:
                del self._rows[key]


class PublishedRecord(NamedTuple):
    """One record of `published`."""

    offset: int
    leader_epoch: int
    value: bytes


@dataclass(slots=True)
class Published:
    """The topic `published`."""

    number: int = 0
    """How often it was created again."""
    partitions: list[list[PublishedRecord]] = field(
        default_factory=lambda: [[] for _ in range(SOURCE_PARTITIONS)]
    )
    epochs: Counter[int] = field(default_factory=Counter)
    _uuids: int = 0

    @property
    def topic_id(self) -> str:
        """Another one every time that the topic is created."""
        return f"topic-{self.number:03}"

    def append(self, partition: int, value: bytes) -> Event:
        """Stores a record."""
        log = self.partitions[partition]
        log.append(PublishedRecord(len(log), self.epochs[partition], value))
        return (self.topic_id, partition, len(log) - 1)

    def create_again(self) -> None:
        """Offsets and leader epochs start over."""
        self.number += 1
        self.partitions = [[] for _ in range(SOURCE_PARTITIONS)]
        self.epochs.clear()

    def value(self, resources_offset: int, size: Size, only: list[str] | None = None) -> bytes:
        """A new event."""
        self._uuids += 1
        event = PublishedEvent(
            uuid=f"0193b1c0-0000-7000-8000-{self._uuids:012x}",
            environment=ENVIRONMENT,
            publisher_id="eni--orders--shop",
            published_at="2026-11-20T10:00:00.123Z",
            ordering_key="k",
            resources_offset=resources_offset,
            only_subscriptions=only,
            event=msgspec.Raw(body(size)),
        )
        return encode(event)


class SetAside(NamedTuple):
    """What `dead-letters` has."""

    copies: set[Copy]
    records: list[bytes]


_subscription_events = msgspec.json.Decoder(SubscriptionEvent)
_routing_records = msgspec.json.Decoder(RoutingRecord)
_pointers = msgspec.json.Decoder(TooLargePointer)


@dataclass(slots=True)
class Broker:
    """What multiplexers wrote, in the order in which it was stored."""

    logs: dict[Place, list[tuple[Source, str]]] = field(default_factory=dict)
    stored: set[Copy] = field(default_factory=set)
    routed: set[str] = field(default_factory=set)
    set_aside: SetAside = field(default_factory=lambda: SetAside(set(), []))

    def store(self, place: Place, output: Output) -> bool:
        """False when Kafka refuses the record."""
        if len(output.value) > topics.RECORD_BYTES_MAX:
            return False
        if output.topic in topics.SUBSCRIBED:
            event = _subscription_events.decode(output.value)
            log = self.logs.setdefault(place, [])
            log.append((event.source, event.subscription_id))
            self.stored.add((event_of(event.source), event.subscription_id))
        elif output.topic == topics.ROUTED:
            self._store_routing(_routing_records.decode(output.value))
        elif output.reason == "too_large":
            pointer = _pointers.decode(output.value)
            self.set_aside.copies.add((event_of(pointer.source), pointer.subscription_id))
        else:
            self.set_aside.records.append(output.value)
        return True

    def _store_routing(self, record: RoutingRecord) -> None:
        """It may speak only of copies that are there."""
        self.routed.add(record.published_uuid)
        for match in record.matched:
            copy = (event_of(record.source), match.subscription_id)
            assert copy in self.stored | self.set_aside.copies, f"routed before stored: {copy}"
            assert match.uuid == ids.subscription_event_uuid(
                record.published_uuid, match.subscription_id
            )


@dataclass(slots=True)
class Reader:
    """A reader of one output partition with the real repeat filter.

    It stores its offset together with the filter's state; after a crash it goes on from there.
    """

    has_one_key: bool = False
    decisions: list[bool] = field(default_factory=list)
    """Of every record, whether it was accepted; a second reading has to decide the same."""
    _offset: int = 0
    _filter: RepeatFilter = field(default_factory=RepeatFilter)
    _saved: tuple[int, dict[str, Position]] = (0, {})

    def read(self, log: list[tuple[Source, str]]) -> list[Copy]:
        """Reads to the end; gives what is accepted for the first time."""
        found = []
        while self._offset < len(log):
            source, name = log[self._offset]
            key = str(source.partition) if self.has_one_key else source_key(source)
            is_accepted = self._filter.accept(key, position_of(source, name))
            if self._offset < len(self.decisions):
                assert self.decisions[self._offset] == is_accepted, "decided otherwise before"
            else:
                self.decisions.append(is_accepted)
                if is_accepted:
                    found.append((event_of(source), name))
            self._offset += 1
        return found

    def save(self) -> None:
        """Stores offset and state in one transaction."""
        self._saved = (self._offset, self._filter.state())

    def crash(self) -> None:
        """Goes on from what was stored."""
        self._offset, state = self._saved
        self._filter = RepeatFilter(state)
