"""When requests are to be sent, and whether they were. Pure; times in nanoseconds.

An open-loop generator sends by the clock and not when an answer has come. A latency counts from the
moment at which the request was to be sent: so a system that stalls pays for every request that it
held up, and a generator that is late pays itself, which `fell_behind` tells.
"""

from collections.abc import Sequence
from typing import Final

from bench.figures import NS_PER_MS, percentile

NS_PER_S: Final = 1_000_000_000
LATE_MS_MAX: Final = 10.0
"""A generator whose 95th percentile of lateness is above has fallen behind."""

RATE_SHARE_MIN: Final = 0.98
"""So has one that sent fewer requests a second than this share of what was asked for."""


def intended_ns(sequence: int, *, rate: float, start_ns: int) -> int:
    """When request number `sequence` (from 0) of `rate` a second is to be sent."""
    return start_ns + int(sequence * NS_PER_S / rate)


def due(now_ns: int, *, rate: float, start_ns: int, total: int) -> int:
    """How many of `total` requests are to have been sent by now."""
    if now_ns < start_ns:
        return 0
    return min(total, int((now_ns - start_ns) * rate / NS_PER_S) + 1)


def lateness_ns(sent_ns: Sequence[int], *, rate: float, start_ns: int) -> list[int]:
    """How much later than intended each request was sent."""
    return [
        sent - intended_ns(sequence, rate=rate, start_ns=start_ns)
        for sequence, sent in enumerate(sent_ns)
    ]


def achieved_rate(sent_ns: Sequence[int], *, start_ns: int) -> float:
    """Requests a second from the start to the last one sent."""
    if not sent_ns or sent_ns[-1] <= start_ns:
        return 0.0
    return (len(sent_ns) - 1) * NS_PER_S / (sent_ns[-1] - start_ns)


def fell_behind(sent_ns: Sequence[int], *, rate: float, start_ns: int) -> str | None:
    """In words, how the generator missed its schedule; None when it kept it."""
    achieved = achieved_rate(sent_ns, start_ns=start_ns)
    if achieved < rate * RATE_SHARE_MIN:
        return f"sent {achieved:.0f} requests/s instead of {rate:.0f}"
    late_ms = percentile(sorted(lateness_ns(sent_ns, rate=rate, start_ns=start_ns)), 95) / NS_PER_MS
    if late_ms > LATE_MS_MAX:
        return f"sent {late_ms:.1f} ms late (p95); at most {LATE_MS_MAX:.0f} ms are accepted"
    return None
