"""The line of a process on `instances`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from libs.common import clock, instances, topics
from libs.common.instances import Beacon, decode_instance, is_live
from libs.common.kafka import admin, config
from libs.common.kafka.producer import AckProducer
from libs.common.kafka.table import CompactedTable
from libs.common.records import Instance, encode
from libs.common.settings import KafkaSettings
from libs.common.topics import TopicSpec
from tests.integration.common.topics_and_records import WAIT_S

KEY = "delivery/delivery-0"
NOW = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)


class Progress:
    """A table whose position the test moves."""

    def __init__(self) -> None:
        self.position = 0
        self._moved = asyncio.Event()

    async def moved(self) -> None:
        await self._moved.wait()

    def move(self, position: int) -> None:
        self.position = position
        self._moved.set()
        self._moved = asyncio.Event()


@pytest.fixture
async def lines(kafka_settings: KafkaSettings) -> AsyncIterator[CompactedTable[Instance]]:
    """The topic as other processes see it."""
    name = kafka_settings.topic_prefix + topics.INSTANCES
    await admin.create_topics(kafka_settings, [TopicSpec(name=name, partitions=1)])
    table = CompactedTable(
        kafka_settings, topics.INSTANCES, decode=decode_instance, client_id="test"
    )
    following = asyncio.ensure_future(table.follow())
    await asyncio.wait_for(table.caught_up(), WAIT_S)
    yield table
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following


@contextlib.asynccontextmanager
async def shining(kafka: KafkaSettings, progress: Progress) -> AsyncIterator[None]:
    async with AckProducer(config.producer(kafka, client_id="test")) as producer:
        beacon = Beacon(
            producer,
            topic_prefix=kafka.topic_prefix,
            service="delivery",
            instance="delivery-0",
            address="127.0.0.1:8185",
            resources=progress,
        )
        running = asyncio.ensure_future(beacon.run())
        try:
            yield
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def offset_becomes(table: CompactedTable[Instance], offset: int) -> Instance:
    async with asyncio.timeout(WAIT_S):
        while (line := table.rows.get(KEY)) is None or line.resources_offset != offset:
            await table.moved()
    return line


async def test_a_process_says_where_it_is_and_how_far_it_has_come(
    kafka_settings: KafkaSettings, lines: CompactedTable[Instance]
) -> None:
    progress = Progress()
    async with shining(kafka_settings, progress):
        line = await offset_becomes(lines, 0)
        assert line.address == "127.0.0.1:8185"
        assert is_live(line, clock.utc_now())
        progress.move(12)
        await offset_becomes(lines, 12)


async def test_the_line_is_written_again_although_nothing_changed(
    kafka_settings: KafkaSettings,
    lines: CompactedTable[Instance],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(instances, "INTERVAL_S", 0.05)
    async with shining(kafka_settings, Progress()):
        first = await offset_becomes(lines, 0)
        async with asyncio.timeout(WAIT_S):
            while lines.rows[KEY].at <= first.at:
                await lines.moved()


async def test_a_process_that_ends_takes_its_line_away(
    kafka_settings: KafkaSettings, lines: CompactedTable[Instance]
) -> None:
    async with shining(kafka_settings, Progress()):
        await offset_becomes(lines, 0)
    async with asyncio.timeout(WAIT_S):
        while KEY in lines.rows:
            await lines.moved()


@pytest.mark.parametrize(("age_s", "expected"), [(-5, True), (0, True), (15, True), (15.1, False)])
def test_a_process_lives_for_fifteen_seconds_after_it_was_seen(
    age_s: float, expected: bool
) -> None:
    line = Instance(address="a", resources_offset=0, at=clock.to_text(NOW))
    assert is_live(line, NOW + timedelta(seconds=age_s)) is expected


@pytest.mark.parametrize("at", ["", "yesterday", "2026-11-20T10:00:00"])
def test_a_line_without_a_moment_is_broken(at: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_instance(KEY, encode(Instance(address="a", resources_offset=0, at=at)))
