"""The use case on a producer in memory: order, waiting, hand-over, refusal to go on."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NoReturn

import msgspec
import pytest

from libs.common import topics
from libs.common.errors import AckTimeout
from libs.common.partitions import CommittedOffset, ConsumedRecord, Partition
from libs.common.records import PublishedEvent, encode
from libs.common.resources import Subscription
from libs.common.testing.producer import MemoryProducer
from services.multiplexer.adapters.kafka import KafkaRecordLog
from services.multiplexer.domain.position import CommitNote
from services.multiplexer.service import Multiplexer, Outside
from services.multiplexer.settings import MultiplexerSettings
from tests.unit.multiplexer.test_routing import UUID, subscription

PARTITION = Partition("published", 2)
NEVER_COMMITTED = CommittedOffset(None, "", 0, 0)


class AbortedError(Exception):
    """Stands for the end of the process."""


def abort(reason: str) -> NoReturn:
    raise AbortedError(reason)


class KnownResources:
    """Resources that are known up to a position, which a test moves."""

    def __init__(self, position: int) -> None:
        self.position = position
        self._moved = asyncio.Event()

    async def reached(self, offset: int) -> None:
        while self.position < offset:
            await self._moved.wait()
            self._moved.clear()

    def move(self, position: int) -> None:
        self.position = position
        self._moved.set()


class KnownSubscriptions:
    """Everybody subscribes to everything."""

    def __init__(self, *names: str) -> None:
        self.found = [subscription(name) for name in names]

    def subscriptions_of(self, environment: str, event_type: str) -> list[Subscription]:
        assert (environment, event_type) == ("integration", "orders.v1")
        return self.found


class GroupMember:
    """Notes what is asked of the consumer; confirms every commit."""

    def __init__(self) -> None:
        self.committed: dict[Partition, int] = {}
        self.paused: set[Partition] = set()

    def pause(self, partitions: Iterable[Partition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        self.paused -= set(partitions)

    def commit(self, offsets: Mapping[Partition, int], *, metadata: str) -> None:
        assert metadata
        self.committed.update(offsets)

    async def commit_now(self, offsets: Mapping[Partition, int], *, metadata: str) -> None:
        self.commit(offsets, metadata=metadata)

    def confirmed(self, partition: Partition) -> int | None:
        return self.committed.get(partition)


class Rig:
    """A multiplexer that owns one partition."""

    def __init__(self, *, resources: int = 100, queue_max: int = 100_000, **limits: int) -> None:
        self.producer = MemoryProducer(queue_max=queue_max)
        self.resources = KnownResources(resources)
        self.member = GroupMember()
        self.multiplexer = Multiplexer(
            MultiplexerSettings.model_validate(limits),
            Outside(
                resources=self.resources,
                subscriptions=KnownSubscriptions("a", "b"),
                records=KafkaRecordLog(self.producer, topic_prefix="", abort=abort),
                abort=abort,
            ),
            topics_now=self._topics_now,
        )
        self.multiplexer.read_from(self.member)

    @staticmethod
    async def _topics_now() -> CommitNote:
        return CommitNote(topic_id="t1", subscribed_partitions=4)

    async def own(self) -> None:
        assert await self.multiplexer.assigned({PARTITION: NEVER_COMMITTED}) == {PARTITION: 0}

    def feed(self, *offsets: int, resources_offset: int = 1) -> None:
        self.multiplexer.on_batch([consumed(offset, resources_offset) for offset in offsets])

    def outputs(self) -> list[tuple[int, str]]:
        """(source offset, subscription) of what is on `subscribed-7d`."""
        found = [
            msgspec.json.decode(record.value or b"")
            for record in self.producer.written
            if record.topic == "subscribed-7d"
        ]
        return [(one["source"]["offset"], one["subscriptionId"]) for one in found]

    def topics(self) -> list[str]:
        return [record.topic for record in self.producer.written]


def consumed(offset: int, resources_offset: int = 1) -> ConsumedRecord:
    event = PublishedEvent(
        uuid=UUID,
        environment="integration",
        publisher_id="p",
        published_at="2026-11-20T10:00:00.123Z",
        ordering_key="k",
        resources_offset=resources_offset,
        event=msgspec.Raw(b'{"id":"1","type":"orders.v1"}'),
    )
    return ConsumedRecord(PARTITION, offset, 0, b"k", encode(event))


async def test_output_is_in_the_order_of_source_offset_and_subscription() -> None:
    rig = Rig()
    await rig.own()
    rig.feed(5, 6, 9)
    rig.producer.acknowledge()
    assert rig.outputs() == [(n, name) for n in (5, 6, 9) for name in ("a", "b")]
    times = {one.timestamp_ms for one in rig.producer.written if one.topic == "subscribed-7d"}
    assert times == {1_795_168_800_123}


async def test_a_routing_record_follows_the_acknowledgement_of_its_event_s_records() -> None:
    rig = Rig()
    await rig.own()
    rig.feed(0)
    rig.producer.acknowledge(1)
    assert rig.producer.queued == 1
    rig.producer.acknowledge(1)
    assert rig.topics() == ["subscribed-7d", "subscribed-7d"]
    rig.producer.acknowledge()
    assert rig.topics()[2:] == [topics.ROUTED]


async def test_an_event_waits_until_its_resources_are_known_and_holds_what_follows() -> None:
    rig = Rig(resources=7)
    await rig.own()
    rig.feed(0)
    rig.feed(1, resources_offset=9)
    rig.feed(2)
    rig.producer.acknowledge()
    assert [offset for offset, _ in rig.outputs()] == [0, 0]
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        releasing = group.create_task(rig.multiplexer.release_forever())
        await asyncio.sleep(0)
        rig.resources.move(9)
        while len(rig.outputs()) < 6:
            await asyncio.sleep(0)
            rig.producer.acknowledge()
        releasing.cancel()
    assert [offset for offset, _ in rig.outputs()] == [0, 0, 1, 1, 2, 2]


async def test_what_does_not_fit_into_the_queue_is_queued_again_in_order() -> None:
    rig = Rig(queue_max=3)
    await rig.own()
    rig.feed(0, 1, 2)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        retrying = group.create_task(rig.multiplexer.retry_forever())
        while rig.topics().count(topics.ROUTED) < 3:
            rig.producer.acknowledge()
            await asyncio.sleep(0)
        retrying.cancel()
    assert rig.outputs() == [(n, name) for n in range(3) for name in ("a", "b")]


async def test_a_revoked_partition_is_finished_and_committed_before_it_goes() -> None:
    rig = Rig()
    await rig.own()
    rig.feed(0, 1)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        leaving = group.create_task(rig.multiplexer.revoked([PARTITION]))
        await asyncio.sleep(0)
        rig.feed(2)
        assert not leaving.done()
        rig.producer.acknowledge()
    assert rig.member.committed == {PARTITION: 2}
    rig.feed(3)
    assert rig.producer.queued == 0
    assert len(rig.outputs()) == 4


async def test_a_lost_partition_is_dropped_without_a_commit() -> None:
    rig = Rig()
    await rig.own()
    rig.feed(0)
    await rig.multiplexer.lost([PARTITION])
    rig.producer.acknowledge()
    await rig.multiplexer.drain()
    assert rig.member.committed == {}


async def test_a_record_that_was_not_stored_ends_the_process() -> None:
    rig = Rig()
    await rig.own()
    rig.feed(0)
    with pytest.raises(AbortedError, match="was not stored"):
        rig.producer.fail(AckTimeout("no answer"))


async def test_poison_is_set_aside_as_it_came_and_the_partition_goes_on() -> None:
    rig = Rig()
    await rig.own()
    rig.multiplexer.on_batch([ConsumedRecord(PARTITION, 0, 0, b"key", b"\xff")])
    rig.feed(1)
    rig.producer.acknowledge()
    [letter] = [one for one in rig.producer.written if one.topic == topics.DEAD_LETTERS]
    assert (letter.key, letter.value) == (b"key", b"\xff")
    headers = dict(letter.headers)
    assert (headers["topic"], headers["partition"], headers["offset"]) == (b"published", b"2", b"0")
    assert headers["reason"] == b"unreadable"
    assert headers["detail"]
    await rig.multiplexer.drain()
    assert rig.member.committed == {PARTITION: 2}


async def test_a_partition_with_too_much_in_flight_pauses_until_it_has_room() -> None:
    rig = Rig(inbox_records_max=2, outstanding_records_max=1)
    await rig.own()
    rig.feed(0, 1, 2, 3, 4)
    assert rig.member.paused == {PARTITION}
    rig.producer.acknowledge()
    assert rig.member.paused == set()
    assert [offset for offset, name in rig.outputs() if name == "a"] == [0, 1, 2, 3, 4]
