"""Where reading begins, and what no code can read."""

import pytest

from libs.common.errors import PermanentError
from libs.common.partitions import CommittedOffset
from services.multiplexer.domain.parsing import Poison, Readable, parse
from services.multiplexer.domain.position import CommitNote, note_text, start_offset

NOW = CommitNote(topic_id="t1", subscribed_partitions=4)
OLDER = CommitNote(topic_id="older", subscribed_partitions=4)


@pytest.mark.parametrize(
    ("found", "start"),
    [
        (CommittedOffset(None, "", 7, 99), 7),
        (CommittedOffset(50, note_text(NOW), 7, 99), 50),
        (CommittedOffset(5, note_text(NOW), 7, 99), 7),
        (CommittedOffset(50, note_text(NOW), 7, 49), 7),
        (CommittedOffset(50, note_text(OLDER), 0, 99), 0),
    ],
    ids=["first start", "goes on", "trimmed meanwhile", "cut off", "topic created again"],
)
def test_reading_begins_where_the_group_stopped_in_this_topic(
    found: CommittedOffset, start: int
) -> None:
    assert start_offset(found, now=NOW) == start


def test_a_changed_partition_count_stops_the_start() -> None:
    text = note_text(CommitNote(topic_id="t1", subscribed_partitions=8))
    with pytest.raises(PermanentError, match="fixed at creation"):
        start_offset(CommittedOffset(1, text, 0, 9), now=NOW)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"not json",
        b"[]",
        b'{"uuid": "x"}',
        (
            b'{"uuid":"no-uuid","environment":"e","publisherId":"p","publishedAt":"2026-11-20T10:00:00Z",'
            b'"orderingKey":"k","resourcesOffset":1,"event":{"id":"1","type":"t"}}'
        ),
        (
            b'{"uuid":"0193b1c0-0000-7000-8000-000000000001","environment":"e","publisherId":"p",'
            b'"publishedAt":"yesterday","orderingKey":"k","resourcesOffset":1,'
            b'"event":{"id":"1","type":"t"}}'
        ),
        (
            b'{"uuid":"0193b1c0-0000-7000-8000-000000000001","environment":"e","publisherId":"p",'
            b'"publishedAt":"2026-11-20T10:00:00Z","orderingKey":"k","resourcesOffset":1,"event":{}}'
        ),
        b"\xff\xfe",
    ],
)
def test_what_cannot_be_read_is_named_and_never_raises(value: bytes | None) -> None:
    found = parse(value)
    assert isinstance(found, Poison)
    assert found.reason


def test_unknown_fields_do_not_disturb() -> None:
    found = parse(
        b'{"uuid":"0193b1c0-0000-7000-8000-000000000001","environment":"e","publisherId":"p",'
        b'"publishedAt":"2026-11-20T10:00:00Z","orderingKey":"k","resourcesOffset":1,"new":[1],'
        b'"event":{"id":"1","type":"t","data":{"x":1}}}'
    )
    assert isinstance(found, Readable)
    assert found.head.type == "t"
