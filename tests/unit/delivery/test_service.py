"""Owning partitions and making callbacks; outcomes come when a test says so."""

import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

import pytest

from libs.common import clock, topics
from libs.common.kafka.transactions import TransactionAborted
from libs.common.partitions import CommittedOffset, ConsumedRecord, Partition
from libs.common.records import LaneCheckpoint, LaneRecord
from libs.common.resources import Subscription
from libs.common.testing.producer import MemoryProducer
from services.delivery.adapters.kafka import KafkaStatusLog
from services.delivery.domain.outcome import Answer, Answered
from services.delivery.domain.progress import Checkpoint
from services.delivery.service.ownership import Delivery
from services.delivery.settings import DeliverySettings
from tests.unit.delivery.test_lane import subscription_to

PARTITION = Partition("subscribed-7d", 1)
OTHER = Partition("subscribed-7d", 2)
LIMIT_S = 5.0


class ScriptedCallbacks:
    """Answers each request when a test says so."""

    def __init__(self) -> None:
        self.requests: deque[tuple[str, asyncio.Future[Answer]]] = deque()
        self.began: list[str] = []

    async def post(
        self, url: str, *, body: bytes, headers: Sequence[tuple[str, str]], timeout_s: float
    ) -> Answer:
        assert url
        assert timeout_s > 0
        assert dict(headers)["content-type"] == "application/json"
        event_id = json.loads(body)["id"]
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.began.append(event_id)
        self.requests.append((event_id, answer))
        return await answer

    def answer(self, status: int = 200, *, retry_after_s: float | None = None) -> str:
        """Answers the oldest open request; the id of its event."""
        event_id, answer = self.requests.popleft()
        answer.set_result(Answered(status=status, retry_after_s=retry_after_s))
        return event_id


class KnownSubscriptions:
    """One subscription, known from the start."""

    def get(self, subscription_id: str) -> Subscription | None:
        return subscription_to("https://bi.example/in") if subscription_id == "sub" else None

    async def known_since(self, version: int) -> None:
        assert version >= 0


class WrittenProgress:
    """Keeps checkpoints; aborts as many transactions as a test says."""

    def __init__(self) -> None:
        self.written: list[Mapping[Partition, Checkpoint]] = []
        self.left: list[LaneRecord] = []
        self.kept: dict[int, ConsumedRecord] = {}
        self.aborts = 0
        self.gate = asyncio.Event()
        """Pending records of OTHER are not found before it is set."""

    def name_of(self, partition: Partition) -> str:
        return partition.topic

    async def read(self, partitions: Sequence[Partition]) -> Mapping[Partition, list[LaneRecord]]:
        return {partition: list(self.left) for partition in partitions}

    async def write(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        if self.aborts:
            self.aborts -= 1
            raise TransactionAborted("told to")
        self.written.append(checkpoints)

    async def pick(self, partition: Partition, offsets: Sequence[int]) -> list[ConsumedRecord]:
        if partition == OTHER:
            await self.gate.wait()
            return []
        return [self.kept[offset] for offset in offsets if offset in self.kept]

    @property
    def last(self) -> Checkpoint:
        return self.written[-1][PARTITION]


class GroupMember:
    """Notes which partitions are paused."""

    def __init__(self) -> None:
        self.paused: set[Partition] = set()

    def pause(self, partitions: Iterable[Partition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        self.paused -= set(partitions)


class Rig:
    """Delivery that owns one partition."""

    def __init__(self, **limits: float) -> None:
        self.callbacks = ScriptedCallbacks()
        self.producer = MemoryProducer()
        self.progress = WrittenProgress()
        self.member = GroupMember()
        settings = {"checkpoint_interval_s": 0.01, "revoke_s": 0.05, **limits}
        self.delivery = Delivery(
            DeliverySettings.model_validate(settings),
            callbacks=self.callbacks,
            status_log=KafkaStatusLog(self.producer, topic_prefix=""),
            subscriptions=KnownSubscriptions(),
            progress_log=self.progress,
        )
        self.delivery.read_from(self.member)

    @contextlib.asynccontextmanager
    async def owning(
        self, *, committed: int | None = None, first: Partition = PARTITION
    ) -> AsyncIterator["Rig"]:
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            running = [
                group.create_task(task())
                for task in (
                    self.delivery.courier.run,
                    self.delivery.checkpoint_forever,
                    self.delivery.recover_forever,
                )
            ]
            await asyncio.sleep(0)
            found = CommittedOffset(committed, "", 0, 1_000)
            await self.delivery.assigned({first: found})
            yield self
            for task in running:
                task.cancel()

    def feed(self, *offsets: int) -> None:
        self.delivery.on_batch([consumed(offset) for offset in offsets])

    async def began(self, number: int) -> None:
        while len(self.callbacks.began) < number:
            await asyncio.sleep(0)

    async def stored(self, number: int) -> list[tuple[str, str, int]]:
        """(event, status, attempt) of the first status records, once there are so many."""
        while len(self.producer.written) < number:
            await asyncio.sleep(0)
            self.producer.acknowledge()
        changes = [json.loads(record.value or b"") for record in self.producer.written]
        return [(one["event"]["id"], one["status"], one["attempt"]) for one in changes]

    async def committed(self, offset: int) -> None:
        while not self.progress.written or self.progress.last.committed != offset:
            await asyncio.sleep(0)


def consumed(
    offset: int, *, source_offset: int | None = None, delivery_type: str = "CALLBACK"
) -> ConsumedRecord:
    record = {
        "uuid": f"u{offset}",
        "multiplexedFrom": "p",
        "environment": "integration",
        "subscriptionId": "sub",
        "subscriptionVersion": 1,
        "subscriberId": "s",
        "publisherId": "p",
        "orderingKey": "k",
        "source": {
            "topicId": "t",
            "partition": 0,
            "leaderEpoch": 0,
            "offset": offset if source_offset is None else source_offset,
        },
        "deliveryType": delivery_type,
        "eventRetentionTime": "7d",
        "publishedAt": clock.to_text(clock.utc_now()),
        "event": {"id": f"e{offset}", "type": "orders.v1"},
    }
    return ConsumedRecord(PARTITION, offset, 0, b"sub", json.dumps(record).encode())


async def test_the_offset_is_written_only_after_the_final_status_is_stored() -> None:
    async with Rig().owning() as rig:
        rig.feed(0)
        await rig.began(1)
        rig.callbacks.answer()
        while not rig.producer.queued:
            await asyncio.sleep(0)
        while not rig.progress.written:
            await asyncio.sleep(0)
        assert all(one[PARTITION].committed == 0 for one in rig.progress.written)
        assert await rig.stored(1) == [("e0", "DELIVERED", 1)]
        await rig.committed(1)


async def test_records_of_streams_are_passed_over_and_hold_nothing_back() -> None:
    async with Rig().owning() as rig:
        streamed = [consumed(offset, delivery_type="SERVER_SENT_EVENT") for offset in (0, 2)]
        rig.delivery.on_batch([streamed[0], consumed(1), streamed[1]])
        await rig.began(1)
        rig.callbacks.answer()
        assert await rig.stored(1) == [("e1", "DELIVERED", 1)]
        await rig.committed(3)
        assert rig.callbacks.began == ["e1"]
        assert len(rig.producer.written) == 1


async def test_a_retry_holds_nobody_back_and_is_recorded_once() -> None:
    async with Rig(concurrency=1, retry_delay_s_min=0.02).owning() as rig:
        rig.feed(0, 1)
        await rig.began(1)
        rig.callbacks.answer(503)
        await rig.began(2)
        assert rig.callbacks.answer() == "e1"
        await rig.began(3)
        rig.callbacks.answer(502)
        await rig.began(4)
        rig.callbacks.answer()
        assert await rig.stored(3) == [
            ("e0", "DELIVERING", 1),
            ("e1", "DELIVERED", 1),
            ("e0", "DELIVERED", 3),
        ]


async def test_a_subscriber_that_asks_for_a_pause_slows_its_whole_lane() -> None:
    async with Rig(concurrency=1, retry_delay_s_min=0.02).owning() as rig:
        rig.feed(0, 1)
        await rig.began(1)
        began_s = asyncio.get_running_loop().time()
        rig.callbacks.answer(429, retry_after_s=0.06)
        await rig.began(2)
        assert asyncio.get_running_loop().time() - began_s >= 0.055


async def test_a_lane_never_has_more_attempts_at_once_than_its_concurrency() -> None:
    async with Rig(concurrency=3).owning() as rig:
        rig.feed(*range(10))
        for done in range(10):
            await rig.began(min(done + 3, 10))
            assert len(rig.callbacks.requests) <= 3
            rig.callbacks.answer()
        assert len(await rig.stored(10)) == 10


@pytest.mark.parametrize("limits", [{"lane_records_max": 2}, {"unsettled_bytes_max": 700}])
async def test_over_a_bound_the_partition_pauses_until_there_is_room(
    limits: dict[str, float],
) -> None:
    async with Rig(**limits).owning() as rig:
        rig.feed(*range(5))
        assert rig.member.paused == {PARTITION}
        for done in range(5):
            await rig.began(done + 1)
            rig.callbacks.answer()
            await rig.stored(done + 1)
        assert rig.member.paused == set()
        assert rig.delivery.courier.unsettled_bytes == 0


async def test_an_aborted_checkpoint_is_written_again() -> None:
    rig = Rig(pending_after_s=0.01)
    async with rig.owning():
        rig.progress.aborts = 3
        rig.feed(0)
        await rig.committed(1)
        assert rig.progress.last.lanes["sub"].pending == [0]  # type: ignore[index, union-attr]


async def test_while_progress_cannot_be_written_no_callback_begins() -> None:
    async with Rig(unsaved_s_max=0.02, concurrency=1).owning() as rig:
        rig.progress.aborts = 1_000_000
        rig.feed(0, 1)
        await rig.began(1)
        while not rig.delivery.courier.is_held:
            await asyncio.sleep(0)
        rig.callbacks.answer()
        assert await rig.stored(1) == [("e0", "DELIVERED", 1)]
        aborts = rig.progress.aborts
        while rig.progress.aborts > aborts - 3:
            await asyncio.sleep(0)
        assert rig.callbacks.began == ["e0"]
        rig.progress.aborts = 0
        await rig.began(2)
        await rig.committed(1)


async def test_the_last_checkpoint_of_a_partition_is_tried_again() -> None:
    async with Rig(checkpoint_interval_s=4).owning() as rig:
        rig.progress.aborts = 2
        await rig.delivery.revoked([PARTITION])
        assert rig.progress.last.progress.released


async def test_pending_records_are_brought_back_and_those_that_are_gone_forgotten() -> None:
    first = Rig(pending_after_s=0.01)
    async with first.owning():
        first.feed(0, 1)
        await first.committed(2)
    second = Rig()
    last = first.progress.last
    second.progress.left = [last.progress, *(one for one in last.lanes.values() if one)]
    second.progress.kept = {1: consumed(1)}
    async with second.owning(committed=2) as rig:
        rig.feed(2)
        await rig.began(2)
        assert sorted(rig.callbacks.began) == ["e1", "e2"]
        rig.callbacks.answer()
        rig.callbacks.answer()
        await rig.stored(2)
        await rig.committed(3)
        tombstones = [one[PARTITION].lanes for one in rig.progress.written]
        assert any(lanes.get("sub", "none") is None for lanes in tombstones)  # type: ignore[call-overload]


async def test_what_becomes_pending_here_is_not_brought_back_as_well() -> None:
    rig = Rig(pending_after_s=0.01)
    rig.progress.left = [LaneCheckpoint(lane_id="sub", state="LIVE", next_offset=2, pending=[1])]
    rig.progress.kept = {1: consumed(1), 2: consumed(2)}
    found = CommittedOffset(2, "", 0, 1_000)
    async with rig.owning(committed=2, first=OTHER):
        await rig.delivery.assigned({PARTITION: found})
        rig.feed(2)
        await rig.committed(3)
        rig.progress.gate.set()
        await rig.began(2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert sorted(rig.callbacks.began) == ["e1", "e2"]


async def test_a_revoked_partition_settles_what_is_answered_in_time_and_aborts_the_rest() -> None:
    async with Rig().owning() as rig:
        rig.feed(0, 1)
        await rig.began(2)
        rig.callbacks.answer()
        leaving = asyncio.create_task(rig.delivery.revoked([PARTITION]))
        while not leaving.done():
            await asyncio.sleep(0)
            rig.producer.acknowledge()
        assert rig.progress.last.committed == 1
        assert rig.progress.last.progress.released
        assert await rig.stored(1) == [("e0", "DELIVERED", 1)]
        rig.feed(2)
        assert rig.callbacks.began == ["e0", "e1"]
        assert rig.delivery.courier.unsettled_bytes == 0


async def test_a_lost_partition_is_dropped_without_a_checkpoint() -> None:
    async with Rig(checkpoint_interval_s=4).owning() as rig:
        rig.feed(0)
        await rig.began(1)
        await rig.delivery.lost([PARTITION])
        await rig.delivery.drain()
        assert rig.progress.written == []
        while rig.delivery.courier.unsettled_bytes:
            await asyncio.sleep(0)


def broken(name: bytes, value: bytes) -> bytes:
    """A record with another value in one field."""
    return re.sub(b'"%s": "[^"]*"' % name, b'"%s": "%s"' % (name, value), consumed(0).value or b"")


WITHOUT_A_TIME = broken(b"publishedAt", b"noon")
WITHOUT_A_CLASS = broken(b"eventRetentionTime", b"9d")


@pytest.mark.parametrize(
    "value", [b"\xff", WITHOUT_A_TIME, WITHOUT_A_CLASS], ids=["no JSON", "no time", "no class"]
)
async def test_a_record_nobody_can_read_is_set_aside_before_the_offset_passes_it(
    value: bytes,
) -> None:
    async with Rig().owning() as rig:
        rig.delivery.on_batch([ConsumedRecord(PARTITION, 0, 0, b"key", value)])
        rig.feed(1)
        rig.producer.acknowledge()
        assert [record.topic for record in rig.producer.written] == [topics.DEAD_LETTERS]
        await rig.began(1)
        await rig.committed(1)
