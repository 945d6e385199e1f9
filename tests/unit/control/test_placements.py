"""Placements remember where older events of a subscription go."""

from datetime import UTC, datetime, timedelta

import pytest

from libs.common.errors import Conflict
from libs.common.resources import Placement
from services.control.domain import placements

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)


def run(*changes: tuple[float, str], start: tuple[Placement, ...] = ()) -> list[Placement]:
    """Applies (day, class) changes one after the other, versions counting from 10."""
    found = list(start)
    for version, (day, retention_class) in enumerate(changes, start=10):
        found = placements.after_change(
            found,
            retention_class=retention_class,
            version=version,
            now=NOW + timedelta(days=day),
        )
    return found


def classes(found: list[Placement]) -> list[tuple[int, str]]:
    return [(placement.after, placement.retention_class) for placement in found]


def test_the_first_placement_begins_with_the_first_document() -> None:
    assert classes(run((0, "7d"))) == [(10, "7d")]


def test_a_document_of_the_same_class_adds_none() -> None:
    assert classes(run((0, "7d"), (1, "7d"))) == [(10, "7d")]


def test_every_change_of_the_class_adds_one() -> None:
    assert classes(run((0, "7d"), (1, "1h"), (2, "7d"))) == [(10, "7d"), (11, "1h"), (12, "7d")]


def test_an_entry_is_forgotten_when_its_successor_is_older_than_eight_days() -> None:
    assert classes(run((0, "7d"), (1, "1h"), (9.5, "1d"))) == [(11, "1h"), (12, "1d")]
    assert classes(run((0, "7d"), (1, "1h"), (8.5, "1d"))) == [(10, "7d"), (11, "1h"), (12, "1d")]


def test_the_newest_two_stay_whatever_their_age() -> None:
    assert classes(run((0, "7d"), (1, "1h"), (100, "1h"))) == [(10, "7d"), (11, "1h")]


def test_an_entry_without_a_time_is_kept() -> None:
    start = (
        Placement(after=1, retention_class="7d"),
        Placement(after=2, retention_class="1d"),
        Placement(after=3, retention_class="3d"),
    )
    assert len(run((100, "1h"), start=start)) == 4


def test_endless_changes_within_the_time_are_refused() -> None:
    alternating = tuple((0.0, ("7d", "1h")[number % 2]) for number in range(64))
    assert len(run(*alternating)) == 64
    with pytest.raises(Conflict, match="eventRetentionTime"):
        run(*alternating, (0, "7d"))
