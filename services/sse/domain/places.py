"""Where a subscription's events are, and where a stream that never read them begins. Pure."""

from datetime import datetime, timedelta

from libs.common import clock, topics
from libs.common.ids import LaneId
from libs.common.partitions import partition_of
from libs.common.resources import Subscription
from services.sse.domain.claims import Place

CLOCKS_APART = timedelta(minutes=5)
"""Tolerated between the clocks of those who publish and of the control plane."""


def places_of(subscription: Subscription, *, partitions: int) -> dict[Place, datetime | None]:
    """The lanes of a subscription, newest first, and since when there may be events in each.

    None means since ever. An event's record has its time of publishing, which is after the
    placement that put it there was decided.
    """
    lane_id = LaneId(subscription.id)
    number = partition_of(lane_id.encode(), partitions)
    since: dict[Place, datetime | None] = {}
    for placement in subscription.placements:
        place = Place(topics.subscribed(placement.retention_class), number, lane_id)
        if place not in since:
            decided = clock.from_text(placement.at) - CLOCKS_APART if placement.at else None
            since[place] = decided
    return dict(reversed(since.items()))
