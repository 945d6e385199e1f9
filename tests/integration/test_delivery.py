"""Delivery as a process on a real Kafka, calling a real endpoint."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from libs.common import clock, ids
from libs.common.partitions import ConsumedRecord
from libs.common.records import Status, StatusChange, decoder
from libs.common.settings import KafkaSettings
from libs.common.topics import DEAD_LETTERS, LANES, STATUS, subscribed
from tests.integration.harness import Service, Sink, Topics, eventually, running, topics

TOPIC = "subscribed-7d"
SOURCE = {"partition": 0, "leaderEpoch": 0}
FINAL = {Status.DELIVERED, Status.FAILED, Status.EXPIRED}


@pytest.fixture
async def platform_topics(kafka_settings: KafkaSettings) -> AsyncIterator[Topics]:
    async with topics(kafka_settings) as found:
        yield found


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with Sink().serving() as found:
        yield found


def delivery(platform_topics: Topics, folder: Path, **settings: str) -> Service:
    return Service(
        "delivery",
        platform_topics.kafka,
        folder / "delivery.log",
        **{"allowed_callback_networks": "127.0.0.0/8", **settings},
    )


class Writer:
    """Writes subscription events as the multiplexer does."""

    def __init__(self, platform_topics: Topics) -> None:
        self._topics = platform_topics
        self._topic_id = ids.uuid7()
        self._offset = 0

    async def write(self, subscription: str, event_id: str, **changes: Any) -> str:
        """One record; returns its uuid."""
        self._offset += 1
        uuid = str(ids.uuid7())
        record = {
            "uuid": uuid,
            "multiplexedFrom": ids.uuid7(),
            "environment": "integration",
            "subscriptionId": subscription,
            "subscriptionVersion": self._topics.incarnations.get(subscription, 0),
            "subscriberId": "eni--bi--reader",
            "publisherId": "eni--orders--shop",
            "orderingKey": event_id,
            "source": {**SOURCE, "topicId": self._topic_id, "offset": self._offset},
            "deliveryType": "CALLBACK",
            "eventRetentionTime": "7d",
            "publishedAt": clock.to_text(clock.utc_now()),
            "event": {"id": event_id, "type": "orders.v1", "data": {"n": 1}},
            "httpHeaders": {"x-custom": ["v"]},
            **changes,
        }
        topic = subscribed(str(record["eventRetentionTime"]))
        await self._topics.put(topic, subscription, json.dumps(record).encode())
        return uuid


def changes_of(records: list[ConsumedRecord]) -> dict[str, list[StatusChange]]:
    found: dict[str, list[StatusChange]] = {}
    for record in records:
        change = decoder(StatusChange).decode(record.value or b"")
        found.setdefault(change.uuid, []).append(change)
    return found


async def finals(platform_topics: Topics, uuids: set[str]) -> dict[str, list[StatusChange]]:
    """The status records of the events, once each of them has a final one."""

    def complete(records: list[ConsumedRecord]) -> bool:
        found = changes_of(records)
        return all(any(c.status in FINAL for c in found.get(uuid, [])) for uuid in uuids)

    return changes_of(await platform_topics.read_until(complete, STATUS))


async def test_every_outcome_is_recorded_with_its_reason(
    platform_topics: Topics, sink: Sink, tmp_path: Path
) -> None:
    writer = Writer(platform_topics)
    answers = {"ok": [200], "twice": [503, 200], "gone": [404], "moved": [302], "never": [503]}
    sink.answers = {f"/{name}": list(statuses) for name, statuses in answers.items()}
    targets = {name: f"{sink.url}/{name}" for name in answers}
    targets |= {"private": "http://10.1.2.3/x", "nowhere": "http://127.0.0.1:9/x"}
    limited = {"delivery": {"retry": {"attempts": 3}}}
    uuids = {}
    for name, url in targets.items():
        subscription = await platform_topics.subscribe(
            name, url, **(limited if name in ("never", "nowhere") else {})
        )
        uuids[name] = await writer.write(subscription, name)
        if name == "ok":
            old = clock.to_text(clock.utc_now() - timedelta(days=8))
            uuids["expired"] = await writer.write(subscription, "old", publishedAt=old)
    uuids["deleted"] = await writer.write("never-existed", "deleted")
    await platform_topics.put(TOPIC, "poison", b"not an event")

    async with running(delivery(platform_topics, tmp_path)) as service:
        found = await finals(platform_topics, set(uuids.values()))
        letters = await platform_topics.read_until(bool, DEAD_LETTERS)
        assert sink.ids("/gone") == ["gone"]
        assert await service.stop() == 0

    def steps(name: str) -> list[tuple[str, int, int | None, str | None]]:
        return [
            (change.status, change.attempt, change.http_status, change.error_type)
            for change in found[uuids[name]]
        ]

    assert steps("ok") == [("DELIVERED", 1, 200, None)]
    assert steps("twice") == [("DELIVERING", 1, 503, "http_status"), ("DELIVERED", 2, 200, None)]
    assert steps("gone") == [("FAILED", 1, 404, "rejected")]
    assert steps("moved") == [("FAILED", 1, 302, "redirect_not_followed")]
    assert steps("never")[-1] == ("FAILED", 3, 503, "attempts_exhausted")
    assert steps("nowhere")[0] == ("DELIVERING", 1, None, "connect")
    assert steps("nowhere")[-1] == ("FAILED", 3, None, "attempts_exhausted")
    assert steps("private") == [("FAILED", 1, None, "address_refused")]
    assert steps("deleted") == [("FAILED", 0, None, "subscription_deleted")]
    assert steps("expired") == [("EXPIRED", 0, None, "expired")]
    assert [letter.value for letter in letters] == [b"not an event"]
    assert "old" not in sink.ids()
    _, headers, body = next(one for one in sink.requests if one[0] == "/ok")
    assert headers["x-custom"] == "v"
    assert headers["x-meridian-uuid"] == uuids["ok"]
    assert json.loads(body) == {"id": "ok", "type": "orders.v1", "data": {"n": 1}}


async def test_after_a_kill_the_event_in_flight_comes_again_and_nothing_else(
    platform_topics: Topics, sink: Sink, tmp_path: Path
) -> None:
    writer = Writer(platform_topics)
    slow = await platform_topics.subscribe("slow", f"{sink.url}/slow")
    quick = await platform_topics.subscribe("quick", f"{sink.url}/quick")
    service = delivery(platform_topics, tmp_path)
    async with running(service):
        sink.gate.clear()
        held = await writer.write(slow, "held")
        await eventually(lambda: "held" in sink.ids("/slow"))
        await pending_written(platform_topics)
        await service.stop(signal.SIGKILL)
        sink.gate.set()
        settled = [await writer.write(quick, f"q{n}") for n in range(3)]
        await service.start()
        await finals(platform_topics, {held, *settled})
        assert await service.stop() == 0
    assert sink.ids("/slow").count("held") == 2
    assert sorted(sink.ids("/quick")) == ["q0", "q1", "q2"]


async def pending_written(platform_topics: Topics) -> None:
    """Returns once a lane's checkpoint names a pending record."""

    def has_pending(records: list[ConsumedRecord]) -> bool:
        return any(re.search(rb'"pending":\[\d', record.value or b"") for record in records)

    await platform_topics.read_until(has_pending, LANES)


async def test_an_orderly_stop_repeats_and_loses_nothing(
    platform_topics: Topics, sink: Sink, tmp_path: Path
) -> None:
    writer = Writer(platform_topics)
    subscription = await platform_topics.subscribe("one", f"{sink.url}/one")
    service = delivery(platform_topics, tmp_path)
    async with running(service):
        uuids = set()
        for round_number in range(3):
            uuids |= set(
                await asyncio.gather(
                    *(writer.write(subscription, f"{round_number}-{n}") for n in range(200))
                )
            )
            assert await service.stop() == 0
            await service.start()
        await finals(platform_topics, uuids)
        assert await service.stop() == 0
    received = sink.ids("/one")
    assert len(received) == len(set(received)) == 600


async def test_a_full_lane_pauses_its_partition_and_goes_on_when_it_has_room(
    platform_topics: Topics, sink: Sink, tmp_path: Path
) -> None:
    writer = Writer(platform_topics)
    subscription = await platform_topics.subscribe("full", f"{sink.url}/full")
    async with running(delivery(platform_topics, tmp_path, lane_records_max="10")) as service:
        sink.gate.clear()
        uuids = {await writer.write(subscription, f"f{n}") for n in range(50)}
        await eventually(lambda: len(sink.requests) == 10)
        await service.metric_becomes("meridian_paused_partitions", 1)
        assert len(sink.requests) == 10
        sink.gate.set()
        await finals(platform_topics, uuids)
        assert await service.metric("meridian_paused_partitions") == 0
        assert await service.metric("meridian_unsettled_bytes") == 0
        assert await service.stop() == 0
    assert sorted(sink.ids("/full")) == sorted(f"f{n}" for n in range(50))


async def test_a_repeat_of_the_multiplexer_is_delivered_once(
    platform_topics: Topics, sink: Sink, tmp_path: Path
) -> None:
    writer = Writer(platform_topics)
    subscription = await platform_topics.subscribe("twin", f"{sink.url}/twin")
    source = {**SOURCE, "topicId": "t", "offset": 5}
    async with running(delivery(platform_topics, tmp_path)) as service:
        first = await writer.write(subscription, "first", source=source)
        await writer.write(subscription, "again", source=source)
        last = await writer.write(subscription, "last", source={**source, "offset": 6})
        await finals(platform_topics, {first, last})
        assert await service.metric("meridian_repeated_records_total") == 1
        assert await service.stop() == 0
    assert sorted(sink.ids("/twin")) == ["first", "last"]
