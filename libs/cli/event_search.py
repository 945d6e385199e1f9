"""Looks for one event on the topics of a platform, by its CloudEvents id.

A look reads each topic once, up to the end that is listed then, and keeps only what belongs to the
event; the next look goes on where the last one ended. What is read is bounded by what the topics
keep (8 days), what is kept by the number of the event's subscriptions and of their statuses.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from libs.cli.errors import CommandFailed
from libs.cli.event_story import Findings
from libs.common import topics
from libs.common.errors import KafkaUnavailable
from libs.common.kafka import admin, reader
from libs.common.partitions import ConsumedRecord
from libs.common.records import (
    PublishedEvent,
    RoutingRecord,
    StatusChange,
    decoder,
    encode,
    head_decoder,
)
from libs.common.resources import Catalog, decode_resource
from libs.common.settings import KafkaSettings

CLIENT_ID: Final = "meridian-event"
TOPICS: Final = (topics.PUBLISHED, topics.ROUTED, topics.STATUS, topics.RESOURCES)
CHANGES_MAX: Final = 10_000
ROUTINGS_MAX: Final = 1_000
"""Statuses and events with the id that are kept; of more the oldest are dropped."""

T = TypeVar("T")


@dataclass(slots=True)
class Search:
    """Looks for one event id."""

    kafka: KafkaSettings
    event_id: str
    _places: dict[str, dict[int, int]] = field(default_factory=dict)
    """By topic and partition, the offset at which the next look begins."""
    _catalog: Catalog = field(default_factory=Catalog)
    _published: PublishedEvent | None = None
    _routings: dict[str, RoutingRecord] = field(default_factory=dict)
    _changes: deque[StatusChange] = field(default_factory=lambda: deque(maxlen=CHANGES_MAX))
    _looked_through: int = 0

    def look(self) -> Findings:
        """Reads what has come since the last look; CommandFailed when Kafka cannot be read."""
        try:
            self._read()
        except (KafkaUnavailable, admin.MissingTopic) as error:
            raise CommandFailed(
                f"Kafka at {self.kafka.bootstrap_servers} cannot be read: {error}."
            ) from error
        return Findings(
            event_id=self.event_id,
            published=self._published,
            routing=max(self._routings.values(), key=_age, default=None),
            routed_count=len(self._routings),
            changes=tuple(self._changes),
            subscriptions=self._catalog.subscriptions,
            looked_through=self._looked_through,
        )

    def _read(self) -> None:
        if not self._places:
            self._find_places()
        for record in self._scan(topics.RESOURCES):
            self._take_resource(record)
        for routing in self._mentions(topics.ROUTED, RoutingRecord):
            self._take_routing(routing)
        for change in self._mentions(topics.STATUS, StatusChange):
            if change.event.id == self.event_id:
                self._changes.append(change)
        if not self._routings:
            self._look_for_published()

    def _find_places(self) -> None:
        names = [self.kafka.topic_prefix + topic for topic in TOPICS]
        counts = asyncio.run(admin.partition_counts(self.kafka, names))
        for topic, name in zip(TOPICS, names, strict=True):
            self._places[topic] = dict.fromkeys(range(counts[name]), reader.FROM_BEGINNING)

    def _look_for_published(self) -> None:
        for event in self._mentions(topics.PUBLISHED, PublishedEvent):
            if head_decoder.decode(event.event).id == self.event_id:
                self._published = event

    def _take_routing(self, routing: RoutingRecord) -> None:
        if routing.event.id != self.event_id:
            return
        self._routings[routing.published_uuid] = routing
        if len(self._routings) > ROUTINGS_MAX:
            del self._routings[min(self._routings.values(), key=_age).published_uuid]

    def _take_resource(self, record: ConsumedRecord) -> None:
        key = record.key.decode(errors="replace")
        try:
            self._catalog.apply(key, decode_resource(key, record.value) if record.value else None)
        except msgspec.DecodeError:
            self._catalog.apply(key, None)

    def _mentions(self, topic: str, record_type: type[T]) -> Iterator[T]:
        """The records in which the id occurs; what cannot be read is no such record."""
        wanted = encode(self.event_id)
        decode = decoder(record_type).decode
        for record in self._scan(topic):
            if record.value is not None and wanted in record.value:
                try:
                    yield decode(record.value)
                except msgspec.DecodeError:
                    continue

    def _scan(self, topic: str) -> Iterator[ConsumedRecord]:
        places = self._places[topic]
        for record in reader.scan_to_end(self.kafka, topic, places, client_id=CLIENT_ID):
            self._looked_through += topic != topics.RESOURCES
            places[record.partition.number] = record.offset + 1
            yield record


def _age(routing: RoutingRecord) -> tuple[str, str]:
    return routing.published_at, routing.at
