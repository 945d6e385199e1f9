"""What a row says, as a table for people and as JSON for programs. Pure."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec


class Bound(StrEnum):
    """On which side of its goal a ratio should be."""

    AT_LEAST = ">="
    AT_MOST = "<="


class Goal(msgspec.Struct, frozen=True):
    """What the ratio of value to floor should be."""

    bound: Bound
    ratio: float

    def is_met(self, ratio: float) -> bool:
        """Whether a ratio is good enough."""
        return ratio >= self.ratio if self.bound is Bound.AT_LEAST else ratio <= self.ratio

    def __str__(self) -> str:
        return f"ratio {self.bound} {self.ratio:g}"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table; value, floor and ratio are None when nothing could be measured."""

    row: str
    value: float | None
    unit: str
    floor: float | None
    ratio: float | None
    goal: str
    met: bool
    detail: dict[str, Any]
    """Everything else that was measured; `problems` lists in words why a row does not count."""


_COLUMNS = ("row", "value", "floor", "unit", "ratio", "goal", "met")
_RIGHT = frozenset({"value", "floor", "ratio"})


def judged(  # noqa: PLR0913 - one argument for each field of a row
    name: str,
    *,
    value: float,
    floor: float,
    unit: str,
    goal: Goal,
    problems: Sequence[str],
    detail: dict[str, Any],
) -> Row:
    """The row of a measurement; one with problems does not meet its goal."""
    ratio = value / floor
    return Row(
        row=name,
        value=value,
        unit=unit,
        floor=floor,
        ratio=round(ratio, 3),
        goal=str(goal),
        met=goal.is_met(ratio) and not problems,
        detail={"problems": list(problems), **detail},
    )


def unmeasured(name: str, *, unit: str, goal: Goal, reason: str) -> Row:
    """The row of a measurement that could not be made."""
    return Row(
        row=name,
        value=None,
        unit=unit,
        floor=None,
        ratio=None,
        goal=str(goal),
        met=False,
        detail={"problems": [f"not measured: {reason}"]},
    )


def as_json(rows: Sequence[Row]) -> bytes:
    """The rows as an indented JSON list."""
    return msgspec.json.format(msgspec.json.encode(rows)) + b"\n"


def table(rows: Sequence[Row]) -> str:
    """The rows in aligned columns, then every problem in words."""
    cells = [list(_COLUMNS), *([_cell(row, name) for name in _COLUMNS] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_COLUMNS))]
    lines = ["  ".join(_aligned(line, widths)).rstrip() for line in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    problems = [f"{row.row}: {problem}" for row in rows for problem in row.detail["problems"]]
    return "\n".join([*lines, *problems])


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        text.rjust(width) if name in _RIGHT else text.ljust(width)
        for name, text, width in zip(_COLUMNS, line, widths, strict=True)
    ]


def _cell(row: Row, name: str) -> str:
    value = getattr(row, name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | int):
        return f"{value:,.2f}"
    return "-" if value is None else str(value)
