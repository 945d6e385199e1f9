"""Runs the platform and its floor in turn, so that both meet the same moments of a busy machine."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bench import measured
from bench.measured import Run

REPEATS: Final = 3

Side = Callable[[float], Run]
"""Measures for so many seconds."""


class Both(NamedTuple):
    """The runs of both sides."""

    value: list[Run]
    floor: list[Run]

    @property
    def problems(self) -> list[str]:
        """Why they do not count, in words."""
        return measured.problems("platform", self.value) + measured.problems("floor", self.floor)

    @property
    def detail(self) -> dict[str, Any]:
        """Medians and runs."""
        return {"value": measured.summary(self.value), "floor": measured.summary(self.floor)}


def alternate(value: Side, floor: Side, *, warm_up_s: float, run_s: float) -> Both:
    """Warms both up, then measures them REPEATS times each, in turn."""
    value(warm_up_s)
    floor(warm_up_s)
    both = Both([], [])
    for _ in range(REPEATS):
        both.value.append(value(run_s))
        both.floor.append(floor(run_s))
    return both
