"""Topics: create them, and look at what a process has to know of them before it starts."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from libs.common.errors import KafkaUnavailable, PermanentError
from libs.common.kafka import config
from libs.common.kafka.table import LATEST, end_offsets
from libs.common.partitions import Partition
from libs.common.settings import KafkaSettings
from libs.common.topics import TopicSpec

REQUEST_TIMEOUT_S = 15.0
LEADER_CHECK_S = 0.05
NO_RECORD = -1
"""Kafka's answer when no record is as young as was asked."""


class MissingTopic(PermanentError):
    """A topic that the process needs does not exist."""


async def create_topics(
    kafka: KafkaSettings, specs: Sequence[TopicSpec], *, replication: int = 1
) -> list[str]:
    """Creates the topics that do not exist and names them; raises KafkaUnavailable.

    Returns when a leader answers for each partition of all of them.
    """
    return await asyncio.to_thread(_create, kafka, list(specs), replication)


def _create(kafka: KafkaSettings, specs: list[TopicSpec], replication: int) -> list[str]:
    admin = AdminClient(config.silent(kafka, client_id="meridian-topics"))
    topics = [
        NewTopic(spec.name, spec.partitions, replication, config=spec.config) for spec in specs
    ]
    created = []
    for name, future in admin.create_topics(topics, request_timeout=REQUEST_TIMEOUT_S).items():
        try:
            future.result()
            created.append(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise KafkaUnavailable(f"{name} was not created: {error.args[0].str()}") from error
    _wait_for_leaders(admin, [spec for spec in specs if spec.name in created])
    return created


def _wait_for_leaders(admin: AdminClient, specs: list[TopicSpec]) -> None:
    """A topic that was just created may for some milliseconds be listed without a leader."""
    waiting = {TopicPartition(spec.name, p) for spec in specs for p in range(spec.partitions)}
    until_s = time.monotonic() + REQUEST_TIMEOUT_S
    while waiting := _without_leader(admin, waiting):
        if time.monotonic() > until_s:
            names = ", ".join(sorted({place.topic for place in waiting}))
            raise KafkaUnavailable(f"no leader answers for topics {names}")
        time.sleep(LEADER_CHECK_S)


def _without_leader(admin: AdminClient, places: set[TopicPartition]) -> set[TopicPartition]:
    asked = dict.fromkeys(places, LATEST)
    futures = admin.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_S) if asked else {}
    return {place for place, future in futures.items() if future.exception() is not None}


async def partition_counts(kafka: KafkaSettings, topics: Sequence[str]) -> dict[str, int]:
    """Partitions of each topic; raises MissingTopic or KafkaUnavailable."""
    found = await asyncio.to_thread(_describe, kafka, list(topics))
    return {name: len(found[name].partitions) for name in topics}


async def topic_ids(kafka: KafkaSettings, topics: Sequence[str]) -> dict[str, str]:
    """The id that Kafka gave each topic at creation; raises MissingTopic or KafkaUnavailable."""
    found = await asyncio.to_thread(_describe, kafka, list(topics))
    return {name: str(found[name].topic_id) for name in topics}


def _describe(kafka: KafkaSettings, topics: list[str]) -> dict[str, Any]:
    admin = AdminClient(config.silent(kafka, client_id="meridian-topics"))
    futures = admin.describe_topics(TopicCollection(topics), request_timeout=REQUEST_TIMEOUT_S)
    found = {}
    for name, future in futures.items():
        try:
            found[name] = future.result()
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise MissingTopic(f"topic {name} does not exist") from error
            raise KafkaUnavailable(f"{name} cannot be described: {error.args[0].str()}") from error
    return found


async def first_offset(kafka: KafkaSettings, partition: Partition, *, since_ms: int | None) -> int:
    """Where the first record stands whose time is not before `since_ms`; None: the first of all.

    Where the next record will stand when there is none. Raises KafkaUnavailable.
    """
    return await asyncio.to_thread(_first_offset, kafka, partition, since_ms)


def _first_offset(kafka: KafkaSettings, partition: Partition, since_ms: int | None) -> int:
    admin = AdminClient(config.silent(kafka, client_id="meridian-offsets"))
    if since_ms is None:
        return _listed(admin, partition, OffsetSpec.earliest())
    # The end comes first: what arrives between the two questions is at or above it.
    end = _listed(admin, partition, OffsetSpec.latest())
    found = _listed(admin, partition, OffsetSpec.for_timestamp(since_ms))
    return end if found == NO_RECORD else found


def _listed(admin: AdminClient, partition: Partition, spec: Any) -> int:
    try:
        asked = admin.list_offsets(
            {TopicPartition(*partition): spec}, request_timeout=REQUEST_TIMEOUT_S
        )
        return int(next(iter(asked.values())).result().offset)
    except KafkaException as error:
        raise KafkaUnavailable(f"offsets of {partition}: {error.args[0].str()}") from error


class TopicEnds:
    """End offsets of partitions, asked over one connection that is kept."""

    def __init__(self, kafka: KafkaSettings, *, client_id: str) -> None:
        self._prefix = kafka.topic_prefix
        self._admin = AdminClient(config.silent(kafka, client_id=f"{client_id}-ends"))

    async def of(self, topic: str, partition: int) -> int:
        """Where the next record will stand, uncommitted ones included; raises KafkaUnavailable.

        `topic` is without prefix.
        """
        name = self._prefix + topic
        found = await asyncio.to_thread(end_offsets, self._admin, name, [partition])
        return found[partition]
