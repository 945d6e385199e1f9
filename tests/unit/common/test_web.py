"""Bodies are read within bounds, and every error of an app is a problem document."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import httpx
import pytest
from fastapi import FastAPI, Path, Query
from starlette.requests import Request
from starlette.types import Message

from libs.common import web
from libs.common.errors import NotReady, RealmMismatch, SlowBody, TooLarge, UnreadableBody


def request_with(*messages: Message, content_length: str | None = None) -> Request:
    """A request whose body comes in these pieces and then never ends."""
    waiting = list(messages)

    async def receive() -> Message:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    headers = [] if content_length is None else [(b"content-length", content_length.encode())]
    return Request({"type": "http", "method": "PUT", "headers": headers}, receive)


def piece(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def read(request: Request, *, timeout_s: float = 5.0) -> bytes:
    return await web.read_body(request, bytes_max=10, timeout_s=timeout_s)


async def test_a_body_up_to_the_limit_is_read_whole() -> None:
    found = await read(request_with(piece(b"12345", more=True), piece(b"67890", more=False)))
    assert found == b"1234567890"


async def test_a_body_announced_over_the_limit_is_refused_unread() -> None:
    with pytest.raises(TooLarge):
        await read(request_with(content_length="11"))


async def test_a_body_that_grows_over_the_limit_is_refused_at_once() -> None:
    with pytest.raises(TooLarge):
        await read(request_with(piece(b"12345678901", more=True)))


async def test_a_body_that_does_not_end_in_time_is_refused() -> None:
    with pytest.raises(SlowBody):
        await read(request_with(piece(b"1", more=True)), timeout_s=0.01)


async def test_a_body_that_breaks_off_is_not_taken_for_a_whole_one() -> None:
    with pytest.raises(UnreadableBody):
        await read(request_with(piece(b"1", more=True), {"type": "http.disconnect"}))


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    web.install(app)

    @app.get("/things/{name}")
    async def thing(
        name: Annotated[str, Path(pattern="^[a-z]+$")], limit: Annotated[int, Query(ge=1)] = 1
    ) -> str:
        return f"{name}{limit}"

    @app.put("/things/{name}")
    async def refuse(name: str) -> None:
        raise RealmMismatch(name)

    @app.get("/later")
    async def later() -> None:
        raise NotReady("not yet", delay_s=2.5)

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("secret detail")

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as found:
        yield found


def check(answer: httpx.Response, status: int, slug: str) -> dict[str, Any]:
    problem: dict[str, Any] = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.status_code == problem["status"] == status
    assert problem["type"] == f"urn:meridian:problem:{slug}"
    assert problem["instance"] == answer.request.url.path
    return problem


async def test_a_platform_error_keeps_its_headers(client: httpx.AsyncClient) -> None:
    refused = await client.put("/things/a")
    check(refused, 401, "realm-mismatch")
    assert refused.headers["www-authenticate"].startswith("Bearer")
    later = await client.get("/later")
    check(later, 503, "not-ready")
    assert later.headers["retry-after"] == "3"


async def test_faults_of_parameters_are_400_with_all_their_places(
    client: httpx.AsyncClient,
) -> None:
    problem = check(await client.get("/things/A?limit=0"), 400, "invalid-request")
    assert [entry["pointer"] for entry in problem["errors"]] == ["/path/name", "/query/limit"]


async def test_an_unknown_path_is_a_problem(client: httpx.AsyncClient) -> None:
    check(await client.get("/nothing"), 404, "not-found")


async def test_an_unknown_method_is_told_all_that_the_path_takes(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.delete("/things/a")
    check(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, PUT"


async def test_an_unexpected_error_tells_nothing_of_its_inside(client: httpx.AsyncClient) -> None:
    answer = await client.get("/broken")
    check(answer, 500, "internal")
    assert "secret" not in answer.text
