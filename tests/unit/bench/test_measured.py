"""Runs: what a report and arrivals mean, and what several runs say together."""

import pytest

from bench import measured, schedule
from bench.figures import Latency
from bench.load import Report
from bench.measured import Run

MS = 1_000_000
START = 1_000 * MS
RATE = 100.0


def report(sent_ms: list[int], answered_ms: list[int], *, stored: int | None = None) -> Report:
    count = sum(1 for moment in answered_ms if moment)
    return Report(
        start_ns=START,
        sent_ns=[START + moment * MS for moment in sent_ms],
        answered_ns=[START + moment * MS if moment else 0 for moment in answered_ms],
        statuses={201: count if stored is None else stored},
        cpu_s=0.1,
    )


def delivered(found: Report, arrivals_ms: dict[int, int]) -> Run:
    arrivals = [(number, START + moment * MS) for number, moment in arrivals_ms.items()]
    return measured.delivered(found, arrivals, rate=RATE, cpu={}, load_average=1.0)


def run(*, p95: float = 1.0, errors: int = 0, behind: str | None = None) -> Run:
    return Run(
        per_second=RATE,
        latency_ms=Latency(p50=1.0, p95=p95, p99=9.0),
        events=100,
        errors=errors,
        behind=behind,
        cpu_s_per_1000={"kafka": 0.5},
        load_average=1.0,
    )


def test_latency_counts_from_the_intended_moment_and_not_from_the_late_send() -> None:
    found = delivered(report([0, 40, 41], [5, 45, 46]), {0: 7, 1: 47, 2: 48})
    assert found.latency_ms.p50 == 28.0
    assert found.latency_ms.p99 == 37.0


def test_an_event_that_never_came_is_an_error() -> None:
    found = delivered(report([0, 10, 20], [5, 15, 25]), {0: 7, 2: 27})
    assert (found.errors, found.duplicates) == (1, 0)


def test_an_event_that_was_refused_is_an_error() -> None:
    assert delivered(report([0, 10], [5, 15], stored=1), {0: 7, 1: 17}).errors == 1


def test_the_first_of_two_arrivals_counts() -> None:
    found = measured.delivered(
        report([0], [5]),
        [(0, START + 7 * MS), (0, START + 900 * MS)],
        rate=RATE,
        cpu={},
        load_average=1.0,
    )
    assert (found.latency_ms.p99, found.duplicates, found.errors) == (7.0, 1, 0)


def test_a_run_without_any_arrival_cannot_be_measured() -> None:
    with pytest.raises(ValueError, match="nothing was delivered"):
        delivered(report([0], [5]), {})


def test_throughput_counts_stored_events_only() -> None:
    found = measured.published(
        report([0, 0, 0, 0], [500, 600, 1_000, 0], stored=2), cpu={}, load_average=1.0
    )
    assert found.per_second == 2.0
    assert found.errors == 2


def test_cpu_time_is_per_thousand_events_and_idle_processes_are_left_out() -> None:
    found = measured.cpu_per_1000(
        {"kafka": 10.0, "sink": 1.0}, {"kafka": 11.0, "sink": 1.0}, events=500
    )
    assert found == {"kafka": 2.0}


def test_a_summary_takes_medians_and_adds_errors_up() -> None:
    found = measured.summary([run(p95=9.0, errors=1), run(p95=1.0), run(p95=4.0, errors=2)])
    assert (found["p95Ms"], found["errors"]) == (4.0, 3)
    assert found["cpuSecondsPer1000"] == {"kafka": 0.5}
    assert [each["errors"] for each in found["runs"]] == [1, 0, 2]


def test_errors_and_a_late_generator_are_problems_that_name_their_run() -> None:
    found = measured.problems("platform", [run(), run(errors=3), run(behind="sent 12 ms late")])
    assert found == [
        "platform, run 2: 3 of 100 events failed",
        "platform, run 3: the generator sent 12 ms late",
    ]


def test_good_runs_have_no_problems() -> None:
    sent = [round(number * 1_000 / RATE) for number in range(50)]
    found = delivered(
        report(sent, [moment + 2 for moment in sent]),
        {number: moment + 3 for number, moment in enumerate(sent)},
    )
    assert found.per_second == pytest.approx(RATE)
    assert found.latency_ms.p95 == 3.0
    assert schedule.NS_PER_S == 1_000 * MS
    assert measured.problems("platform", [found]) == []
