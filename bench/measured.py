"""One run of one side, and several runs of both put together. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bench import figures, schedule
from bench.figures import Latency
from bench.load import Report


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What one side did in one run."""

    per_second: float
    """Events a second: answered (closed loop) or sent (open loop)."""
    latency_ms: Latency
    events: int
    errors: int
    """Refused, unanswered or never delivered."""
    duplicates: int = 0
    behind: str | None = None
    """How the generator missed its schedule."""
    lateness_ms_p95: float | None = None
    """How late the generator was."""
    cpu_s_per_1000: dict[str, float]
    """CPU seconds per 1,000 events, by process."""
    load_average: float


def cpu_per_1000(
    before: Mapping[str, float], after: Mapping[str, float], *, events: int
) -> dict[str, float]:
    """CPU seconds per 1,000 events of each process that used any."""
    used = {name: after[name] - before.get(name, 0.0) for name in after}
    return {name: round(s * 1_000 / events, 4) for name, s in used.items() if s > 0 and events}


def published(report: Report, *, cpu: dict[str, float], load_average: float) -> Run:
    """A run in which every connection sent as soon as it had its answer."""
    durations = [
        answered - sent
        for sent, answered in zip(report.sent_ns, report.answered_ns, strict=True)
        if answered
    ]
    if not durations:
        raise ValueError("nothing was answered")
    stored = report.statuses.get(201, 0)
    seconds = (max(report.answered_ns) - report.sent_ns[0]) / schedule.NS_PER_S
    return Run(
        per_second=round(stored / seconds, 1),
        latency_ms=figures.latency(durations),
        events=len(report.sent_ns),
        errors=len(report.sent_ns) - stored,
        cpu_s_per_1000=cpu,
        load_average=load_average,
    )


def delivered(
    report: Report,
    arrivals: Sequence[tuple[int, int]],
    *,
    rate: float,
    cpu: dict[str, float],
    load_average: float,
) -> Run:
    """A run by the clock; latency is from the intended moment to the first callback."""
    first: dict[int, int] = {}
    for sequence, arrived_ns in arrivals:
        first.setdefault(sequence, arrived_ns)
    durations = [
        arrived - schedule.intended_ns(sequence, rate=rate, start_ns=report.start_ns)
        for sequence, arrived in first.items()
    ]
    if not durations:
        raise ValueError("nothing was delivered")
    late = schedule.lateness_ns(report.sent_ns, rate=rate, start_ns=report.start_ns)
    sent = len(report.sent_ns)
    return Run(
        per_second=round(schedule.achieved_rate(report.sent_ns, start_ns=report.start_ns), 1),
        latency_ms=figures.latency(durations),
        events=sent,
        errors=max(sent - report.statuses.get(201, 0), sent - len(first)),
        duplicates=len(arrivals) - len(first),
        behind=schedule.fell_behind(report.sent_ns, rate=rate, start_ns=report.start_ns),
        lateness_ms_p95=figures.milliseconds(figures.percentile(sorted(late), 95)),
        cpu_s_per_1000=cpu,
        load_average=load_average,
    )


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """The medians of one side's runs, and the runs themselves."""
    names = sorted({name for run in runs for name in run.cpu_s_per_1000})
    return {
        "perSecond": figures.middle([run.per_second for run in runs]),
        "p50Ms": figures.middle([run.latency_ms.p50 for run in runs]),
        "p95Ms": figures.middle([run.latency_ms.p95 for run in runs]),
        "p99Ms": figures.middle([run.latency_ms.p99 for run in runs]),
        "errors": sum(run.errors for run in runs),
        "duplicates": sum(run.duplicates for run in runs),
        "cpuSecondsPer1000": {
            name: figures.middle([run.cpu_s_per_1000.get(name, 0.0) for run in runs])
            for name in names
        },
        "loadAverage": figures.middle([run.load_average for run in runs]),
        "runs": [msgspec.to_builtins(run) for run in runs],
    }


def problems(side: str, runs: Sequence[Run]) -> list[str]:
    """Why the runs of a side do not count, in words."""
    found = [
        f"{side}, run {number}: {run.errors} of {run.events} events failed"
        for number, run in enumerate(runs, start=1)
        if run.errors
    ]
    return found + [
        f"{side}, run {number}: the generator {run.behind}"
        for number, run in enumerate(runs, start=1)
        if run.behind
    ]
