"""Services as real processes on a real Kafka: start them, feed them, read what they wrote."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
from aiohttp import web

from deploy.local import ports
from libs.common import clock, ids, records
from libs.common.kafka import config, reader
from libs.common.kafka.admin import create_topics
from libs.common.kafka.producer import AckProducer, Stored
from libs.common.partitions import ConsumedRecord
from libs.common.resources import Kind, Resource, ResourceStatus, resource_key
from libs.common.settings import KafkaSettings
from libs.common.topics import PUBLISHED, RESOURCES, topic_specs
from tests.conftest import free_ports

ENVIRONMENT = "integration"
WAIT_S = 30.0


async def eventually(condition: Callable[[], Any], *, within_s: float = WAIT_S) -> Any:
    """The first true result of a condition; fails after a bounded time."""
    deadline_s = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline_s, "the condition did not come true in time"
        await asyncio.sleep(0.02)
    return found


_given: set[int] = set()


def free_port() -> int:
    """A port on which nothing listens, and that no other service of this run was given."""
    base = free_ports().base
    found = next(p for p in range(base, base + 100) if p not in _given and ports.can_listen(p))
    _given.add(found)
    return found


class Service:
    """One service process."""

    def __init__(self, name: str, kafka: KafkaSettings, log: Path, **settings: str) -> None:
        prefix = f"MERIDIAN_{name.upper()}_"
        self.name = name
        self.port = free_port()
        self._log = log
        self._log_position = 0
        self._environment = {
            **os.environ,
            f"{prefix}KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            f"{prefix}KAFKA__TOPIC_PREFIX": kafka.topic_prefix,
            f"{prefix}MANAGEMENT_PORT": str(self.port),
            **{prefix + key.upper(): value for key, value in settings.items()},
        }
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Starts the process and waits until it is ready."""
        with self._log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", f"services.{self.name}"),
                stdout=output,
                stderr=output,
                env=self._environment,
            )
        async with asyncio.timeout(WAIT_S), httpx.AsyncClient() as client:
            while True:
                assert self.process.returncode is None, self._log.read_text()[-4000:]
                with contextlib.suppress(httpx.HTTPError):
                    answer = await client.get(f"http://127.0.0.1:{self.port}/readyz")
                    if answer.status_code == 200:
                        return
                await asyncio.sleep(0.05)

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal and returns the exit code."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), WAIT_S)

    def send(self, number: int) -> None:
        """Sends a signal and waits for nothing."""
        assert self.process is not None
        self.process.send_signal(number)

    async def logs(self, text: str) -> None:
        """Returns once the log has the text; fails after a bounded time."""
        await eventually(lambda: text in self._new_log())

    async def comes_back(self, text: str) -> None:
        """Returns once the log has the text; starts the process again if it ends instead."""
        assert self.process is not None
        process = self.process
        await eventually(lambda: process.returncode is not None or text in self._new_log())
        if process.returncode is not None:
            await self.start()

    def forget_log(self) -> None:
        """What was logged until now is not looked at by `logs` and `comes_back`."""
        self._log_position = self._log.stat().st_size

    def _new_log(self) -> str:
        with self._log.open() as content:
            content.seek(self._log_position)
            return content.read()

    async def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"http://127.0.0.1:{self.port}/metrics")).text
        lines = [line for line in text.splitlines() if line.startswith((name + " ", name + "{"))]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    async def metric_becomes(self, name: str, value: float) -> None:
        """Returns once a metric has the value; fails after a bounded time."""
        async with asyncio.timeout(WAIT_S):
            while await self.metric(name) != value:
                await asyncio.sleep(0.02)


S = TypeVar("S", bound=Service)


@contextlib.asynccontextmanager
async def running(service: S) -> AsyncIterator[S]:
    """The service, started, and ended whatever happens."""
    try:
        await service.start()
        yield service
    finally:
        if service.process is not None and service.process.returncode is None:
            service.process.kill()
            await service.process.wait()


class Topics:
    """All topics of a platform under one prefix, written to and read by tests."""

    def __init__(self, kafka: KafkaSettings, producer: AckProducer) -> None:
        self.kafka = kafka
        self._producer = producer
        self._resources_end = 0
        self.incarnations: dict[str, int] = {}
        """Of the subscriptions stored here, by id."""

    async def put(self, topic: str, key: str, value: bytes | None) -> Stored:
        """Writes one record."""
        name = self.kafka.topic_prefix + topic
        return await self._producer.send(name, key=key.encode(), value=value)

    async def subscribe(self, subscriber: str, callback: str | None, **spec: Any) -> str:
        """Stores a subscription to `orders.v1` and returns its id."""
        subscription_id = ids.subscription_id(
            environment=ENVIRONMENT, event_type="orders.v1", subscriber_id=subscriber
        )
        version = self._resources_end
        document = Resource(
            kind=Kind.SUBSCRIPTION,
            environment=ENVIRONMENT,
            id=subscription_id,
            version=version,
            created_at=clock.to_text(clock.utc_now()),
            updated_at=clock.to_text(clock.utc_now()),
            owner=subscriber,
            spec={
                "subscriptionId": subscription_id,
                "subscriberId": subscriber,
                "publisherId": "eni--orders--shop",
                "type": "orders.v1",
                "deliveryType": "callback",
                "callback": callback,
                **spec,
            },
            status=ResourceStatus(incarnation=version),
        )
        self.incarnations[subscription_id] = version
        await self.put_resource(subscription_id, records.encode(document))
        return subscription_id

    async def put_resource(self, subscription_id: str, value: bytes | None) -> None:
        """Writes or deletes a subscription's document."""
        key = resource_key(Kind.SUBSCRIPTION, ENVIRONMENT, subscription_id)
        self._resources_end = (await self.put(RESOURCES, key, value)).offset + 1

    @property
    def resources_end(self) -> int:
        """The offset after the last resource."""
        return self._resources_end

    async def publish(self, event_id: str, **changes: Any) -> str:
        """Writes one PublishedEvent and returns its uuid."""
        uuid = ids.uuid7()
        event = {"id": event_id, "type": "orders.v1", "source": "shop", "data": {"n": event_id}}
        document = {
            "uuid": uuid,
            "environment": ENVIRONMENT,
            "publisherId": "eni--orders--shop",
            "publishedAt": clock.to_text(clock.utc_now()),
            "orderingKey": event_id,
            "resourcesOffset": self._resources_end,
            "event": event,
            **changes,
        }
        await self.put(PUBLISHED, event_id, json.dumps(document).encode())
        return uuid

    async def read(self, *topics: str) -> list[ConsumedRecord]:
        """Everything on the topics, in the order of each partition."""
        found = []
        for topic in topics:
            partitions = {spec.name: spec.partitions for spec in topic_specs(embedded=True)}[topic]
            found += await asyncio.to_thread(
                reader.read_to_end,
                self.kafka,
                topic,
                range(partitions),
                client_id="test-reader",
            )
        return found

    async def read_until(
        self, enough: Callable[[list[ConsumedRecord]], bool], *topics: str
    ) -> list[ConsumedRecord]:
        """Everything on the topics once it is enough."""
        async with asyncio.timeout(WAIT_S):
            while not enough(found := await self.read(*topics)):
                await asyncio.sleep(0.05)
        return found


@contextlib.asynccontextmanager
async def topics(kafka: KafkaSettings) -> AsyncIterator[Topics]:
    """The topics of a platform, created."""
    await create_topics(kafka, topic_specs(prefix=kafka.topic_prefix, embedded=True))
    async with AckProducer(config.producer(kafka, client_id="test")) as producer:
        yield Topics(kafka, producer)


class Sink:
    """A callback endpoint that answers as it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: dict[str, list[int]] = {}
        """Statuses per path, used up from the front; the last one stays."""
        self.gate = asyncio.Event()
        self.gate.set()
        self.url = ""

    def ids(self, path: str | None = None) -> list[str]:
        """Ids of the events received, in order."""
        return [json.loads(body)["id"] for name, _, body in self.requests if path in (None, name)]

    def uuids(self) -> list[str]:
        """The platform's ids of the events received, in order."""
        return [headers["x-meridian-uuid"] for _, headers, _ in self.requests]

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append((request.path, dict(request.headers), body))
        await self.gate.wait()
        statuses = self.answers.get(request.path, [200])
        status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
        headers = {"Location": "/elsewhere"} if 300 <= status < 400 else {}
        return web.Response(status=status, headers=headers)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Sink"]:
        """The sink, listening on a free port of loopback."""
        app = web.Application()
        app.router.add_post("/{name}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            self.gate.set()
            await runner.cleanup()
