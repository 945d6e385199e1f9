"""A compacted topic as a table: catching up, following, and what it does with broken records."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable

import msgspec
import pytest

from libs.common.kafka import admin, reader
from libs.common.kafka.table import CompactedTable, TableFailed
from libs.common.settings import KafkaSettings
from libs.common.topics import TopicSpec
from tests.integration.common.topics_and_records import (
    WAIT_S,
    eventually,
    new_topic,
    write,
    write_in_transaction,
)

Change = tuple[str, object]


def decode(_: str, value: bytes) -> object:
    return msgspec.json.decode(value)


@contextlib.asynccontextmanager
async def following(
    kafka: KafkaSettings, topic: str, changes: list[Change] | None = None
) -> AsyncIterator[CompactedTable[object]]:
    """A table that follows its topic, and that has caught up."""
    seen = changes if changes is not None else []
    table = CompactedTable(
        kafka,
        topic,
        decode=decode,
        client_id="test",
        on_change=lambda key, row: seen.append((key, row)),
    )
    following = asyncio.ensure_future(table.follow())
    try:
        await within(table.caught_up())
        yield table
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


async def within(awaited: Awaitable[None]) -> None:
    async with asyncio.timeout(WAIT_S):
        await awaited


async def position_becomes(table: CompactedTable[object], position: int) -> None:
    """A transaction's marker may follow a moment after its end was acknowledged."""
    async with asyncio.timeout(WAIT_S):
        while table.position != position:
            await table.moved()


async def rows_become(table: CompactedTable[object], rows: dict[str, object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while dict(table.rows) != rows:
            await table.moved()


async def test_the_latest_value_of_each_key_counts_and_tombstones_remove(
    kafka_settings: KafkaSettings,
) -> None:
    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [("a", b"1"), ("b", b"2"), ("a", b"3"), ("b", None)])
    changes: list[Change] = []
    async with following(kafka_settings, topic, changes) as table:
        assert dict(table.rows) == {"a": 3}
        assert changes == [("a", 1), ("b", 2), ("a", 3), ("b", None)]
        assert table.position == 4
        assert table.readiness() is None


async def test_an_empty_topic_is_caught_up_with_at_once(kafka_settings: KafkaSettings) -> None:
    async with following(kafka_settings, await new_topic(kafka_settings)) as table:
        assert dict(table.rows) == {}
        assert table.position == 0


async def test_what_is_written_later_is_followed(kafka_settings: KafkaSettings) -> None:
    topic = await new_topic(kafka_settings)
    async with following(kafka_settings, topic) as table:
        await write(kafka_settings, topic, [("a", b"1")])
        await rows_become(table, {"a": 1})
        await write(kafka_settings, topic, [("a", None), ("b", b"2")])
        await rows_become(table, {"b": 2})


async def test_a_row_says_where_its_record_stands(kafka_settings: KafkaSettings) -> None:
    topic = await new_topic(kafka_settings, partitions=2)
    await write(kafka_settings, topic, [("a", b"1"), ("b", b"2"), ("a", b"3")], partition=1)
    async with following(kafka_settings, topic) as table:
        assert dict(table.offsets) == {"a": 2, "b": 1}
        await within(table.reached(3, partition=1))
        assert table.position_in(1) == 3
        assert table.position_in(0) == 0
        await write(kafka_settings, topic, [("a", None)], partition=1)
        await within(table.reached(4, partition=1))
        assert dict(table.offsets) == {"b": 1}


async def test_rows_cannot_be_changed_by_readers(kafka_settings: KafkaSettings) -> None:
    async with following(kafka_settings, await new_topic(kafka_settings)) as table:
        with pytest.raises(TypeError):
            table.rows["a"] = 1  # type: ignore[index]


async def test_every_partition_is_read(kafka_settings: KafkaSettings) -> None:
    topic = await new_topic(kafka_settings, partitions=3)
    for number in range(3):
        await write(kafka_settings, topic, [(f"k{number}", b"%d" % number)], partition=number)
    async with following(kafka_settings, topic) as table:
        assert dict(table.rows) == {"k0": 0, "k1": 1, "k2": 2}


async def test_committed_transactions_are_read_up_to_their_last_marker(
    kafka_settings: KafkaSettings,
) -> None:
    topic = await new_topic(kafka_settings)
    await write_in_transaction(kafka_settings, topic, [("a", b"1"), ("b", b"2")], end="commit")
    async with following(kafka_settings, topic) as table:
        assert dict(table.rows) == {"a": 1, "b": 2}
        await position_becomes(table, 3)
        await within(table.reached(3))


async def test_an_aborted_tail_is_passed_over(kafka_settings: KafkaSettings) -> None:
    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [("a", b"1")])
    await write_in_transaction(kafka_settings, topic, [("a", b"9"), ("b", b"9")], end="abort")
    async with following(kafka_settings, topic) as table:
        await position_becomes(table, 4)
        await within(table.reached(4))
        assert dict(table.rows) == {"a": 1}


async def test_a_transaction_that_nobody_ends_is_waited_for_until_the_broker_aborts_it(
    kafka_settings: KafkaSettings,
) -> None:
    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [("a", b"1")])
    forgotten = await write_in_transaction(kafka_settings, topic, [("a", b"9")], end="open")
    reading = asyncio.to_thread(reader.read_to_end, kafka_settings, topic, [0], client_id="test")
    async with following(kafka_settings, topic) as table:
        assert dict(table.rows) == {"a": 1}
        assert table.position == 3
        (record,) = await reading
        assert record.value == b"1"
    del forgotten


@pytest.mark.parametrize("broken", [b"", b"{", b"\xff", b"[" * 100_000])
async def test_a_broken_record_disables_its_key_alone_until_it_is_mended(
    kafka_settings: KafkaSettings, broken: bytes
) -> None:
    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [("a", b"1"), ("b", b"2"), ("a", broken), ("c", b"3")])
    changes: list[Change] = []
    async with following(kafka_settings, topic, changes) as table:
        assert dict(table.rows) == {"b": 2, "c": 3}
        assert changes[2] == ("a", None)
        await write(kafka_settings, topic, [("a", b"4")])
        await rows_become(table, {"a": 4, "b": 2, "c": 3})


async def test_waiting_for_an_offset_ends_when_everything_below_is_applied(
    kafka_settings: KafkaSettings,
) -> None:
    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [("a", b"1")])
    async with following(kafka_settings, topic) as table:
        await within(table.reached(1))
        await write(kafka_settings, topic, [("a", b"2"), ("a", b"3")])
        await within(table.reached(3))
        assert dict(table.rows) == {"a": 3}


async def test_an_offset_beyond_the_end_does_not_wait(kafka_settings: KafkaSettings) -> None:
    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [("a", b"1")])
    async with following(kafka_settings, topic) as table:
        await within(table.reached(4_711))
        assert table.position == 1


async def test_a_second_start_finds_the_same_rows(kafka_settings: KafkaSettings) -> None:
    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [(f"k{n}", b"%d" % n) for n in range(1_500)])
    async with following(kafka_settings, topic) as first:
        rows = dict(first.rows)
    async with following(kafka_settings, topic) as second:
        assert dict(second.rows) == rows == {f"k{n}": n for n in range(1_500)}


async def test_a_topic_that_does_not_exist_is_waited_for(kafka_settings: KafkaSettings) -> None:
    name = kafka_settings.topic_prefix + "later"
    table = CompactedTable(kafka_settings, "later", decode=decode, client_id="test")
    following = asyncio.ensure_future(table.follow())
    assert table.readiness() == f"waiting for topic {name}"
    assert not table.is_caught_up
    await admin.create_topics(kafka_settings, [TopicSpec(name=name, partitions=1)])
    await within(table.caught_up())
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following


async def test_a_change_that_nobody_could_take_over_ends_the_table(
    kafka_settings: KafkaSettings,
) -> None:
    def on_change(key: str, _: object) -> None:
        raise KeyError(key)

    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [("a", b"1")])
    table = CompactedTable(
        kafka_settings, topic, decode=decode, client_id="test", on_change=on_change
    )
    with pytest.raises(TableFailed, match="KeyError"):
        await within(table.follow())


async def test_a_cancelled_table_leaves_no_thread(kafka_settings: KafkaSettings) -> None:
    topic = await new_topic(kafka_settings)
    async with following(kafka_settings, topic):
        assert f"test-{topic}" in {thread.name for thread in threading.enumerate()}
    await eventually(
        lambda: f"test-{topic}" not in {thread.name for thread in threading.enumerate()}
    )
