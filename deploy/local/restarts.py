"""When a process that ended by itself is started again. Pure."""

from dataclasses import dataclass
from typing import Final

DELAY_S_FIRST: Final = 0.5
DELAY_S_MAX: Final = 4.0
"""With the start itself below the 8 s for which a partition may stand still."""
STABLE_S: Final = 60.0
"""A process that ran this long starts over with the first delay."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """The recent history of one process."""

    failures: int = 0
    """Ends in a row, each within STABLE_S of its start."""
    started_at_s: float = 0.0
    due_at_s: float | None = None
    """When it is to be started again; None while it runs."""


def started(history: Restarts, *, now_s: float) -> Restarts:
    """The process was started."""
    return Restarts(failures=history.failures, started_at_s=now_s)


def ended(history: Restarts, *, now_s: float) -> Restarts:
    """The process ended: it is due after 0.5, 1, 2, 4 ... seconds, at most DELAY_S_MAX."""
    earlier = 0 if now_s - history.started_at_s >= STABLE_S else history.failures
    delay_s = min(DELAY_S_FIRST * 2.0 ** min(earlier, 16), DELAY_S_MAX)
    return Restarts(
        failures=earlier + 1, started_at_s=history.started_at_s, due_at_s=now_s + delay_s
    )
