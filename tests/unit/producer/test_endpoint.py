"""The publish route under pressure, on fakes: bounds, readiness, failures of what lies behind."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
from starlette.types import ASGIApp

from libs.common.auth import Identity
from libs.common.clock import utc_now
from libs.common.errors import AckTimeout, KafkaUnavailable, Overloaded, PlatformError
from libs.common.ids import ClientId
from libs.common.testing.event_log import MemoryEventLog
from services.producer import api
from services.producer.api.endpoint import Limits, PublishEndpoint
from services.producer.domain.forwarded import HeaderFilter
from services.producer.domain.stored import Registration, SizeLimit
from services.producer.service import Admission, Outside, Policy, Publisher

PATH = "/v1/integration/events"
BODY = (
    b'{"id":"018f3c1e-7a52-7bd0-9c1f-2f6d1c1a9b10","type":"t.v1","source":"s","specversion":"1.0",'
    b'"data":1}'
)
HEADERS = {"authorization": "Bearer shop", "content-type": "application/json"}


class EveryTokenNamesItsClient:
    """Tokens whose text is the client's id."""

    async def verify(self, token: str) -> Identity:
        issuer = "http://issuer.test/realms/integration"
        return Identity(
            client_id=ClientId(token), realm="integration", issuer=issuer, expires_at_s=0.0
        )


class OneType:
    """Knows t.v1, published by shop."""

    def registration(self, environment: str, event_type: str) -> Registration:
        return Registration(
            resources_offset=1,
            is_known=(environment, event_type) == ("integration", "t.v1"),
            has_subscribers=True,
            publishers=frozenset({"shop"}),
        )


@dataclass
class Setup:
    """The app and what it stands on."""

    log: MemoryEventLog
    admission: Admission
    client: httpx.AsyncClient
    app: ASGIApp
    not_ready: str | None = None


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    log, admission = MemoryEventLog(), Admission(requests_max=2, bytes_max=300)
    numbers = itertools.count()
    outside = Outside(
        tokens=EveryTokenNamesItsClient(),
        registry=OneType(),
        event_log=log,
        clock=utc_now,
        new_uuid=lambda: str(next(numbers)),
    )
    policy = Policy(
        default_environment="integration",
        size_limit=SizeLimit(data_bytes_max=100),
        header_filter=HeaderFilter(()),
    )
    endpoint = PublishEndpoint(
        Publisher(outside, policy),
        admission,
        limits=Limits(body_bytes_max=250, body_timeout_s=0.05),
        not_ready=lambda: found.not_ready,
        clock=utc_now,
    )
    app = api.build(endpoint)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://producer.test") as client:
        found = Setup(log, admission, client, app)
        yield found


async def publish(setup: Setup) -> httpx.Response:
    return await setup.client.post(PATH, content=BODY, headers=HEADERS)


def slug(answer: httpx.Response) -> str:
    found: str = answer.json()["type"]
    return found.removeprefix("urn:meridian:problem:")


async def test_before_it_is_ready_nothing_is_taken(setup: Setup) -> None:
    setup.not_ready = "reading: at 3 of 5"
    answer = await publish(setup)
    assert (answer.status_code, slug(answer)) == (503, "not-ready")
    assert "at 3 of 5" in answer.json()["detail"]
    assert int(answer.headers["retry-after"]) >= 1
    assert setup.log.records == []


@pytest.mark.parametrize(
    ("failure", "status", "name"),
    [
        (KafkaUnavailable("no broker", delay_s=2.2), 503, "kafka-unavailable"),
        (Overloaded("the queue is full"), 503, "overloaded"),
        (AckTimeout("unknown"), 504, "ack-timeout"),
    ],
)
async def test_failures_of_kafka_have_their_own_answers(
    setup: Setup, failure: PlatformError, status: int, name: str
) -> None:
    setup.log.failure = failure
    answer = await publish(setup)
    assert (answer.status_code, slug(answer)) == (status, name)
    assert ("retry-after" in answer.headers) == (status == 503)
    assert setup.admission.requests == setup.admission.bytes == 0


async def test_nothing_is_answered_before_the_record_is_acknowledged(setup: Setup) -> None:
    setup.log.acknowledging.clear()
    publishing = asyncio.ensure_future(publish(setup))
    await setup.log.begun.get()
    assert not publishing.done()
    assert setup.admission.requests == 1
    setup.log.acknowledging.set()
    assert (await publishing).status_code == 201


async def test_more_requests_than_the_bound_are_turned_away(setup: Setup) -> None:
    setup.log.acknowledging.clear()
    waiting = [asyncio.ensure_future(publish(setup)) for _ in range(2)]
    for _ in waiting:
        await setup.log.begun.get()
    answer = await publish(setup)
    assert (answer.status_code, slug(answer)) == (503, "overloaded")
    setup.log.acknowledging.set()
    assert [one.status_code for one in await asyncio.gather(*waiting)] == [201, 201]
    assert (await publish(setup)).status_code == 201


async def test_more_bytes_than_the_bound_are_turned_away(setup: Setup) -> None:
    setup.admission.enter()
    setup.admission.reserve(300 - len(BODY) + 1)
    answer = await publish(setup)
    assert (answer.status_code, slug(answer)) == (503, "overloaded")
    setup.admission.leave(300 - len(BODY) + 1)
    assert (await publish(setup)).status_code == 201


async def test_a_body_that_does_not_come_is_given_up(setup: Setup) -> None:
    async def stalled() -> AsyncIterator[bytes]:
        yield BODY[:10]
        await asyncio.Event().wait()

    answer = await setup.client.post(PATH, content=stalled(), headers=HEADERS)
    assert (answer.status_code, slug(answer)) == (408, "slow-body")
    assert answer.headers["connection"] == "close"
    assert setup.admission.bytes == 0


async def test_a_chunked_body_is_bounded_while_it_is_read(setup: Setup) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100

    answer = await setup.client.post(PATH, content=endless(), headers=HEADERS)
    assert (answer.status_code, slug(answer)) == (413, "too-large")
    assert answer.headers["connection"] == "close"


async def test_a_caller_without_token_does_not_make_us_read(setup: Setup) -> None:
    async def forbidden() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    headers = {"content-type": "application/json"}
    answer = await setup.client.post(PATH, content=forbidden(), headers=headers)
    assert answer.status_code == 401


async def test_what_nobody_expected_is_a_problem_that_tells_nothing_of_its_inside(
    setup: Setup,
) -> None:
    transport = httpx.ASGITransport(app=setup.app, raise_app_exceptions=False)
    setup.log.failure = RuntimeError("secret detail")
    async with httpx.AsyncClient(transport=transport, base_url="http://producer.test") as client:
        answer = await client.post(PATH, content=BODY, headers=HEADERS)
    assert (answer.status_code, slug(answer)) == (500, "internal")
    assert "secret" not in answer.text
    assert answer.headers["x-b3-traceid"]
    assert setup.admission.requests == setup.admission.bytes == 0


@pytest.mark.parametrize("path", [PATH, f"{PATH}/", "/horizon/events/v1", "/horizon/events/v1/"])
async def test_every_publish_path_takes_events_with_and_without_a_slash(
    setup: Setup, path: str
) -> None:
    answer = await setup.client.post(path, content=BODY, headers=HEADERS)
    assert answer.status_code == 201
    assert len(setup.log.records) == 1


@pytest.mark.parametrize(
    "path", ["/v1/integration/events/more", "/v1//events", "/v1/a/b/events", "/horizon/events"]
)
async def test_a_path_that_only_resembles_one_takes_nothing(setup: Setup, path: str) -> None:
    answer = await setup.client.post(path, content=BODY, headers=HEADERS)
    assert (answer.status_code, slug(answer)) == (404, "not-found")
    assert setup.log.records == []


async def test_other_methods_are_told_what_the_path_takes(setup: Setup) -> None:
    answer = await setup.client.put(PATH, content=BODY, headers=HEADERS)
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"HEAD", "POST"}
