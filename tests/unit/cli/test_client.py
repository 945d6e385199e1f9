"""Refusals of the platform become sentences that say what to do next."""

from collections.abc import Callable

import httpx
import msgspec
import pytest

from deploy.local import programs
from deploy.local.ports import Ports
from libs.cli.client import Platform
from libs.cli.errors import CommandFailed
from libs.cli.rover import Rover

Handler = Callable[[httpx.Request], httpx.Response]

ENDPOINTS = msgspec.structs.replace(
    programs.endpoints(Ports(8080), secret="s3cret", pids={}), sse="http://127.0.0.1:8082"
)
EVENT = {"id": "1", "type": "a.b.v1"}


def platform(handle: Handler) -> Platform:
    """A platform whose services answer by a function; its issuer gives tokens."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/token"):
            return httpx.Response(200, json={"access_token": "t"})
        return handle(request)

    return Platform(ENDPOINTS, httpx.Client(transport=httpx.MockTransport(answer)))


def answering(status: int, body: dict[str, object]) -> Platform:
    return platform(lambda _: httpx.Response(status, json=body))


def resource(kind: str, resource_id: str, **spec: str) -> dict[str, object]:
    """A document as control shows it."""
    return {
        "kind": kind,
        "environment": "integration",
        "id": resource_id,
        "version": 7,
        "createdAt": "",
        "updatedAt": "",
        "owner": str(spec.get("subscriberId") or spec.get("publisherId")),
        "spec": spec,
    }


def test_an_event_goes_to_the_environment_with_the_publishers_token() -> None:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(201)

    assert platform(handle).publish(EVENT, client_id="eni--a--shop").status == 201
    assert str(seen[0].url) == "http://127.0.0.1:8080/v1/integration/events"
    assert seen[0].headers["Authorization"] == "Bearer t"


def test_nobody_subscribed_is_no_failure() -> None:
    assert answering(202, {}).publish(EVENT, client_id="eni--a--shop").status == 202


def test_a_refused_event_is_explained_by_the_platforms_problem() -> None:
    refusing = answering(403, {"title": "Not a publisher", "detail": "Ask its owner."})
    with pytest.raises(CommandFailed, match=r"not stored: Not a publisher[\s\S]*Ask its owner"):
        refusing.publish(EVENT, client_id="eni--a--shop")


def test_an_unknown_outcome_is_to_be_repeated_with_the_same_id() -> None:
    with pytest.raises(CommandFailed, match="--id 1"):
        answering(504, {}).publish(EVENT, client_id="eni--a--shop")


def test_a_type_that_nobody_exposes_asks_for_a_client() -> None:
    with pytest.raises(CommandFailed, match="--as"):
        answering(404, {}).publisher_of("a.b.v1")


def test_the_publisher_of_a_type_is_who_exposes_it() -> None:
    exposing = answering(200, resource("exposure", "a.b.v1", publisherId="eni--a--shop"))
    assert exposing.publisher_of("a.b.v1") == "eni--a--shop"


def test_a_stream_is_looked_for_on_every_page_of_the_subscriptions() -> None:
    spec = {"type": "a.b.v1", "deliveryType": "server_sent_event", "subscriberId": "eni--a--bi"}
    pages = {
        None: {"items": [resource("subscription", "s1", type="other.v1")], "next": "more"},
        "more": {"items": [resource("subscription", "s2", **spec)], "next": None},
    }

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/integration/exposures/a.b.v1":
            return httpx.Response(404)
        assert request.url.path == "/v1/integration/subscriptions"
        return httpx.Response(200, json=pages[request.url.params.get("cursor")])

    found = platform(handle).find_stream("a.b.v1", client_id=None)
    assert found.client_id == "eni--a--bi"
    assert platform(handle).url_of(found) == "http://127.0.0.1:8082/v1/integration/sse/s2"


def test_a_subscription_that_is_gone_has_no_stream() -> None:
    assert answering(404, {}).stream("s1") is None


def test_a_rover_is_sent_as_it_is_and_waited_for() -> None:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"name": "shop"})

    platform(handle).apply(Rover(name="shop", body=b"kind: Rover"))
    assert seen[0].url.raw_path == b"/v1/integration/rovers/shop?wait=applied"
    assert seen[0].content == b"kind: Rover"
    assert seen[0].headers["Content-Type"] == "application/yaml"


def test_a_service_that_does_not_answer_points_to_status_and_up() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    with pytest.raises(CommandFailed, match="meridian status"):
        platform(refuse).publish(EVENT, client_id="eni--a--shop")


def test_an_issuer_that_refuses_is_named() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        return httpx.Response(401, json={"error": "invalid_client"})

    refusing = Platform(ENDPOINTS, httpx.Client(transport=httpx.MockTransport(refuse)))
    with pytest.raises(CommandFailed, match="issuer gives no token"):
        refusing.token("eni--a--shop", realm="integration")
