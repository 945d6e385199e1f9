"""The circuit breaker's API: paths, tokens, and who sees what."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx
import pytest

from libs.common.auth import TokenVerifier
from libs.common.records import Circuit
from libs.common.resources import Subscription
from libs.common.testing.issuer import MemoryIssuer
from services.circuit_breaker import api
from services.circuit_breaker.service import CircuitBreaker
from services.circuit_breaker.settings import CircuitBreakerSettings
from tests.unit.circuit_breaker.circuits import circuit, probe, subscription

ADMIN = "eni--platform--admin"
READER = "eni--bi--reader"
LISTS = ("circuit-breakers", "health-checks", "republishing-entries")


class Known:
    """Circuits and subscriptions in memory."""

    def __init__(self) -> None:
        self.circuits: list[Circuit] = []
        self.subscriptions: dict[str, Subscription] = {}

    def all(self) -> Iterable[Circuit]:
        return self.circuits

    def get(self, subscription_id: str) -> Subscription | None:
        return self.subscriptions.get(subscription_id)


class Rig:
    """The app, and a client of it."""

    def __init__(self, issuer: MemoryIssuer, issuer_client: httpx.AsyncClient) -> None:
        self.known = Known()
        self.missing: str | None = None
        self._issuer = issuer
        app = api.build(
            api.Parts(
                breaker=CircuitBreaker(self.known, self.known),
                verifier=TokenVerifier(issuer.settings, issuer_client),
                not_ready=lambda: self.missing,
            ),
            CircuitBreakerSettings(auth=issuer.settings, admin_clients=(ADMIN,)),
        )
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://circuits"
        )

    def open(self, subscription_id: str, subscriber: str = READER, **fields: Any) -> None:
        self.known.circuits.append(circuit(subscription_id, last_probe=probe(), **fields))
        self.known.subscriptions[subscription_id] = subscription(subscription_id, subscriber)

    async def send(
        self, path: str, *, by: str = ADMIN, realm: str = "integration", method: str = "GET"
    ) -> httpx.Response:
        token = self._issuer.token(by, realm=realm)
        headers = {"authorization": f"Bearer {token}"}
        return await self.client.request(method, f"/api/v1/{path}", headers=headers)

    async def ids(self, **by: str) -> list[str]:
        items = (await self.send("circuit-breakers", **by)).json()["items"]
        return [item["subscriptionId"] for item in items]


@pytest.fixture(scope="module")
def issuer() -> MemoryIssuer:
    return MemoryIssuer()


@pytest.fixture
async def rig(issuer: MemoryIssuer) -> AsyncIterator[Rig]:
    async with issuer.client() as issuer_client:
        found = Rig(issuer, issuer_client)
        async with found.client:
            yield found


def slug(answer: httpx.Response) -> str:
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.status_code == problem["status"]
    return str(problem["type"].removeprefix("urn:meridian:problem:"))


@pytest.mark.parametrize("path", LISTS)
async def test_without_circuits_every_list_is_empty(rig: Rig, path: str) -> None:
    answer = await rig.send(path)
    assert (answer.status_code, answer.json()) == (200, {"items": [], "total": 0})


@pytest.mark.parametrize("path", [*LISTS, "circuit-breakers/s1"])
async def test_everything_needs_a_token(rig: Rig, path: str) -> None:
    answer = await rig.client.get(f"/api/v1/{path}")
    assert slug(answer) == "unauthenticated"
    assert "www-authenticate" in answer.headers


async def test_a_subscription_without_a_circuit_is_not_found(rig: Rig) -> None:
    assert slug(await rig.send("circuit-breakers/s1")) == "not-found"
    assert slug(await rig.send("circuit-breakers/close/s1", method="PUT")) == "not-found"


async def test_administrators_see_every_circuit_and_subscribers_their_own(rig: Rig) -> None:
    rig.open("s1")
    rig.open("s2", subscriber="eni--bi--other")
    assert await rig.ids() == ["s1", "s2"]
    assert await rig.ids(by=READER) == ["s1"]
    assert await rig.ids(by="eni--bi--nobody") == []
    checks = (await rig.send("health-checks", by=READER)).json()
    assert [item["subscriptionIds"] for item in checks["items"]] == [["s1"]]


async def test_another_clients_circuit_is_forbidden(rig: Rig) -> None:
    rig.open("s1")
    assert (await rig.send("circuit-breakers/s1", by=READER)).json()["subscriptionId"] == "s1"
    assert slug(await rig.send("circuit-breakers/s1", by="eni--bi--other")) == "forbidden"
    refused = await rig.send("circuit-breakers/close/s1", by="eni--bi--other", method="PUT")
    assert slug(refused) == "forbidden"


async def test_the_circuit_of_a_deleted_subscription_is_for_administrators(rig: Rig) -> None:
    rig.open("s1")
    rig.known.subscriptions.clear()
    assert await rig.ids() == ["s1"]
    assert slug(await rig.send("circuit-breakers/s1", by=READER)) == "forbidden"


async def test_a_token_sees_the_environment_of_its_realm(rig: Rig) -> None:
    rig.open("s1")
    rig.open("s2", environment="playground")
    assert await rig.ids(realm="default") == ["s1"]
    assert await rig.ids(realm="playground") == ["s2"]
    assert slug(await rig.send("circuit-breakers/s1", realm="playground")) == "not-found"


async def test_closing_by_hand_is_refused_by_name(rig: Rig) -> None:
    rig.open("s1")
    assert slug(await rig.send("circuit-breakers/close/s1", method="PUT")) == "not-available"


async def test_before_the_tables_are_known_nothing_is_answered(rig: Rig) -> None:
    rig.missing = "circuits: reading"
    answer = await rig.send("circuit-breakers")
    assert slug(answer) == "not-ready"
    assert "circuits: reading" in answer.json()["detail"]
    assert "retry-after" in answer.headers


async def test_the_openapi_document_names_all_paths(rig: Rig) -> None:
    assert set((await rig.client.get("/openapi.json")).json()["paths"]) == {
        "/api/v1/circuit-breakers",
        "/api/v1/circuit-breakers/{subscriptionId}",
        "/api/v1/circuit-breakers/close/{subscriptionId}",
        "/api/v1/health-checks",
        "/api/v1/republishing-entries",
    }
