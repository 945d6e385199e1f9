"""What a listener decides: what is a repeat, when to connect again, when to give way. Pure.

The server ends a stream in an orderly way when it stops, when the subscription changes, and when
somebody else opens the same stream. Whoever opens it again in the last case cuts the other off, who
does the same: so a listener that was cut out stops, and says so.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

DELAY_S_MIN: Final = 0.5
DELAY_S_MAX: Final = 30.0
REPEATS_LOOKED_BACK: Final = 10_000


class Next(Enum):
    """What follows after the end of a stream."""

    AGAIN = auto()
    """Connect again at once."""
    LATER = auto()
    """Connect again after a pause."""
    LOOK = auto()
    """See what has become of the subscription."""
    GIVE_WAY = auto()
    """Stop: another connection has the stream, or somebody ended it on purpose."""


_AFTER: Final = {
    "enough": Next.AGAIN,
    "subscription_changed": Next.LOOK,
    "cut_out": Next.GIVE_WAY,
}


def after_end(reason: str | None) -> Next:
    """What to do after the server ended the stream for a reason, or without saying why."""
    return _AFTER.get(reason or "", Next.LATER)


def delay_s(failures: int, *, wished_s: float | None = None) -> float:
    """Seconds before the next attempt, after so many failed ones in a row, at least one."""
    own_s = min(DELAY_S_MIN * 2.0 ** min(failures - 1, 30), DELAY_S_MAX)
    return own_s if wished_s is None else min(max(own_s, wished_s), DELAY_S_MAX)


@dataclass(slots=True)
class Seen:
    """The ids of the last events, by which repeats are told."""

    most: int = REPEATS_LOOKED_BACK
    _ids: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def is_new(self, event_id: str) -> bool:
        """Notes an id; False when it is among the last ones. Events without id are all new."""
        if not event_id:
            return True
        if event_id in self._ids:
            return False
        self._ids[event_id] = None
        if len(self._ids) > self.most:
            self._ids.popitem(last=False)
        return True


@dataclass(slots=True)
class Tally:
    """What a listener has seen so far."""

    wanted: int | None = None
    """How many events it is to show; None for as many as come."""
    shown: int = 0
    repeats: int = 0
    connections: int = 0

    @property
    def left(self) -> int | None:
        """How many events are still to come; None when nobody counts."""
        return None if self.wanted is None else self.wanted - self.shown

    @property
    def is_enough(self) -> bool:
        """Whether all the wanted events have come."""
        return self.left is not None and self.left <= 0

    def __str__(self) -> str:
        """For a person."""
        again = max(self.connections - 1, 0)
        return (
            f"{_counted(self.shown, 'event')}, {_counted(self.repeats, 'repeat')} left out, "
            f"connected again {_counted(again, 'time')}."
        )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
