"""Percentiles and medians of what was measured. Pure."""

from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec

NS_PER_MS: Final = 1_000_000


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """How long things took, in milliseconds."""

    p50: float
    p95: float
    p99: float


def percentile(ascending: Sequence[float], percent: float) -> float:
    """Nearest-rank percentile; raises ValueError without a value, or outside 0 < percent <= 100."""
    if not ascending or not 0 < percent <= 100:
        raise ValueError(f"no {percent}th percentile of {len(ascending)} values")
    rank = -(-len(ascending) * percent // 100)
    return ascending[int(rank) - 1]


def latency(durations_ns: Sequence[int]) -> Latency:
    """The percentiles of at least one duration, in any order."""
    ascending = sorted(durations_ns)
    return Latency(
        p50=milliseconds(percentile(ascending, 50)),
        p95=milliseconds(percentile(ascending, 95)),
        p99=milliseconds(percentile(ascending, 99)),
    )


def milliseconds(duration_ns: float) -> float:
    """To the microsecond."""
    return round(duration_ns / NS_PER_MS, 3)


def middle(values: Sequence[float]) -> float:
    """The median of the values of several runs, to three places."""
    return round(median(values), 3)
