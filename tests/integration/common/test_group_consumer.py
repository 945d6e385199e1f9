"""A member of a consumer group: assignment, batches, commits, hand-over."""

import asyncio
import contextlib
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

import pytest
from confluent_kafka import Producer, TopicPartition

from libs.common.kafka import config
from libs.common.kafka.consumer import (
    CommitRefused,
    ConsumerFailed,
    GroupConsumer,
)
from libs.common.kafka.transactions import TransactionalWriter
from libs.common.partitions import CommittedOffset, ConsumedRecord, Partition
from libs.common.settings import KafkaSettings
from tests.integration.common.topics_and_records import WAIT_S, eventually, new_topic, write

Journal = list[tuple[str, str, list[int]]]
"""(member, what happened, partition numbers), in the order in which it happened."""


class Listener:
    """Takes every assignment, and writes down what happens."""

    def __init__(self, name: str, journal: Journal) -> None:
        self._name = name
        self._journal = journal
        self.found: dict[Partition, CommittedOffset] = {}
        self.owned: set[Partition] = set()
        self.records: list[ConsumedRecord] = []
        self.consumer: GroupConsumer | None = None
        self.commits_on_revoke = False
        self.on_revoke: Callable[[Sequence[Partition]], Awaitable[None]] | None = None
        self.changed = asyncio.Condition()

    async def assigned(
        self, partitions: Mapping[Partition, CommittedOffset]
    ) -> Mapping[Partition, int]:
        self.found.update(partitions)
        self.owned |= set(partitions)
        await self._note("assigned", list(partitions))
        return {partition: found.offset or found.low for partition, found in partitions.items()}

    async def revoked(self, partitions: Sequence[Partition]) -> None:
        if self.commits_on_revoke and self.consumer is not None:
            await self.consumer.commit_now(dict.fromkeys(partitions, 7), metadata="bye")
        if self.on_revoke is not None:
            await self.on_revoke(partitions)
        self.owned -= set(partitions)
        await self._note("revoked", partitions)

    async def lost(self, partitions: Sequence[Partition]) -> None:
        self.owned -= set(partitions)
        await self._note("lost", partitions)

    def on_batch(self, records: list[ConsumedRecord]) -> None:
        self.records += records
        asyncio.get_running_loop().call_soon(asyncio.ensure_future, self._notify())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until something that happened to this member makes the condition true."""
        async with asyncio.timeout(WAIT_S), self.changed:
            await self.changed.wait_for(condition)

    async def _note(self, event: str, partitions: Sequence[Partition]) -> None:
        numbers = sorted(partition.number for partition in partitions)
        self._journal.append((self._name, event, numbers))
        await self._notify()

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()


class Group:
    """Members of one group on one topic."""

    def __init__(self, kafka: KafkaSettings, topic: str) -> None:
        self.kafka = kafka
        self.topic = topic
        self.journal: Journal = []
        self._name = uuid.uuid4().hex

    def partition(self, number: int) -> Partition:
        return Partition(self.kafka.topic_prefix + self.topic, number)

    @contextlib.asynccontextmanager
    async def member(self, name: str = "a") -> AsyncIterator[tuple[GroupConsumer, Listener]]:
        """A member that has joined and stops at the end."""
        listener = Listener(name, self.journal)
        consumer = GroupConsumer(
            self.kafka,
            [self.topic],
            group=self._name,
            instance=name,
            listener=listener,
            on_batch=listener.on_batch,
        )
        listener.consumer = consumer
        consumer.start()
        try:
            await listener.until(lambda: bool(listener.owned))
            yield consumer, listener
        finally:
            await asyncio.wait_for(consumer.close(), WAIT_S)

    async def write(self, *values: bytes, partition: int = 0) -> None:
        pairs = [("k", value) for value in values]
        await write(self.kafka, self.topic, pairs, partition=partition)


@pytest.fixture
async def group(kafka_settings: KafkaSettings) -> Group:
    return Group(kafka_settings, await new_topic(kafka_settings))


@pytest.fixture
async def wide_group(kafka_settings: KafkaSettings) -> Group:
    return Group(kafka_settings, await new_topic(kafka_settings, partitions=2))


async def test_a_new_group_is_told_that_nothing_is_committed_and_where_the_log_begins(
    group: Group,
) -> None:
    await group.write(b"1", b"2")
    async with group.member() as (consumer, listener):
        assert listener.found == {group.partition(0): CommittedOffset(None, "", 0, 2)}
        await eventually(lambda: consumer.readiness() is None)
        assert consumer.group_metadata is not None


async def test_records_come_in_order_with_their_places(group: Group) -> None:
    await group.write(*(b"%d" % number for number in range(1_200)))
    async with group.member() as (_, listener):
        await listener.until(lambda: len(listener.records) == 1_200)
    assert [record.value for record in listener.records] == [b"%d" % n for n in range(1_200)]
    assert [record.offset for record in listener.records] == list(range(1_200))
    first = listener.records[0]
    assert (first.partition, first.key, first.leader_epoch) == (group.partition(0), b"k", 0)


async def test_a_paused_partition_brings_nothing_until_it_is_resumed(wide_group: Group) -> None:
    paused, other = wide_group.partition(0), wide_group.partition(1)
    async with wide_group.member() as (consumer, listener):
        consumer.pause([paused])
        await wide_group.write(b"after this batch the pause holds", partition=1)
        await listener.until(lambda: len(listener.records) == 1)
        await wide_group.write(b"0", partition=0)
        await wide_group.write(*[b"1"] * 50, partition=1)
        await listener.until(lambda: len(listener.records) == 51)
        assert {record.partition for record in listener.records} == {other}
        consumer.resume([paused])
        await listener.until(lambda: len(listener.records) == 52)
        assert listener.records[-1].partition == paused


async def test_a_commit_is_confirmed_and_found_by_the_next_start_with_its_text(
    group: Group,
) -> None:
    await group.write(*[b"v"] * 5)
    partition = group.partition(0)
    async with group.member() as (consumer, listener):
        assert consumer.confirmed(partition) is None
        consumer.commit({partition: 3}, metadata="note")
        assert await eventually(lambda: consumer.confirmed(partition)) == 3
    async with group.member() as (consumer, listener):
        assert listener.found[partition] == CommittedOffset(3, "note", 0, 5)
        assert consumer.confirmed(partition) is None
        await listener.until(lambda: len(listener.records) == 2)
        assert [record.offset for record in listener.records] == [3, 4]


async def test_what_is_committed_while_partitions_go_is_there_for_the_next_owner(
    group: Group,
) -> None:
    await group.write(*[b"v"] * 9)
    async with group.member() as (_, listener):
        listener.commits_on_revoke = True
    assert group.journal == [("a", "assigned", [0]), ("a", "revoked", [0])]
    async with group.member() as (_, listener):
        assert listener.found[group.partition(0)] == CommittedOffset(7, "bye", 0, 9)


async def test_a_partition_is_handed_over_only_after_its_owner_has_finished(
    wide_group: Group,
) -> None:
    async with wide_group.member("a") as (_, first):
        first.commits_on_revoke = True
        await first.until(lambda: len(first.owned) == 2)
        async with wide_group.member("b") as (_, second):
            await first.until(lambda: len(first.owned) == 1)
            assert first.owned.isdisjoint(second.owned)
            (moved,) = second.owned
            assert second.found[moved] == CommittedOffset(7, "bye", 0, 0)
            numbers = [moved.number]
            assert wide_group.journal == [
                ("a", "assigned", [0, 1]),
                ("a", "revoked", numbers),
                ("b", "assigned", numbers),
            ]
            first.commits_on_revoke = False


async def test_a_partition_that_left_and_came_back_is_read_and_nothing_of_before_counts(
    wide_group: Group,
) -> None:
    async with wide_group.member("a") as (consumer, first):
        await first.until(lambda: len(first.owned) == 2)
        both = dict.fromkeys(first.owned, 3)
        for partition in both:
            await wide_group.write(*[b"v"] * 3, partition=partition.number)
        await first.until(lambda: len(first.records) == 6)
        consumer.commit(both, metadata="")
        await eventually(lambda: all(consumer.confirmed(p) == 3 for p in both))
        consumer.pause(both)
        async with wide_group.member("b") as (_, second):
            (moved,) = second.owned
        await first.until(lambda: len(first.owned) == 2)
        assert consumer.confirmed(moved) is None
        await wide_group.write(b"new", partition=moved.number)
        await first.until(lambda: len(first.records) == 7)
        assert first.records[-1].value == b"new"


async def test_offsets_sent_while_partitions_go_belong_to_the_groups_present_generation(
    wide_group: Group,
) -> None:
    writer = TransactionalWriter(wide_group.kafka, transactional_id=uuid.uuid4().hex)
    await writer.start()
    async with wide_group.member("a") as (consumer, first):
        first.on_revoke = lambda gone: writer.commit(
            [], offsets=dict.fromkeys(gone, 5), group_metadata=consumer.group_metadata
        )
        await first.until(lambda: len(first.owned) == 2)
        async with wide_group.member("b") as (_, second):
            (moved,) = second.owned
            assert second.found[moved].offset == 5
    await writer.close()


async def test_offsets_of_an_owner_that_died_in_a_transaction_are_waited_for(
    group: Group,
) -> None:
    partition = group.partition(0)
    async with group.member("a") as (consumer, _):
        dead = Producer(
            config.transactional_producer(group.kafka, transactional_id=uuid.uuid4().hex)
        )
        await asyncio.to_thread(dead.init_transactions, WAIT_S)
        dead.begin_transaction()
        await asyncio.to_thread(
            dead.send_offsets_to_transaction,
            [TopicPartition(*partition, 5)],
            consumer.group_metadata,
            WAIT_S,
        )
    async with group.member("a") as (_, listener):
        assert listener.found[partition].offset is None
    del dead


async def test_a_member_whose_name_another_process_took_ends_and_commits_nothing_more(
    group: Group,
) -> None:
    partition = group.partition(0)
    async with group.member("a") as (older, listener):
        listener.commits_on_revoke = True
        async with group.member("a") as (_, successor):
            with pytest.raises(ConsumerFailed, match="fenced"):
                await asyncio.wait_for(older.watch(), WAIT_S)
            with pytest.raises(CommitRefused):
                await older.commit_now({partition: 5}, metadata="late")
            assert successor.owned == {partition}
    async with group.member("a") as (_, third):
        assert third.found[partition].offset is None


async def test_a_stalled_member_learns_that_it_has_lost_what_another_has_by_then(
    kafka_settings: KafkaSettings,
) -> None:
    impatient = kafka_settings.model_copy(update={"properties": {"max.poll.interval.ms": "6000"}})
    group = Group(impatient, await new_topic(kafka_settings))
    going_on = threading.Event()
    async with group.member("a") as (stalled, listener):
        stalled._commands.put(lambda: _wait(going_on))
        async with group.member("b"):
            going_on.set()
            await listener.until(lambda: not listener.owned)
            with pytest.raises(CommitRefused):
                await stalled.commit_now({group.partition(0): 5}, metadata="late")
    assert group.journal[:3] == [("a", "assigned", [0]), ("b", "assigned", [0]), ("a", "lost", [0])]


def _wait(event: threading.Event) -> None:
    assert event.wait(WAIT_S)


async def test_after_the_end_a_commit_is_refused_and_not_waited_for(group: Group) -> None:
    async with group.member() as (consumer, _):
        pass
    with pytest.raises(CommitRefused):
        await asyncio.wait_for(consumer.commit_now({group.partition(0): 1}, metadata=""), WAIT_S)


async def test_a_batch_that_nobody_could_take_over_ends_the_consumer(group: Group) -> None:
    async with group.member() as (consumer, listener):
        await listener.until(lambda: bool(listener.owned))
        listener.records = None  # type: ignore[assignment]
        await group.write(b"1")
        with pytest.raises(TypeError):
            await asyncio.wait_for(consumer.watch(), WAIT_S)


async def test_an_assignment_that_fails_ends_the_consumer(group: Group) -> None:
    class Failing(Listener):
        async def assigned(
            self, partitions: Mapping[Partition, CommittedOffset]
        ) -> Mapping[Partition, int]:
            raise ConsumerFailed(f"cannot take {len(partitions)}")

    listener = Failing("a", [])
    consumer = GroupConsumer(
        group.kafka,
        [group.topic],
        group=uuid.uuid4().hex,
        instance="a",
        listener=listener,
        on_batch=listener.on_batch,
    )
    consumer.start()
    assert consumer.readiness() == "joining the consumer group"
    with pytest.raises(ConsumerFailed, match="cannot take 1"):
        await asyncio.wait_for(consumer.watch(), WAIT_S)
    await consumer.close()


async def test_an_offset_that_the_broker_no_longer_has_ends_the_consumer(group: Group) -> None:
    class Mistaken(Listener):
        async def assigned(
            self, partitions: Mapping[Partition, CommittedOffset]
        ) -> Mapping[Partition, int]:
            return dict.fromkeys(partitions, 4_711)

    listener = Mistaken("a", [])
    consumer = GroupConsumer(
        group.kafka,
        [group.topic],
        group=uuid.uuid4().hex,
        instance="a",
        listener=listener,
        on_batch=listener.on_batch,
    )
    consumer.start()
    with pytest.raises(ConsumerFailed):
        await asyncio.wait_for(consumer.watch(), WAIT_S)
    await consumer.close()
