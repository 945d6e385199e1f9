"""The one writer of `resources`: versions are offsets, and two leaders cannot both write."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from libs.common import topics
from libs.common.errors import Conflict, FencedOut, NotReady
from libs.common.kafka import admin
from libs.common.kafka.reader import read_to_end
from libs.common.kafka.table import CompactedTable
from libs.common.kafka.transactions import OffsetMoved, OutRecord, TransactionalWriter
from libs.common.resources import Kind, Resource, decode_resource
from libs.common.settings import KafkaSettings
from services.control.adapters.ledger import KafkaLedger
from services.control.domain.draft import Draft, Snapshot

KEY = "exposure/integration/orders.v1"


@pytest.fixture
async def platform_kafka(kafka_settings: KafkaSettings) -> KafkaSettings:
    specs = topics.topic_specs(prefix=kafka_settings.topic_prefix, embedded=True)
    await admin.create_topics(kafka_settings, specs)
    return kafka_settings


@contextlib.asynccontextmanager
async def ledger_of(kafka: KafkaSettings, name: str) -> AsyncIterator[KafkaLedger]:
    """A ledger with its own table, which does not lead yet."""
    table = CompactedTable[Resource](
        kafka, topics.RESOURCES, decode=decode_resource, client_id=name
    )
    following = asyncio.ensure_future(table.follow())
    await table.caught_up()
    ledger = KafkaLedger(kafka, table, client_id=name)
    try:
        yield ledger
    finally:
        await ledger.step_down()
        following.cancel()
        await asyncio.wait([following])


def exposing(owner: str, snapshot: Snapshot) -> Draft:
    draft = Draft(snapshot)
    draft.put(Kind.EXPOSURE, "integration", "orders.v1", owner=owner, spec={"publisherId": owner})
    return draft


async def expose(ledger: KafkaLedger, owner: str) -> Draft:
    return await ledger.change(lambda snapshot: exposing(owner, snapshot))


async def test_a_change_can_be_read_here_once_it_is_stored(platform_kafka: KafkaSettings) -> None:
    async with ledger_of(platform_kafka, "one") as ledger:
        await ledger.take_over()
        for owner in ("a", "b", "c"):
            draft = await expose(ledger, owner)
            assert ledger.rows[KEY].owner == owner
            assert ledger.position >= draft.end


async def test_a_refused_decision_stores_nothing_and_the_next_one_works(
    platform_kafka: KafkaSettings,
) -> None:
    def refuse(_: Snapshot) -> Draft:
        raise Conflict("no")

    async with ledger_of(platform_kafka, "one") as ledger:
        await ledger.take_over()
        before = ledger.position
        with pytest.raises(Conflict):
            await ledger.change(refuse)
        draft = await expose(ledger, "after a refusal")
        assert draft.snapshot.next_offset >= before
        assert ledger.rows[KEY].version == draft.snapshot.next_offset


async def test_a_replica_that_does_not_lead_stores_nothing(platform_kafka: KafkaSettings) -> None:
    async with ledger_of(platform_kafka, "one") as ledger:
        with pytest.raises(NotReady):
            await expose(ledger, "nobody")
        await ledger.take_over()
        await ledger.step_down()
        with pytest.raises(NotReady):
            await expose(ledger, "nobody")


async def test_a_former_leader_that_does_not_know_it_yet_is_fenced_and_ends(
    platform_kafka: KafkaSettings,
) -> None:
    async with (
        ledger_of(platform_kafka, "one") as former,
        ledger_of(platform_kafka, "two") as leader,
    ):
        await former.take_over()
        await expose(former, "former")
        await leader.take_over()
        assert leader.rows[KEY].owner == "former"
        with pytest.raises(FencedOut):
            await expose(former, "late")
        with pytest.raises(FencedOut):
            await former.watch()
        await expose(leader, "leader")
        assert leader.rows[KEY].owner == "leader"


async def test_records_that_would_stand_elsewhere_are_not_written(
    platform_kafka: KafkaSettings,
) -> None:
    async with ledger_of(platform_kafka, "one") as ledger:
        await ledger.take_over()
        before = await expose(ledger, "before")
        writer = TransactionalWriter(platform_kafka, transactional_id="offsets")
        await writer.start()
        with pytest.raises(OffsetMoved):
            await writer.commit(
                [OutRecord(topics.RESOURCES, KEY.encode(), None, 0)], first_offset=before.end
            )
        await writer.close()
        await expose(ledger, "after")
        assert ledger.rows[KEY].owner == "after"
        assert ledger.rows[KEY].version == await offset_of_last(platform_kafka)


async def offset_of_last(kafka: KafkaSettings) -> int:
    records = await asyncio.to_thread(
        read_to_end, kafka, topics.RESOURCES, [0], client_id="test-reader"
    )
    return records[-1].offset
