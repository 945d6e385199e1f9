"""The rows of the table, each in a module of its own."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from bench.result import Goal, Row
from bench.rows import callback, publish_ack
from bench.stage import Stage


class Entry(NamedTuple):
    """How a row is measured, and what it says when it cannot be."""

    measure: Callable[[Stage], Row]
    unit: str
    goal: Goal


def _callback(name: str, rate: float) -> Entry:
    return Entry(partial(callback.measure, name=name, rate=rate), callback.UNIT, callback.GOAL)


MAIN: Final[Mapping[str, Entry]] = {
    publish_ack.NAME: Entry(publish_ack.measure, publish_ack.UNIT, publish_ack.GOAL),
    "callback-200": _callback("callback-200", 200.0),
    "callback-1000": _callback("callback-1000", 1_000.0),
}
"""Rows by name, in the order in which they run."""
