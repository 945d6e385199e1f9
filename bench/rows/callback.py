"""Rows `callback-200` and `callback-1000`: from publishing to the callback, by the clock.

One subscription, events of 1 kB. The floor is a bare pipeline of three processes on the same Kafka
(`bench/floor`): publish with ack, copy, POST with a status record an event and a checkpoint every
200 ms. Both sides are up all the time, one of them has work.
"""

import os
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from bench import figures, measured, processes
from bench.floor import pipeline
from bench.load import Plan
from bench.measured import Run
from bench.result import Bound, Goal, Row, judged
from bench.rows.alternate import alternate
from bench.stage import FLOOR_OFFSET, Stage
from deploy.local.ports import HOST

GOAL: Final = Goal(Bound.AT_MOST, 1.5)
UNIT: Final = "ms p95"
BODY_BYTES: Final = 1_024
CONNECTIONS: Final = 64
WARM_UP_S: Final = 8.0
RUN_S: Final = 10.0
SERVICES: Final = ("producer", "multiplexer", "delivery", "kafka")


def measure(stage: Stage, *, name: str, rate: float) -> Row:
    """The row at a rate, in events a second."""
    real = plan_of(stage, event_type=f"bench.{name}.v1", name=name, rate=rate)
    bare = msgspec.structs.replace(real, port=stage.port(FLOOR_OFFSET), path="/publish", headers={})
    pids = {each: stage.endpoints.pids[each] for each in SERVICES}
    with pipeline.delivering(stage) as floor_pids:
        floor_pids["kafka"] = pids["kafka"]
        both = alternate(
            partial(one_run, stage, real, pids),
            partial(one_run, stage, bare, floor_pids),
            warm_up_s=WARM_UP_S,
            run_s=RUN_S,
        )
    return judged(
        name,
        value=figures.middle([run.latency_ms.p95 for run in both.value]),
        floor=figures.middle([run.latency_ms.p95 for run in both.floor]),
        unit=UNIT,
        goal=GOAL,
        problems=both.problems,
        detail=both.detail,
    )


def plan_of(stage: Stage, *, event_type: str, name: str, rate: float) -> Plan:
    """What is sent to the platform, which has a subscription to it from here on."""
    publisher = stage.subscribe(f"bench-{name}", event_type)
    return Plan(
        host=HOST,
        port=stage.ports.api("producer"),
        path=f"/v1/{stage.endpoints.environment}/events",
        headers={"Authorization": f"Bearer {stage.token(publisher)}"},
        event_type=event_type,
        run=0,
        body_bytes=BODY_BYTES,
        connections=CONNECTIONS,
        duration_s=RUN_S,
        rate=rate,
    )


def one_run(stage: Stage, plan: Plan, pids: Mapping[str, int], run_s: float) -> Run:
    """Sends for so many seconds and waits until everything has arrived."""
    run, rate = stage.next_run(), plan.rate or 0.0
    watched = {**pids, "sink": stage.sink_pid}
    before = processes.cpu_s(watched)
    report = processes.generate(msgspec.structs.replace(plan, run=run, duration_s=run_s))
    sent = len(report.sent_ns)
    arrivals = stage.arrivals(run, expected=sent)
    cpu = measured.cpu_per_1000(before, processes.cpu_s(watched), events=sent)
    return measured.delivered(report, arrivals, rate=rate, cpu=cpu, load_average=os.getloadavg()[0])
