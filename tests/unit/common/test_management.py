"""The management port: health, readiness, metrics."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from libs.common import management
from libs.common.management import Readiness


@pytest.fixture
async def stop() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
async def readiness(stop: asyncio.Event) -> Readiness:
    return Readiness(stop)


@pytest.fixture
async def client(readiness: Readiness) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=management.app(readiness))
    async with httpx.AsyncClient(transport=transport, base_url="http://management") as found:
        yield found


async def test_a_process_whose_checks_pass_is_ready(
    client: httpx.AsyncClient, readiness: Readiness
) -> None:
    readiness.add("kafka", lambda: None)
    readiness.add("resources", lambda: None)
    answer = await client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "checks": {"kafka": "ok", "resources": "ok"}}
    assert readiness.is_ready()


async def test_one_failing_check_is_named_with_what_is_missing(
    client: httpx.AsyncClient, readiness: Readiness
) -> None:
    readiness.add("kafka", lambda: None)
    readiness.add("resources", lambda: "reading: at 12 of 40")
    answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {
        "ready": False,
        "checks": {"kafka": "ok", "resources": "reading: at 12 of 40"},
    }
    assert not readiness.is_ready()


async def test_checks_are_asked_each_time(client: httpx.AsyncClient, readiness: Readiness) -> None:
    missing: list[str | None] = ["joining", None]
    readiness.add("group", lambda: missing.pop(0))
    assert [(await client.get("/readyz")).status_code for _ in range(2)] == [503, 200]


async def test_a_process_that_stops_is_alive_and_not_ready(
    client: httpx.AsyncClient, readiness: Readiness, stop: asyncio.Event
) -> None:
    readiness.add("kafka", lambda: None)
    stop.set()
    answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"kafka": "ok", "process": "stopping"}
    assert (await client.get("/livez")).status_code == 200


async def test_two_checks_cannot_have_one_name(readiness: Readiness) -> None:
    readiness.add("kafka", lambda: None)
    with pytest.raises(ValueError, match="kafka"):
        readiness.add("kafka", lambda: None)


async def test_metrics_are_in_the_form_that_prometheus_reads(client: httpx.AsyncClient) -> None:
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "# TYPE python_info gauge" in answer.text
