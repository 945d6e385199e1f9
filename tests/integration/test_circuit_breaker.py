"""The circuit breaker as a process on a real Kafka: it shows what stands in the table."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from libs.common import http_server
from libs.common.records import Circuit, CircuitStatus, encode
from libs.common.settings import KafkaSettings
from libs.common.testing.issuer import MemoryIssuer
from libs.common.topics import CIRCUITS, INSTANCES
from tests.conftest import free_ports
from tests.integration.harness import ENVIRONMENT, Service, Topics, running, topics

HOST = "127.0.0.1"
READER = "eni--bi--reader"
PATH = "/api/v1/circuit-breakers"


@pytest.fixture
async def platform_topics(kafka_settings: KafkaSettings) -> AsyncIterator[Topics]:
    async with topics(kafka_settings) as found:
        yield found


class Issuer:
    """An issuer on a port."""

    def __init__(self, port: int) -> None:
        self.memory = MemoryIssuer()
        self.realms = f"http://{HOST}:{port}/auth/realms"
        self._port = port

    async def serve(self, stop: asyncio.Event) -> None:
        await http_server.serve(self.memory.app, host=HOST, port=self._port, stop=stop, drain_s=1)

    def headers(self, client_id: str) -> dict[str, str]:
        token = self.memory.token(client_id, iss=f"{self.realms}/{ENVIRONMENT}")
        return {"authorization": f"Bearer {token}"}


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    found = Issuer(free_ports("circuit_breaker").api("issuer"))
    stop = asyncio.Event()
    serving = asyncio.ensure_future(found.serve(stop))
    yield found
    stop.set()
    await serving


def circuit(subscription_id: str, status: CircuitStatus) -> bytes:
    return encode(
        Circuit(
            lane_id=subscription_id,
            subscription_id=subscription_id,
            environment=ENVIRONMENT,
            event_type="orders.v1",
            status=status,
            epoch=1,
            last_modified="2026-11-20T10:00:00.000Z",
        )
    )


async def test_circuits_are_shown_as_the_table_has_them_until_the_stop(
    platform_topics: Topics, issuer: Issuer, tmp_path: Path
) -> None:
    subscription = await platform_topics.subscribe(READER, "https://bi.example/in")
    await platform_topics.put(CIRCUITS, "orphan", circuit("orphan", CircuitStatus.OPEN))
    port = free_ports("circuit_breaker").api("circuit_breaker")
    service = Service(
        "circuit_breaker",
        platform_topics.kafka,
        tmp_path / "circuit_breaker.log",
        port=str(port),
        auth__trusted_issuers=f"{issuer.realms}/*",
        admin_clients="admin",
    )
    async with running(service), httpx.AsyncClient(base_url=f"http://{HOST}:{port}") as client:

        async def listed(client_id: str) -> dict[str, str]:
            answer = await client.get(PATH, headers=issuer.headers(client_id))
            assert answer.status_code == 200, answer.text
            return {item["subscriptionId"]: item["status"] for item in answer.json()["items"]}

        assert await listed("admin") == {"orphan": "OPEN"}
        await platform_topics.put(CIRCUITS, subscription, circuit(subscription, CircuitStatus.OPEN))
        await service.metric_becomes("open_circuit_breakers", 2)
        assert await listed("admin") == {"orphan": "OPEN", subscription: "OPEN"}
        assert await listed(READER) == {subscription: "OPEN"}
        one = await client.get(f"{PATH}/{subscription}", headers=issuer.headers(READER))
        assert one.json()["subscriberId"] == READER
        await platform_topics.put(CIRCUITS, subscription, None)
        await service.metric_becomes("open_circuit_breakers", 1)
        gone = await client.get(f"{PATH}/{subscription}", headers=issuer.headers(READER))
        assert gone.status_code == 404
        lines = await platform_topics.read(INSTANCES)
        assert any(line.key == b"circuit_breaker/circuit-breaker-0" for line in lines)
        assert await service.stop() == 0
