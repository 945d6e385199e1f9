"""Starts the processes of the floor."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from bench import processes
from bench.floor import topics
from bench.stage import FLOOR_OFFSET, Stage
from deploy.local import probes
from deploy.local.ports import HOST
from deploy.local.process import ManagedProcess
from libs.common.kafka.admin import create_topics


@contextmanager
def publishing(stage: Stage) -> Iterator[dict[str, int]]:
    """The bare handler alone, on a topic that nobody reads; process ids by name."""
    create(stage)
    with processes.running([publisher(stage, topics.ACKNOWLEDGED)]) as pids:
        yield pids


@contextmanager
def delivering(stage: Stage) -> Iterator[dict[str, int]]:
    """The whole pipeline up to the sink; process ids by name."""
    create(stage)
    kafka = ("--kafka", stage.endpoints.kafka)
    copy = processes.saying_ready(
        "bench.floor.copy", *kafka, log=stage.log("copy"), line=topics.READY
    )
    deliver = processes.saying_ready(
        "bench.floor.deliver",
        *(*kafka, "--callback", stage.callback),
        log=stage.log("deliver"),
        line=topics.READY,
    )
    with processes.running([deliver, copy, publisher(stage, topics.PUBLISHED)]) as pids:
        yield pids


def create(stage: Stage) -> None:
    """The topics of the floor."""
    asyncio.run(create_topics(stage.kafka, topics.specs()))


def publisher(stage: Stage, topic: str) -> ManagedProcess:
    """The bare handler."""
    port = stage.port(FLOOR_OFFSET)
    return processes.module(
        "bench.floor.publish",
        *("--host", HOST, "--port", str(port)),
        *("--kafka", stage.endpoints.kafka, "--topic", topic),
        log=stage.log("publish"),
        ready=lambda: None if probes.is_open(port) else "its port is not open",
    )
