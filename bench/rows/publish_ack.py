"""Row `publish-ack`: publish requests a second, each answered after Kafka's acknowledgement.

The producer is one that this row starts on topics of its own, which nobody reads: so what is
measured is the producer, and not how it shares the machine with its readers. It has one
subscription and takes a real token. The floor is a bare handler that only awaits the ack.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

import msgspec

from bench import figures, measured, processes
from bench.floor import pipeline
from bench.load import Plan
from bench.measured import Run
from bench.result import Bound, Goal, Row, judged
from bench.rows.alternate import alternate
from bench.stage import FLOOR_OFFSET, SERVICE_OFFSET, Stage
from deploy.local import probes
from deploy.local.ports import HOST, url
from deploy.local.programs import SERVICES, settings
from libs.common import clock, ids, records, topics
from libs.common.kafka import config
from libs.common.kafka.admin import create_topics
from libs.common.kafka.producer import AckProducer
from libs.common.resources import Kind, Resource, ResourceStatus, resource_key
from libs.common.settings import KafkaSettings

NAME: Final = "publish-ack"
GOAL: Final = Goal(Bound.AT_LEAST, 0.6)
UNIT: Final = "requests/s"
PREFIX: Final = "bench-publish-"
EVENT_TYPE: Final = "bench.publish.v1"
PUBLISHER: Final = "eni--bench--publisher"
BODY_BYTES: Final = 1_024
CONNECTIONS: Final = 32
WARM_UP_S: Final = 8.0
RUN_S: Final = 6.0


def measure(stage: Stage) -> Row:
    """The row."""
    real = Plan(
        host=HOST,
        port=stage.port(SERVICE_OFFSET),
        path=f"/v1/{stage.endpoints.environment}/events",
        headers={"Authorization": f"Bearer {stage.token(PUBLISHER)}"},
        event_type=EVENT_TYPE,
        run=0,
        body_bytes=BODY_BYTES,
        connections=CONNECTIONS,
        duration_s=RUN_S,
    )
    bare = msgspec.structs.replace(real, port=stage.port(FLOOR_OFFSET), path="/publish", headers={})
    kafka = {"kafka": stage.endpoints.pids["kafka"]}
    with producer(stage) as pids, pipeline.publishing(stage) as floor_pids:
        both = alternate(
            partial(one_run, real, {**pids, **kafka}),
            partial(one_run, bare, {**floor_pids, **kafka}),
            warm_up_s=WARM_UP_S,
            run_s=RUN_S,
        )
    return judged(
        NAME,
        value=figures.middle([run.per_second for run in both.value]),
        floor=figures.middle([run.per_second for run in both.floor]),
        unit=UNIT,
        goal=GOAL,
        problems=both.problems,
        detail=both.detail,
    )


def one_run(plan: Plan, pids: Mapping[str, int], run_s: float) -> Run:
    """Publishes for so many seconds."""
    before = processes.cpu_s(pids)
    report = processes.generate(msgspec.structs.replace(plan, duration_s=run_s))
    cpu = measured.cpu_per_1000(before, processes.cpu_s(pids), events=len(report.sent_ns))
    return measured.published(report, cpu=cpu, load_average=os.getloadavg()[0])


@contextmanager
def producer(stage: Stage) -> Iterator[dict[str, int]]:
    """A producer on topics of its own, which know one subscription; its process id by name."""
    kafka = stage.kafka.model_copy(update={"topic_prefix": PREFIX})
    asyncio.run(prepare(kafka, environment=stage.endpoints.environment))
    service = next(each for each in SERVICES if each.name == "producer")
    port = stage.port(SERVICE_OFFSET)
    prefix = service.variable_prefix
    ready_url = f"{url(port + 1)}/readyz"
    started = processes.module(
        "services.producer",
        log=stage.log("producer"),
        ready=lambda: probes.http_missing(ready_url),
        environment={
            **settings(service, stage.ports),
            f"{prefix}INSTANCE": "producer-bench",
            f"{prefix}PORT": str(port),
            f"{prefix}MANAGEMENT_PORT": str(port + 1),
            f"{prefix}KAFKA__TOPIC_PREFIX": PREFIX,
        },
    )
    with processes.running([started]) as pids:
        yield pids


async def prepare(kafka: KafkaSettings, *, environment: str) -> None:
    """Creates the topics that a producer needs and stores one subscription."""
    wanted = {PREFIX + name for name in (topics.PUBLISHED, topics.RESOURCES, topics.INSTANCES)}
    specs = topics.topic_specs(prefix=PREFIX, embedded=True)
    await create_topics(kafka, [spec for spec in specs if spec.name in wanted])
    found = subscription(environment)
    key = resource_key(Kind.SUBSCRIPTION, environment, found.id).encode()
    async with AckProducer(config.producer(kafka, client_id="bench")) as log:
        await log.send(PREFIX + topics.RESOURCES, key=key, value=records.encode(found))


def subscription(environment: str) -> Resource:
    """A subscription to the row's event type, by which its publisher may publish it."""
    subscriber = "eni--bench--subscriber"
    subscription_id = ids.subscription_id(
        environment=environment, event_type=EVENT_TYPE, subscriber_id=subscriber
    )
    now = clock.to_text(clock.utc_now())
    return Resource(
        kind=Kind.SUBSCRIPTION,
        environment=environment,
        id=subscription_id,
        version=0,
        created_at=now,
        updated_at=now,
        owner=subscriber,
        spec={
            "subscriptionId": subscription_id,
            "subscriberId": subscriber,
            "publisherId": PUBLISHER,
            "type": EVENT_TYPE,
            "deliveryType": "callback",
            "callback": f"{url(9)}/",
        },
        status=ResourceStatus(incarnation=0),
    )
