"""Broken publish requests: each gets its documented problem, and nothing is stored."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from libs.common.settings import KafkaSettings
from tests.integration.producer_app import (
    BIG,
    LEGACY,
    PATH,
    SHOP,
    Producer,
    body,
    prepare,
    running,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

MEBIBYTE = 1_048_576


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def producer(kafka_settings: KafkaSettings) -> AsyncIterator[Producer]:
    await prepare(kafka_settings)
    async with running(kafka_settings, max_data_exempt_types=BIG) as found:
        yield found


Headers = dict[str, str | None]


@dataclass(frozen=True)
class Broken:
    """A request that differs from a good one, and what it is answered."""

    name: str
    status: int
    problem: str
    body: bytes = field(default_factory=body)
    headers: Headers = field(default_factory=dict)
    path: str = PATH
    method: str = "POST"
    token: Callable[[Producer], str] | None = None
    pointers: tuple[str, ...] | None = None
    words: str = ""


def invalid(name: str, *pointers: str, **fields: Any) -> Broken:
    return Broken(name, 400, "invalid-event", body=body(**fields), pointers=pointers)


def unreadable(name: str, raw: bytes, words: str, **headers: str) -> Broken:
    changed: Headers = {key.replace("_", "-"): value for key, value in headers.items()}
    return Broken(name, 400, "unreadable-body", body=raw, words=words, headers=changed)


def media(name: str, content_type: str | None, words: str, **headers: str) -> Broken:
    changed: Headers = {key.replace("_", "-"): value for key, value in headers.items()}
    changed["content-type"] = content_type
    return Broken(name, 415, "unsupported-media-type", headers=changed, words=words)


def stranger(name: str, words: str, client_id: str = SHOP, **claims: Any) -> Broken:
    return Broken(
        name,
        401,
        "unauthenticated",
        token=lambda producer: producer.issuer.token(client_id, **claims),
        words=words,
    )


BINARY: Headers = {
    "ce-id": "1",
    "ce-type": "orders.created.v1",
    "ce-source": "s",
    "ce-specversion": "1.0",
}

CASES = [
    # the token
    Broken("no token", 401, "unauthenticated", headers={"authorization": None}),
    Broken("basic auth", 401, "unauthenticated", headers={"authorization": "Basic eDp5"}),
    Broken("a token that is none", 401, "unauthenticated", headers={"authorization": "Bearer x"}),
    Broken("an empty token", 401, "unauthenticated", headers={"authorization": "Bearer "}),
    stranger("expired token", "expired", exp=1_000_000_000),
    stranger("token without expiry", "not valid", exp=None),
    stranger("foreign issuer", "not trusted", iss="http://other.test/auth/realms/integration"),
    stranger("token without client", "names no client", clientId=None),
    Broken(
        "token of another realm",
        401,
        "realm-mismatch",
        token=lambda producer: producer.issuer.token(SHOP, realm="production"),
        words="production",
    ),
    Broken("another environment", 401, "realm-mismatch", path="/v1/production/events"),
    # the route
    Broken("no such path", 404, "not-found", path="/v1/integration/event"),
    Broken("an impossible environment", 404, "not-found", path="/v1/Integration!/events"),
    Broken("another method", 405, "method-not-allowed", method="PUT"),
    Broken("reading", 405, "method-not-allowed", method="GET", path="/horizon/events/v1"),
    # the content type
    media("no content type", None, "missing"),
    media("plain text", "text/plain", "text/plain"),
    media("another charset", "application/json; charset=latin1", "latin1"),
    media("a batch", "application/cloudevents-batch+json", "not available"),
    media("a compressed body", "application/json", "gzip", content_encoding="gzip"),
    media("a binary event without type", None, "missing", ce_id="1", ce_specversion="1.0"),
    Broken(
        "an idempotency key",
        400,
        "not-available",
        headers={"idempotency-key": "k"},
        pointers=("/headers/idempotency-key",),
    ),
    # the body
    unreadable("no body", b"", "not JSON"),
    unreadable("half a body", b'{"id":', "not JSON"),
    unreadable("more than a body", body() + b"{}", "not JSON"),
    unreadable("a list", b"[" + body() + b"]", "not an object"),
    unreadable("text", b'"event"', "not an object"),
    unreadable("null", b"null", "not an object"),
    unreadable("broken UTF-8", body(data="x").replace(b'"x"', b'"\xff"'), "not UTF-8"),
    unreadable("broken data", body(data="x").replace(b'"x"', b"{nope}"), "not JSON"),
    unreadable("a number that is none", body(data="x").replace(b'"x"', b"NaN"), "not JSON"),
    unreadable("deep nesting", b'{"data":' + b"[" * 999 + b"]" * 999 + b"}", "nested"),
    unreadable("a bomb of brackets", b'{"data":' + b"[" * 500_000, "nested"),
    unreadable(
        "binary mode with broken JSON", b"{", "not JSON", **{k: str(v) for k, v in BINARY.items()}
    ),
    # the fields
    Broken(
        "an empty object",
        400,
        "invalid-event",
        body=b"{}",
        pointers=("/data", "/id", "/source", "/specversion", "/type"),
    ),
    invalid("no id", "/id", id=...),
    invalid("an id that is no UUID", "/id", id="order-1"),
    invalid("a UUID of no version", "/id", id="018f3c1e-7a52-0bd0-9c1f-2f6d1c1a9b10"),
    invalid("a type with an at sign", "/type", type="my.invalid.event.type.v1@"),
    invalid("a type that is a number", "/type", type=1),
    invalid("a blank source", "/source", source="  "),
    invalid("a source with a control character", "/source", source="a\r\nb"),
    invalid("no specversion", "/specversion", specversion=...),
    invalid("a time without seconds", "/time", time="2024-01-01T00:00Z"),
    invalid("a time without offset", "/time", time="2024-01-01T00:00:00"),
    invalid("a day that does not exist", "/time", time="2024-02-30T00:00:00Z"),
    invalid("neither data nor reference", "/data", data=...),
    invalid("null as data", "/data", data=None),
    invalid("data twice", "/data_base64", data_base64="eA=="),
    invalid("data that is no base64", "/data_base64", data=..., data_base64="?"),
    invalid("an extension with a capital", "/traceParent", traceParent="x"),
    invalid("an extension that is an object", "/shop", shop={}),
    invalid("a number that is too large", "/shop", shop=2**31),
    invalid("an empty partition key", "/partitionkey", partitionkey=""),
    Broken(
        "a repeated field",
        400,
        "invalid-event",
        body=body().replace(b"{", b'{"source":"other",', 1),
        pointers=("/source",),
    ),
    Broken(
        "everything broken",
        400,
        "invalid-event",
        body=body(
            id="1", type="@", source=" ", specversion="", datacontenttype=5, time="now", data=...
        ),
        pointers=(
            *("/data", "/datacontenttype", "/id", "/source", "/specversion", "/time", "/type"),
        ),
    ),
    Broken(
        "a structured event without id",
        400,
        "invalid-event",
        body=body(id=""),
        headers={"content-type": "application/cloudevents+json"},
        pointers=("/id",),
    ),
    Broken(
        "a binary event without source",
        400,
        "invalid-event",
        headers={**BINARY, "ce-source": None},
        pointers=("/source",),
    ),
    Broken(
        "headers that are too many",
        400,
        "invalid-request",
        headers={f"x-{number}": "v" for number in range(101)},
        pointers=("/headers",),
    ),
    # size
    Broken("data over the limit", 413, "too-large", body=body(data="x" * MEBIBYTE)),
    Broken("a body over the limit", 413, "too-large", body=body(data="x" * 2 * MEBIBYTE)),
    Broken(
        "an exempt type over what a record holds",
        413,
        "too-large",
        body=body(type=BIG, data="x" * (1_310_720 - 300)),
    ),
    # the type
    Broken("an unknown type", 403, "unknown-event-type", body=body(type="orders.unknown.v1")),
    Broken(
        "not a publisher",
        403,
        "not-a-publisher",
        token=lambda producer: producer.issuer.token("eni--other--app"),
        words="eni--other--app",
    ),
    Broken(
        "not the publisher that a subscription names",
        403,
        "not-a-publisher",
        body=body(type=LEGACY),
        token=lambda producer: producer.issuer.token("eni--billing--invoices"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_broken_request_gets_its_problem_and_leaves_nothing(
    producer: Producer, case: Broken
) -> None:
    headers: dict[str, str | None] = {**producer.headers(), **case.headers}
    if case.token is not None:
        headers["authorization"] = f"Bearer {case.token(producer)}"
    before = await producer.ends()

    answer = await producer.client.request(
        case.method,
        case.path,
        content=case.body,
        headers={name: value for name, value in headers.items() if value is not None},
    )

    found = answer.json()
    assert (answer.status_code, found["type"]) == (
        case.status,
        f"urn:meridian:problem:{case.problem}",
    )
    assert answer.headers["content-type"] == "application/problem+json"
    assert (found["status"], found["instance"]) == (case.status, case.path)
    assert found["title"]
    assert case.words in found["detail"]
    if case.pointers is not None:
        assert [fault["pointer"] for fault in found["errors"]] == list(case.pointers)
        assert all(fault["detail"] for fault in found["errors"])
    assert ("www-authenticate" in answer.headers) == (case.status == 401)
    assert answer.headers["x-b3-traceid"]
    assert await producer.ends() == before


async def test_the_table_of_broken_requests_has_no_name_twice() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 30


async def test_an_issuer_that_is_down_is_not_the_callers_fault(producer: Producer) -> None:
    headers = producer.headers()
    headers["authorization"] = f"Bearer {producer.issuer.token(SHOP, realm='unseen')}"
    producer.issuer.is_reachable = False
    try:
        answer = await producer.client.post("/v1/unseen/events", content=body(), headers=headers)
    finally:
        producer.issuer.is_reachable = True
    assert answer.status_code == 503
    assert answer.json()["type"].endswith(":issuer-unavailable")
    assert int(answer.headers["retry-after"]) > 0


async def test_other_methods_are_told_which_ones_there_are(producer: Producer) -> None:
    answer = await producer.client.put(PATH)
    assert answer.headers["allow"] == "HEAD, POST"


async def test_a_problem_is_json_whatever_was_sent(producer: Producer) -> None:
    raw = body(source='"\\\u2028 \u20ac', id="<script>")
    answer = await producer.client.post(PATH, content=raw, headers=producer.headers())
    assert json.loads(answer.content)["errors"][0]["pointer"] == "/id"
