"""Rows as a table and as JSON."""

import json

import pytest

from bench.result import Bound, Goal, Row, as_json, judged, table, unmeasured

AT_LEAST = Goal(Bound.AT_LEAST, 0.6)
AT_MOST = Goal(Bound.AT_MOST, 1.5)


def row(*problems: str, value: float = 3.0, floor: float = 4.0, goal: Goal = AT_LEAST) -> Row:
    return judged(
        "publish-ack",
        value=value,
        floor=floor,
        unit="requests/s",
        goal=goal,
        problems=problems,
        detail={"value": {"errors": 0}},
    )


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [(AT_LEAST, 6.0, True), (AT_LEAST, 5.9, False), (AT_MOST, 15.0, True), (AT_MOST, 15.1, False)],
)
def test_a_goal_is_met_up_to_its_bound(goal: Goal, value: float, met: bool) -> None:
    assert row(value=value, floor=10.0, goal=goal).met is met


def test_the_ratio_is_of_value_to_floor() -> None:
    assert row(value=1.0, floor=3.0).ratio == 0.333


def test_a_row_with_problems_never_meets_its_goal() -> None:
    found = row("platform, run 1: 3 of 10 events failed", value=100.0)
    assert not found.met
    assert found.detail["problems"] == ["platform, run 1: 3 of 10 events failed"]


def test_the_json_has_one_object_a_row_with_all_its_fields() -> None:
    found = json.loads(as_json([row(), row("late")]))
    assert [entry["met"] for entry in found] == [True, False]
    assert found[0] == {
        "row": "publish-ack",
        "value": 3.0,
        "unit": "requests/s",
        "floor": 4.0,
        "ratio": 0.75,
        "goal": "ratio >= 0.6",
        "met": True,
        "detail": {"problems": [], "value": {"errors": 0}},
    }


def test_a_row_that_could_not_be_measured_says_why_and_has_no_figures() -> None:
    missing = unmeasured("callback-200", unit="ms p95", goal=AT_MOST, reason="no Kafka")
    (found,) = json.loads(as_json([missing]))
    assert (found["value"], found["floor"], found["ratio"], found["met"]) == (
        None,
        None,
        None,
        False,
    )
    assert "callback-200: not measured: no Kafka" in table([missing])


def test_the_columns_of_the_table_are_aligned() -> None:
    other = unmeasured("a-row-with-a-long-name", unit="ms p95", goal=AT_MOST, reason="x")
    head, rule, first, second, *_ = table([row(value=12_345.678), other]).splitlines()
    assert head.index("goal") == first.index("ratio >=") == second.index("ratio <=")
    assert set(rule) == {"-", " "}
    assert "12,345.68" in first
    assert second.split()[1:3] == ["-", "-"]


def test_problems_stand_below_the_table() -> None:
    assert table([row("the generator was late")]).splitlines()[-1] == (
        "publish-ack: the generator was late"
    )
