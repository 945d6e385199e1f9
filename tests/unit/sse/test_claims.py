"""Who has a lane, by what was read of the topic `streams`."""

import pytest

from libs.common.ids import LaneId
from libs.common.records import Claim, StreamCheckpoint
from services.sse.domain.claims import NOBODY, Claims, Place

LANE = LaneId("lane")
WEEK = Place("subscribed-7d", 3, LANE)
DAY = Place("subscribed-1d", 3, LANE)


def claim() -> Claim:
    return Claim(lane_id=LANE, instance="sse-0", connection_id="c", at="2026-11-21T00:00:00.000Z")


def checkpoint(epoch: int, next_offset: int = 0) -> StreamCheckpoint:
    return StreamCheckpoint(lane_id=LANE, epoch=epoch, next_offset=next_offset)


def test_nobody_has_a_lane_that_was_never_claimed() -> None:
    assert Claims().epoch(LANE) == NOBODY


def test_the_highest_claim_has_the_lane_wherever_it_was_made() -> None:
    claims = Claims()
    assert claims.apply(WEEK.claim_key, claim(), 7) == LANE
    claims.apply(DAY.claim_key, claim(), 9)
    claims.apply(DAY.checkpoint_key(7), checkpoint(7), 12)
    assert claims.epoch(LANE) == 9


def test_a_claim_that_is_removed_counts_no_longer() -> None:
    claims = Claims()
    claims.apply(WEEK.claim_key, claim(), 7)
    claims.apply(WEEK.claim_key, None, 8)
    assert claims.epoch(LANE) == NOBODY


def test_what_a_former_owner_writes_later_covers_nothing() -> None:
    claims = Claims()
    claims.apply(WEEK.checkpoint_key(9), checkpoint(9, next_offset=50), 10)
    claims.apply(WEEK.checkpoint_key(7), checkpoint(7, next_offset=99), 11)
    found = claims.checkpoint(WEEK)
    assert found is not None
    assert found.next_offset == 50
    assert claims.checkpoint(DAY) is None


def test_former_epochs_are_named_until_they_are_removed() -> None:
    claims = Claims()
    for epoch in (7, 5, 9):
        claims.apply(WEEK.checkpoint_key(epoch), checkpoint(epoch), epoch)
    assert claims.epochs_below(WEEK, 9) == [5, 7]
    claims.apply(WEEK.checkpoint_key(5), None, 12)
    assert claims.epochs_below(WEEK, 9) == [7]


@pytest.mark.parametrize("key", ["", "subscribed-7d", "subscribed-7d/x/lane", "subscribed-7d/3"])
def test_a_key_that_is_none_is_an_error(key: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Claims().apply(key, None, 0)
