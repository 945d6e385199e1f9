"""Where a subscription's events go over time: one entry per change of its retention class.

Events that were published before a change still go where the entry before it says, so an entry
outlives the events that it may place: they are gone from `published` after seven days.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from libs.common import clock
from libs.common.errors import Conflict
from libs.common.resources import Placement

KEPT: Final = timedelta(days=8)
NEWEST_KEPT: Final = 2
PLACEMENTS_MAX: Final = 64

ORDER: Final = "none"


def after_change(
    previous: Sequence[Placement], *, retention_class: str, version: int, now: datetime
) -> list[Placement]:
    """The placements of a subscription from the document `version` on.

    `previous` are those of the document before, also of a deleted one. Raises Conflict when the
    class was changed too often within eight days.
    """
    newest = previous[-1] if previous else None
    if newest is not None and newest.retention_class == retention_class:
        return _kept(previous, now)
    added = Placement(
        after=version, retention_class=retention_class, order=ORDER, at=clock.to_text(now)
    )
    placements = _kept([*previous, added], now)
    if len(placements) > PLACEMENTS_MAX:
        raise Conflict(
            f"eventRetentionTime was changed more than {PLACEMENTS_MAX} times within eight days; "
            "try again tomorrow. Nothing was applied."
        )
    return placements


def _kept(placements: Sequence[Placement], now: datetime) -> list[Placement]:
    """Without the entries whose successor has been in force for eight days."""
    first = 0
    while first < len(placements) - NEWEST_KEPT and _is_old(placements[first + 1], now):
        first += 1
    return list(placements[first:])


def _is_old(placement: Placement, now: datetime) -> bool:
    return bool(placement.at) and now - clock.from_text(placement.at) > KEPT
