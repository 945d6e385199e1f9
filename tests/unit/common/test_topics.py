"""The topics that a platform is made of."""

import pytest

from libs.common import topics
from libs.common.topics import RECORD_BYTES_MAX, TopicSpec, topic_specs

LANE_TOPICS = {*topics.SUBSCRIBED, topics.LANES, topics.STREAMS}
COMPACTED = {
    topics.RESOURCES,
    topics.CIRCUITS,
    topics.LANES,
    topics.STREAMS,
    topics.INSTANCES,
    topics.METRICS,
}
DAY_MS = 86_400_000


def by_name(*, embedded: bool = False) -> dict[str, TopicSpec]:
    return {spec.name: spec for spec in topic_specs(embedded=embedded)}


@pytest.mark.parametrize("embedded", [True, False])
def test_a_lane_has_the_same_partition_number_on_every_topic_that_knows_it(
    embedded: bool,
) -> None:
    specs = by_name(embedded=embedded)
    assert len({specs[name].partitions for name in LANE_TOPICS}) == 1


@pytest.mark.parametrize("embedded", [True, False])
def test_resources_and_instances_have_one_partition(embedded: bool) -> None:
    specs = by_name(embedded=embedded)
    assert (specs[topics.RESOURCES].partitions, specs[topics.INSTANCES].partitions) == (1, 1)


def test_names_are_unique_and_all_have_the_prefix() -> None:
    names = [spec.name for spec in topic_specs(prefix="blue-")]
    assert len(set(names)) == len(names)
    assert {name.removeprefix("blue-") for name in names} == set(by_name())
    assert all(name.startswith("blue-") for name in names)


def test_an_embedded_platform_has_the_same_topics() -> None:
    assert set(by_name(embedded=True)) == set(by_name())


def test_tables_are_compacted_and_nothing_else_is() -> None:
    found = {name for name, spec in by_name().items() if spec.config["cleanup.policy"] == "compact"}
    assert found == COMPACTED


def test_events_are_kept_for_as_long_as_their_class_says() -> None:
    specs = by_name()
    kept_ms = {
        name: specs[topics.subscribed(name)].config["retention.ms"] for name in topics.RETENTION_S
    }
    assert kept_ms == {
        "1h": "3600000",
        "1d": str(DAY_MS),
        "3d": str(3 * DAY_MS),
        "5d": str(5 * DAY_MS),
        "7d": str(7 * DAY_MS),
    }
    assert specs[topics.PUBLISHED].config["retention.ms"] == str(7 * DAY_MS)
    assert specs[topics.STATUS].config["retention.ms"] == str(8 * DAY_MS)


def test_retention_classes_are_those_that_have_a_topic() -> None:
    assert tuple(topics.RETENTION_S) == topics.RETENTION_CLASSES
    assert topics.RETENTION_CLASS_DEFAULT in topics.RETENTION_CLASSES
    assert set(topics.SUBSCRIBED) <= set(by_name())


def test_a_record_within_its_limit_fits_every_topic_on_its_way() -> None:
    assert topics.PUBLISHED_BYTES_MAX < topics.COPIED_BYTES_MAX < RECORD_BYTES_MAX
    limits = {spec.config["max.message.bytes"] for spec in by_name().values()}
    assert limits == {str(RECORD_BYTES_MAX)}
