"""Percentiles and medians of measurements."""

import pytest

from bench import figures


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [10.0, 20.0, 30.0, 40.0]
    assert figures.percentile(values, 50) == 20.0
    assert figures.percentile(values, 75) == 30.0
    assert figures.percentile(values, 76) == 40.0
    assert figures.percentile(values, 100) == 40.0


@pytest.mark.parametrize("percent", [1, 50, 95, 99, 100])
def test_every_percentile_of_one_value_is_that_value(percent: float) -> None:
    assert figures.percentile([7.0], percent) == 7.0


def test_of_a_hundred_values_the_99th_percentile_leaves_out_only_the_largest() -> None:
    assert figures.percentile(list(range(1, 101)), 99) == 99
    assert figures.percentile(list(range(1, 101)), 95) == 95


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1.0], 0), ([1.0], 101)])
def test_there_is_no_percentile_of_nothing_or_out_of_range(
    values: list[float], percent: float
) -> None:
    with pytest.raises(ValueError, match="percentile"):
        figures.percentile(values, percent)


def test_latencies_may_come_in_any_order_and_are_milliseconds() -> None:
    found = figures.latency([3_000_000, 1_000_000, 2_000_500])
    assert (found.p50, found.p95, found.p99) == (2.001, 3.0, 3.0)


def test_the_middle_of_an_odd_number_of_runs_is_one_of_them() -> None:
    assert figures.middle([9.0, 1.0, 5.0]) == 5.0
