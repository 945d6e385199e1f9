"""Two replicas of delivery in one group: partitions that move, owners that stall or die."""

import asyncio
import itertools
import signal
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from libs.common.partitions import ConsumedRecord
from libs.common.records import LaneCheckpoint, LaneRecord, PartitionProgress
from libs.common.settings import KafkaSettings
from libs.common.topics import LANES
from tests.integration.harness import Service, Sink, Topics, eventually, running, topics
from tests.integration.test_delivery import Writer, delivery, finals

CLASSES = ("1h", "1d", "3d", "5d", "7d")
SUBSCRIBERS = 15
_decoder: msgspec.json.Decoder[LaneRecord] = msgspec.json.Decoder(LaneRecord)
DELIVERED = "meridian_settled_events_total"


class Load:
    """Events for subscriptions that are spread over all partitions."""

    def __init__(self, platform_topics: Topics, sink: Sink) -> None:
        self._topics = platform_topics
        self._sink = sink
        self._writer = Writer(platform_topics)
        self._subscriptions: list[tuple[str, str]] = []
        self._numbers = itertools.count()
        self.uuids: set[str] = set()

    async def subscribe(self) -> None:
        for number in range(SUBSCRIBERS):
            name = await self._topics.subscribe(f"spread-{number}", f"{self._sink.url}/spread")
            self._subscriptions.append((name, CLASSES[number % len(CLASSES)]))

    async def write(self) -> set[str]:
        """One event for every subscription; their uuids."""
        writing = (
            self._writer.write(name, f"e{next(self._numbers)}", eventRetentionTime=kept)
            for name, kept in self._subscriptions
        )
        written = set(await asyncio.gather(*writing))
        self.uuids |= written
        return written

    async def write_until_delivered_by(self, service: Service) -> None:
        """Writes round after round until this process has delivered some of it."""
        before = await service.metric(DELIVERED)
        while await service.metric(DELIVERED) == before:
            await self.write()

    async def settled(self) -> None:
        await finals(self._topics, self.uuids)


@pytest.fixture
async def platform_topics(kafka_settings: KafkaSettings) -> AsyncIterator[Topics]:
    prefix = f"{kafka_settings.topic_prefix}{uuid.uuid4().hex[:8]}-"
    async with topics(kafka_settings.model_copy(update={"topic_prefix": prefix})) as found:
        yield found


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with Sink().serving() as found:
        yield found


@pytest.fixture
async def load(platform_topics: Topics, sink: Sink) -> Load:
    found = Load(platform_topics, sink)
    await found.subscribe()
    return found


@asynccontextmanager
async def replica(platform_topics: Topics, folder: Path, number: int) -> AsyncIterator[Service]:
    service = delivery(platform_topics, folder, instance=f"delivery-{number}")
    async with running(service):
        yield service


async def test_partitions_move_to_a_new_replica_released_and_nothing_is_repeated(
    platform_topics: Topics, sink: Sink, load: Load, tmp_path: Path
) -> None:
    async with replica(platform_topics, tmp_path, 0) as first:
        await load.write_until_delivered_by(first)
        async with replica(platform_topics, tmp_path, 1) as second:
            await load.write_until_delivered_by(second)
            await load.settled()
            assert released(await platform_topics.read(LANES))
            assert await second.stop() == 0
        assert await first.stop() == 0
    assert times(sink, load.uuids) == {1}


async def test_an_owner_that_stalled_past_its_session_settles_nothing_and_comes_back(
    platform_topics: Topics, sink: Sink, load: Load, tmp_path: Path
) -> None:
    async with replica(platform_topics, tmp_path, 0) as stalled:
        await load.write_until_delivered_by(stalled)
        await load.settled()
        sink.gate.clear()
        held = await load.write()
        await platform_topics.read_until(lambda found: pending(found) == len(held), LANES)
        stalled.send(signal.SIGSTOP)
        async with replica(platform_topics, tmp_path, 1) as successor:
            await eventually(lambda: times(sink, held) == {2})
            stalled.send(signal.SIGCONT)
            await stalled.logs('"event": "group.lost"')
            stalled.forget_log()
            sink.gate.set()
            statuses = await finals(platform_topics, load.uuids)
            assert {uuid for uuid, found in statuses.items() if len(found) != 1} == set()
            await stalled.comes_back('"event": "group.assigned"')
            await load.write_until_delivered_by(stalled)
            await load.settled()
            assert await successor.stop() == 0
        assert await stalled.stop() == 0
    assert times(sink, held) == {2}
    assert times(sink, load.uuids - held) == {1}
    assert is_ascending(await platform_topics.read(LANES))


def times(sink: Sink, uuids: set[str]) -> set[int]:
    """How often these events were requested: every number that occurs."""
    counted = Counter(sink.uuids())
    return {counted[uuid] for uuid in uuids}


def is_ascending(records: list[ConsumedRecord]) -> bool:
    """True when no owner wrote an older progress of a partition behind a newer one."""
    newest: dict[tuple[str, int], int] = {}
    for one in progress(records):
        if one.committed < newest.get((one.topic, one.partition), 0):
            return False
        newest[one.topic, one.partition] = one.committed
    return True


def pending(records: list[ConsumedRecord]) -> int:
    """Events that the latest checkpoints of all lanes name as pending."""
    latest = {record.key: record.value for record in records}
    found = [_decoder.decode(value) for value in latest.values() if value]
    return sum(len(one.pending) for one in found if isinstance(one, LaneCheckpoint))


def progress(records: list[ConsumedRecord]) -> list[PartitionProgress]:
    found = [_decoder.decode(record.value) for record in records if record.value]
    return [one for one in found if isinstance(one, PartitionProgress)]


def released(records: list[ConsumedRecord]) -> list[tuple[str, int]]:
    """Partitions that an owner let go of in an orderly way, once for each time."""
    return [(one.topic, one.partition) for one in progress(records) if one.released]
