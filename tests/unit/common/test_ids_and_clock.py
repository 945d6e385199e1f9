"""Identifiers and times as the wire has them."""

import hashlib
import re
import time
import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from libs.common import clock
from libs.common.ids import subscription_event_uuid, subscription_id, uuid7, uuid_bytes

MOMENTS = st.integers(min_value=0, max_value=2**53).map(
    lambda microseconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
)


def test_a_uuid7_has_version_and_variant_and_differs_each_time() -> None:
    made = [uuid.UUID(uuid7()) for _ in range(200)]
    assert {one.version for one in made} == {7}
    assert {one.variant for one in made} == {uuid.RFC_4122}
    assert len(set(made)) == len(made)


def test_uuid7s_sort_by_the_millisecond_they_were_made_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments_ms = [1, 2, 1_763_632_800_123, 1_763_632_800_124, 2**48 - 1]
    made = []
    for moment_ms in moments_ms:
        monkeypatch.setattr(time, "time_ns", lambda ms=moment_ms: ms * 1_000_000)
        made.append(uuid7())
    assert made == sorted(made)
    assert [uuid.UUID(one).int >> 80 for one in made] == moments_ms


def test_a_uuid7_carries_the_present() -> None:
    before_ms = time.time_ns() // 1_000_000
    carried_ms = uuid.UUID(uuid7()).int >> 80
    assert before_ms <= carried_ms <= time.time_ns() // 1_000_000


def test_a_subscription_id_is_the_sha1_of_environment_type_and_subscriber() -> None:
    found = subscription_id(
        environment="integration", event_type="orders.v1", subscriber_id="eni--shop--näh"
    )
    name = "integration--orders.v1--eni--shop--näh"
    assert found == hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    assert re.fullmatch("[0-9a-f]{40}", found)


def test_a_subscription_events_uuid_depends_on_both_its_inputs_and_on_nothing_else() -> None:
    first, second = uuid7(), uuid7()
    found = subscription_event_uuid(first, "a")
    assert found == subscription_event_uuid(first, "a")
    assert (
        len({found, subscription_event_uuid(first, "b"), subscription_event_uuid(second, "a")}) == 3
    )
    assert uuid.UUID(found).version == 5


def test_a_time_has_milliseconds_and_a_z() -> None:
    berlin = timezone(timedelta(hours=1))
    assert clock.to_text(datetime(2026, 11, 20, 11, 0, 0, 123_999, berlin)) == (
        "2026-11-20T10:00:00.123Z"
    )
    assert clock.to_text(datetime(2026, 11, 20, tzinfo=UTC)) == "2026-11-20T00:00:00.000Z"


@given(MOMENTS)
def test_a_time_survives_its_text_to_the_millisecond(moment: datetime) -> None:
    again = clock.from_text(clock.to_text(moment))
    assert timedelta(0) <= moment - again < timedelta(milliseconds=1)


@pytest.mark.parametrize("text", ["2026-11-20T10:00:00", "2026-11-20", "yesterday", ""])
def test_a_text_that_is_no_moment_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        clock.from_text(text)


def test_milliseconds_count_from_the_epoch() -> None:
    assert clock.to_ms(datetime(2026, 11, 20, 10, 0, 0, 123_000, UTC)) == 1_795_168_800_123


@example(datetime(2038, 2, 1, 0, 0, 0, 2_001, UTC))
@given(MOMENTS)
def test_milliseconds_are_those_of_the_text(moment: datetime) -> None:
    assert clock.to_ms(clock.from_text(clock.to_text(moment))) == clock.to_ms(moment)


def test_the_present_is_aware() -> None:
    assert clock.utc_now().utcoffset() == timedelta(0)


@given(namespace=st.uuids(), name=st.text())
def test_a_subscription_events_uuid_is_version_5_as_the_standard_says(
    namespace: uuid.UUID, name: str
) -> None:
    assert subscription_event_uuid(str(namespace), name) == str(uuid.uuid5(namespace, name))


@pytest.mark.parametrize("text", ["", "0193b1c0", "x" * 32, "0" * 34])
def test_what_is_no_uuid_has_no_bytes_of_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"UUID|hexadecimal"):
        uuid_bytes(text)
