"""The multiplexer as a process on a real Kafka."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.common.partitions import ConsumedRecord
from libs.common.records import RoutingRecord, SubscriptionEvent, decoder
from libs.common.sequences import RepeatFilter, position_of, source_key
from libs.common.settings import KafkaSettings
from libs.common.topics import DEAD_LETTERS, PUBLISHED, ROUTED, SUBSCRIBED
from tests.integration.harness import Service, Topics, running, topics

CLASS_7D = "subscribed-7d"


@pytest.fixture
async def platform_topics(kafka_settings: KafkaSettings) -> AsyncIterator[Topics]:
    async with topics(kafka_settings) as found:
        yield found


def multiplexer(platform_topics: Topics, folder: Path) -> Service:
    return Service("multiplexer", platform_topics.kafka, folder / "multiplexer.log")


def accepted(records: list[ConsumedRecord]) -> list[SubscriptionEvent]:
    """What readers keep of the records of one topic."""
    filters: dict[int, RepeatFilter] = {}
    kept = []
    for record in records:
        event = decoder(SubscriptionEvent).decode(record.value or b"")
        repeats = filters.setdefault(record.partition.number, RepeatFilter())
        position = position_of(event.source, event.subscription_id)
        if repeats.accept(source_key(event.source), position):
            kept.append(event)
    return kept


def event_id(event: SubscriptionEvent) -> str:
    found: str = json.loads(bytes(event.event))["id"]
    return found


async def test_routing_from_end_to_end(platform_topics: Topics, tmp_path: Path) -> None:
    first = await platform_topics.subscribe("eni--bi--one", "https://one.example")
    second = await platform_topics.subscribe(
        "eni--bi--two", "https://two.example", eventRetentionTime="1h"
    )
    async with running(multiplexer(platform_topics, tmp_path)) as service:
        await platform_topics.put(PUBLISHED, "poison", b"not an event")
        uuids = [await platform_topics.publish(f"e{n}") for n in range(20)]
        unwanted = await platform_topics.publish(
            "x", event={"id": "x", "type": "nobody.v1", "source": "s"}
        )
        routed = await platform_topics.read_until(lambda found: len(found) >= 21, ROUTED)
        assert await service.stop() == 0

    by_uuid = {
        record.published_uuid: record
        for record in (decoder(RoutingRecord).decode(one.value or b"") for one in routed)
    }
    assert by_uuid[unwanted].outcome == "NO_SUBSCRIBER"
    assert all(
        [match.subscription_id for match in by_uuid[uuid].matched] == sorted([first, second])
        for uuid in uuids
    )
    for name, subscription in ((CLASS_7D, first), ("subscribed-1h", second)):
        events = accepted(await platform_topics.read(name))
        assert sorted(event_id(event) for event in events) == sorted(f"e{n}" for n in range(20))
        assert {event.subscription_id for event in events} == {subscription}
    letters = await platform_topics.read(DEAD_LETTERS)
    assert [letter.value for letter in letters] == [b"not an event"]


async def test_whoever_subscribed_before_an_event_was_published_gets_it(
    platform_topics: Topics, tmp_path: Path
) -> None:
    async with running(multiplexer(platform_topics, tmp_path)) as service:
        expected = set()
        for number in range(10):
            subscription = await platform_topics.subscribe(
                f"eni--bi--late{number}", "https://late.example"
            )
            await platform_topics.publish(f"late{number}")
            expected.add((f"late{number}", subscription))

        def pairs(records: list[ConsumedRecord]) -> set[tuple[str, str]]:
            return {(event_id(event), event.subscription_id) for event in accepted(records)}

        await platform_topics.read_until(lambda found: expected <= pairs(found), CLASS_7D)
        assert await service.stop() == 0


async def test_killed_at_any_moment_it_loses_nothing_and_readers_see_nothing_twice(
    platform_topics: Topics, tmp_path: Path
) -> None:
    await platform_topics.subscribe("eni--bi--three", "https://three.example")
    names = [f"k{n}" for n in range(600)]
    service = multiplexer(platform_topics, tmp_path)
    async with running(service):
        publishing = asyncio.gather(*(platform_topics.publish(name) for name in names))
        for _ in range(2):
            await asyncio.sleep(0.05)
            assert await service.stop(signal.SIGKILL) == -signal.SIGKILL
            await service.start()
        await publishing

        def complete(records: list[ConsumedRecord]) -> bool:
            return set(names) <= {event_id(event) for event in accepted(records)}

        found = await platform_topics.read_until(complete, *SUBSCRIBED)
        assert await service.stop() == 0
    killed = [event for event in accepted_per_topic(found) if event_id(event).startswith("k")]
    pairs = [(event_id(event), event.subscription_id) for event in killed]
    assert len(pairs) == len(set(pairs))


def accepted_per_topic(records: list[ConsumedRecord]) -> list[SubscriptionEvent]:
    by_topic: dict[str, list[ConsumedRecord]] = {}
    for record in records:
        by_topic.setdefault(record.partition.topic, []).append(record)
    return [event for found in by_topic.values() for event in accepted(found)]
