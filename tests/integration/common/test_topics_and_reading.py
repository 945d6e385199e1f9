"""Creating topics, asking about them, and reading pieces of them once."""

import asyncio
import socket
import uuid
from collections.abc import Sequence

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from libs.common.errors import KafkaUnavailable
from libs.common.kafka import admin, reader
from libs.common.kafka.admin import MissingTopic, TopicEnds
from libs.common.partitions import Partition
from libs.common.settings import KafkaSettings
from libs.common.topics import TopicSpec, topic_specs
from tests.integration.common.topics_and_records import (
    committed,
    new_topic,
    write,
    write_in_transaction,
)


def specs(prefix: str, *names: str, partitions: int = 1) -> list[TopicSpec]:
    return [TopicSpec(name=prefix + name, partitions=partitions) for name in names]


async def offsets_read(
    kafka: KafkaSettings, topic: str, offsets: Sequence[int]
) -> list[tuple[int, bytes | None]]:
    def read() -> list[tuple[int, bytes | None]]:
        found = reader.read_offsets(
            kafka, Partition(kafka.topic_prefix + topic, 0), offsets, client_id="test"
        )
        return [(record.offset, record.value) for record in found]

    return await asyncio.to_thread(read)


async def test_topics_are_created_once_and_again_without_harm(
    kafka_settings: KafkaSettings,
) -> None:
    prefix = f"{kafka_settings.topic_prefix}{uuid.uuid4().hex[:6]}-"
    assert await admin.create_topics(kafka_settings, specs(prefix, "a", "b")) == [
        prefix + "a",
        prefix + "b",
    ]
    both = [prefix + "a", prefix + "b"]
    ids = await admin.topic_ids(kafka_settings, both)
    assert await admin.create_topics(kafka_settings, specs(prefix, "a", "b", "c")) == [prefix + "c"]
    assert await admin.topic_ids(kafka_settings, both) == ids
    assert len(set(ids.values())) == 2


async def test_a_platforms_topics_are_created_as_specified(kafka_settings: KafkaSettings) -> None:
    prefix = f"{kafka_settings.topic_prefix}all-"
    wanted = topic_specs(prefix=prefix, embedded=True)
    created = await admin.create_topics(kafka_settings, wanted)
    assert sorted(created) == sorted(spec.name for spec in wanted)
    counts = await admin.partition_counts(kafka_settings, created)
    assert counts == {spec.name: spec.partitions for spec in wanted}
    client = AdminClient({"bootstrap.servers": kafka_settings.bootstrap_servers})
    described = client.describe_configs([ConfigResource(ResourceType.TOPIC, n) for n in created])
    found = {one.name: await asyncio.to_thread(done.result) for one, done in described.items()}
    for spec in wanted:
        assert {name: found[spec.name][name].value for name in spec.config} == spec.config


async def test_a_topic_that_was_created_can_be_written_at_once(
    kafka_settings: KafkaSettings,
) -> None:
    topic = await new_topic(kafka_settings, partitions=3)
    for number in range(3):
        await write(kafka_settings, topic, [("k", b"v")], partition=number)
    assert len(await committed(kafka_settings, topic, partitions=3)) == 3


async def test_a_topic_that_does_not_exist_is_named(kafka_settings: KafkaSettings) -> None:
    topic = kafka_settings.topic_prefix + await new_topic(kafka_settings)
    missing = topic + "-missing"
    for ask in (admin.topic_ids, admin.partition_counts):
        with pytest.raises(MissingTopic, match=missing):
            await ask(kafka_settings, [topic, missing])


async def test_a_topic_that_was_created_again_has_another_id(kafka_settings: KafkaSettings) -> None:
    topic = kafka_settings.topic_prefix + await new_topic(kafka_settings)
    before = await admin.topic_ids(kafka_settings, [topic])
    client = AdminClient({"bootstrap.servers": kafka_settings.bootstrap_servers})
    (deleted,) = client.delete_topics([topic]).values()
    await asyncio.to_thread(deleted.result)
    await admin.create_topics(kafka_settings, [TopicSpec(name=topic, partitions=1)])
    assert await admin.topic_ids(kafka_settings, [topic]) != before


async def test_a_kafka_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "REQUEST_TIMEOUT_S", 0.3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = KafkaSettings(bootstrap_servers=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(KafkaUnavailable):
            await admin.create_topics(nowhere, specs("", "a"))
        with pytest.raises(KafkaUnavailable):
            await admin.topic_ids(nowhere, ["a"])


async def test_the_end_of_a_partition_includes_what_is_not_committed(
    kafka_settings: KafkaSettings,
) -> None:
    topic = await new_topic(kafka_settings, partitions=2)
    ends = TopicEnds(kafka_settings, client_id="test")
    assert await ends.of(topic, 0) == 0
    await write(kafka_settings, topic, [("a", b"1")])
    unfinished = await write_in_transaction(kafka_settings, topic, [("b", b"2")], end="open")
    assert (await ends.of(topic, 0), await ends.of(topic, 1)) == (2, 0)
    await asyncio.to_thread(unfinished.abort_transaction)


async def test_reading_to_the_end_gives_every_committed_record_of_every_partition(
    kafka_settings: KafkaSettings,
) -> None:
    topic = await new_topic(kafka_settings, partitions=3)
    await write(kafka_settings, topic, [("a", b"%d" % n) for n in range(1_200)], partition=0)
    await write(kafka_settings, topic, [("c", None)], partition=2)
    found = await committed(kafka_settings, topic, partitions=3)
    assert found == [*(("a", b"%d" % n) for n in range(1_200)), ("c", None)]


async def test_reading_to_the_end_ends_on_an_empty_topic(kafka_settings: KafkaSettings) -> None:
    assert await committed(kafka_settings, await new_topic(kafka_settings)) == []


async def test_reading_to_the_end_passes_over_an_aborted_tail(
    kafka_settings: KafkaSettings,
) -> None:
    topic = await new_topic(kafka_settings)
    await write_in_transaction(kafka_settings, topic, [("a", b"1")], end="commit")
    await write_in_transaction(kafka_settings, topic, [("a", b"2")], end="abort")
    assert await committed(kafka_settings, topic) == [("a", b"1")]


async def test_single_records_are_read_by_their_offsets(kafka_settings: KafkaSettings) -> None:
    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [("k", b"%d" % n) for n in range(700)])
    assert await offsets_read(kafka_settings, topic, [0, 3, 650, 699]) == [
        (0, b"0"),
        (3, b"3"),
        (650, b"650"),
        (699, b"699"),
    ]
    assert await offsets_read(kafka_settings, topic, []) == []


async def test_offsets_whose_records_are_gone_or_never_were_are_left_out(
    kafka_settings: KafkaSettings,
) -> None:
    topic = await new_topic(kafka_settings)
    await write(kafka_settings, topic, [("k", b"%d" % n) for n in range(10)])
    await write_in_transaction(kafka_settings, topic, [("k", b"aborted")], end="abort")
    client = AdminClient({"bootstrap.servers": kafka_settings.bootstrap_servers})
    start = TopicPartition(kafka_settings.topic_prefix + topic, 0, 5)
    (deleted,) = client.delete_records([start]).values()
    await asyncio.to_thread(deleted.result)
    assert await offsets_read(kafka_settings, topic, [1, 4, 7, 10, 11]) == [(7, b"7")]
    assert await offsets_read(kafka_settings, topic, [1, 2]) == []
