"""The publish service on a real port, and as a process of its own."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio

from libs.common import http_server
from libs.common.errors import AckTimeout, KafkaUnavailable
from libs.common.kafka.producer import AckProducer
from libs.common.settings import KafkaSettings
from services.producer.adapters.event_log import KafkaEventLog
from services.producer.bootstrap import producer_properties
from services.producer.settings import ProducerSettings
from tests.integration.producer_app import PATH, Producer, body, prepare, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOST = "127.0.0.1"
TIMEOUT_S = 20.0
BODY_TIMEOUT_S = 0.3


def free_port() -> int:
    with socket.create_server((HOST, 0)) as free:
        port: int = free.getsockname()[1]
        return port


@dataclass(frozen=True)
class Served:
    """The app on a port."""

    producer: Producer
    port: int


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(kafka_settings: KafkaSettings) -> AsyncIterator[Served]:
    await prepare(kafka_settings)
    stop, port = asyncio.Event(), free_port()
    async with running(kafka_settings, body_timeout_s=BODY_TIMEOUT_S) as producer:
        serving = asyncio.ensure_future(
            http_server.serve(producer.app, host=HOST, port=port, stop=stop)
        )
        await asyncio.sleep(0)  # its first step is to listen
        yield Served(producer, port)
        stop.set()
        await serving


def head(served: Served, *lines: str) -> bytes:
    headers = [f"{name}: {value}" for name, value in served.producer.headers().items()]
    return "\r\n".join([f"POST {PATH} HTTP/1.1", "host: h", *headers, *lines, "", ""]).encode()


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def connected(served: Served) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection(HOST, served.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], str]:
    """Status, headers, and the problem's name."""
    async with asyncio.timeout(TIMEOUT_S):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        raw = await reader.readexactly(int(headers["content-length"]))
    problem = json.loads(raw)["type"].rpartition(":")[2] if raw else ""
    return int(lines[0].split()[1]), headers, problem


async def test_a_slow_body_is_answered_408_and_not_stored(served: Served) -> None:
    before = await served.producer.ends()
    async with connected(served) as (reader, writer):
        writer.write(head(served, "content-length: 100") + b"{")
        status, headers, problem = await answer(reader)
        assert (status, problem, headers["connection"]) == (408, "slow-body", "close")
        assert await reader.read() == b""
    assert await served.producer.ends() == before


async def test_a_body_that_is_announced_too_long_is_refused_before_it_is_sent(
    served: Served,
) -> None:
    async with connected(served) as (reader, writer):
        writer.write(head(served, "content-length: 1114113"))
        assert (await answer(reader))[::2] == (413, "too-large")


async def test_a_chunked_body_is_refused_once_it_is_too_long(served: Served) -> None:
    before = await served.producer.ends()
    async with connected(served) as (reader, writer):
        writer.write(head(served, "transfer-encoding: chunked"))
        for _ in range(17):
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
        writer.write(b"1\r\nx\r\n")
        status, headers, problem = await answer(reader)
        assert (status, problem, headers["connection"]) == (413, "too-large", "close")
    assert await served.producer.ends() == before


async def test_a_chunked_event_is_stored(served: Served) -> None:
    async with connected(served) as (reader, writer):
        raw = body()
        chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(raw), raw)
        writer.write(head(served, "transfer-encoding: chunked") + chunks)
        assert (await answer(reader))[0] == 201


async def test_half_a_body_is_not_stored_when_the_caller_goes(served: Served) -> None:
    before = await served.producer.ends()
    async with connected(served) as (_, writer):
        writer.write(head(served, f"content-length: {len(body()) + 1}") + body())
        await writer.drain()
    async with connected(served) as (reader, writer):
        writer.write(head(served, f"content-length: {len(body())}") + body())
        assert (await answer(reader))[0] == 201
    assert len(await served.producer.stored_since(before)) == 1


async def test_a_connection_goes_on_after_a_problem(served: Served) -> None:
    async with connected(served) as (reader, writer):
        for raw, status in ((b"{", 400), (body(), 201)):
            writer.write(head(served, f"content-length: {len(raw)}") + raw)
            assert (await answer(reader))[0] == status


async def test_a_kafka_that_is_gone_is_said_to_be_gone() -> None:
    dead = KafkaSettings(bootstrap_servers=f"{HOST}:{free_port()}")
    settings = ProducerSettings(kafka=dead, ack_timeout_s=1.0)
    async with AckProducer(producer_properties(settings)) as producer:
        log = KafkaEventLog(producer, topic_prefix="")
        with pytest.raises((AckTimeout, KafkaUnavailable)):
            await log.append("key", b"{}")
        with pytest.raises(KafkaUnavailable):
            await log.append("key", b"{}")


@contextlib.asynccontextmanager
async def process(kafka: KafkaSettings, issuers: str = "") -> AsyncIterator[tuple[int, int]]:
    """`python -m services.producer`; its port and its management port. It has to end by 0."""
    port, management = free_port(), free_port()
    environment = {
        **os.environ,
        "MERIDIAN_PRODUCER_PORT": str(port),
        "MERIDIAN_PRODUCER_MANAGEMENT_PORT": str(management),
        "MERIDIAN_PRODUCER_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "MERIDIAN_PRODUCER_KAFKA__TOPIC_PREFIX": kafka.topic_prefix,
        "MERIDIAN_PRODUCER_AUTH__TRUSTED_ISSUERS": issuers,
    }
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.producer"),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        await until_open(port)
        await until_open(management)
        yield port, management
        started.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT_S):
            await started.communicate()
        assert started.returncode == 0
    finally:
        if started.returncode is None:
            started.kill()
            await started.communicate()


async def until_open(port: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, port)
                writer.close()
                return
            await asyncio.sleep(0.05)


async def until_ready(client: httpx.AsyncClient, management: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            answered = await client.get(f"http://{HOST}:{management}/readyz")
            if answered.status_code == 200:
                return
            await asyncio.sleep(0.05)


async def test_the_process_publishes_counts_and_stops_in_order(served: Served) -> None:
    issuer = served.producer.issuer
    before = await served.producer.ends()
    port = free_port()
    issuer_host = f"http://{HOST}:{port}"
    stop = asyncio.Event()
    serving = asyncio.ensure_future(
        http_server.serve(issuer.app, host=HOST, port=port, stop=stop, drain_s=1)
    )
    try:
        async with (
            process(served.producer.settings.kafka, f"{issuer_host}/auth/realms/*") as found,
            httpx.AsyncClient() as client,
        ):
            await until_ready(client, found[1])
            token = issuer.token("eni--orders--shop", iss=f"{issuer_host}/auth/realms/integration")
            headers = served.producer.headers(authorization=f"Bearer {token}")
            url = f"http://{HOST}:{found[0]}{PATH}"
            stored = await client.post(url, content=body(), headers=headers)
            assert stored.status_code == 201, stored.text
            assert (await client.post(url, content=b"{", headers=headers)).status_code == 400
            metrics = (await client.get(f"http://{HOST}:{found[1]}/metrics")).text
    finally:
        stop.set()
        await serving
    event_type = 'environment="integration",event_type="orders.created.v1"'
    assert f"published_events_total{{{event_type}}} 1.0" in metrics
    assert 'meridian_publish_rejected_total{problem="unreadable-body"} 1.0' in metrics
    assert "meridian_publish_duration_seconds_count 1.0" in metrics
    assert "meridian_publish_in_flight 0.0" in metrics
    assert len(await served.producer.stored_since(before)) == 1


async def test_without_kafka_the_process_answers_that_it_is_not_ready() -> None:
    dead = KafkaSettings(bootstrap_servers=f"{HOST}:{free_port()}")
    async with process(dead) as (port, management), httpx.AsyncClient() as client:
        refused = await client.post(f"http://{HOST}:{port}{PATH}", content=body())
        assert refused.status_code == 503
        assert refused.json()["type"] == "urn:meridian:problem:not-ready"
        ready = await client.get(f"http://{HOST}:{management}/readyz")
        assert ready.status_code == 503
        assert ready.json()["checks"]["resources"] == "waiting for topic resources"


@pytest.mark.parametrize(
    ("name", "value"), [("TYPO", "1"), ("PORT", "many"), ("DROPPED_HEADERS", "x-(")]
)
async def test_settings_that_cannot_work_end_the_start(name: str, value: str) -> None:
    variable = f"MERIDIAN_PRODUCER_{name}"
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.producer"),
        env={**os.environ, variable: value},
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(TIMEOUT_S):
        _, said = await started.communicate()
    assert started.returncode == 2
    assert variable in said.decode()
