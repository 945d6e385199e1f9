"""The control plane's API on a real Kafka: what is stored, what is refused, what is answered."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
import yaml

from libs.common import clock, topics
from libs.common.ids import subscription_id
from libs.common.kafka import admin, config
from libs.common.kafka.producer import AckProducer
from libs.common.kafka.reader import read_to_end
from libs.common.records import Instance, encode
from libs.common.settings import KafkaSettings
from libs.common.testing.issuer import MemoryIssuer
from services.control.bootstrap import Process
from services.control.settings import ControlSettings

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADMIN = "eni--platform--admin"
YAML = "application/yaml"


class Rig:
    """One replica of the control plane in this process, and a client of its API."""

    def __init__(self, process: Process, issuer: MemoryIssuer, kafka: KafkaSettings) -> None:
        self.issuer = issuer
        self.kafka = kafka
        self._ends = admin.TopicEnds(kafka, client_id="test")
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(process.app), base_url="http://control", timeout=30
        )

    async def send(
        self, method: str, path: str, document: Any = None, *, by: str = ADMIN, **headers: str
    ) -> httpx.Response:
        content = document if isinstance(document, str | bytes | None) else yaml.dump(document)
        sent = {
            "authorization": f"Bearer {self.issuer.token(by)}",
            "content-type": YAML,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return await self._client.request(
            method,
            path if path.startswith("/v1") else f"/v1/integration/{path}",
            content=content,
            headers={name: value for name, value in sent.items() if value},
        )

    async def put_rover(self, document: dict[str, Any], query: str = "") -> httpx.Response:
        return await self.send("PUT", f"rovers/{document['metadata']['name']}{query}", document)

    async def end(self) -> int:
        return await self._ends.of(topics.RESOURCES, 0)

    async def stored(self) -> dict[str, tuple[int, dict[str, Any]]]:
        """Offset and document of every key, as Kafka has them."""
        records = await asyncio.to_thread(
            read_to_end, self.kafka, topics.RESOURCES, [0], client_id="test-reader"
        )
        found: dict[str, tuple[int, dict[str, Any]]] = {}
        for record in records:
            key = record.key.decode()
            if record.value is None:
                found.pop(key, None)
            else:
                found[key] = (record.offset, msgspec.json.decode(record.value))
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(kafka_settings: KafkaSettings) -> AsyncIterator[Rig]:
    specs = topics.topic_specs(prefix=kafka_settings.topic_prefix, embedded=True)
    await admin.create_topics(kafka_settings, specs)
    issuer = MemoryIssuer()
    settings = ControlSettings(
        port=0,
        management_port=0,
        kafka=kafka_settings,
        auth=issuer.settings,
        admin_clients=(ADMIN,),
        allowed_callback_networks=(ip_network("127.0.0.0/8"),),
        allow_http_callbacks=True,
        applied_timeout_s=1.0,
    )
    properties = config.producer(kafka_settings, client_id="control-0")
    async with (
        AckProducer(properties) as producer,
        issuer.client() as issuer_client,
        httpx.AsyncClient() as replica_client,
    ):
        process = Process(
            settings, producer, issuer_client=issuer_client, replica_client=replica_client
        )
        running = asyncio.ensure_future(process.run())
        try:
            await leads(process, running)
            yield Rig(process, issuer, kafka_settings)
        finally:
            process.stop.set()
            await running


async def leads(process: Process, running: "asyncio.Future[None]") -> None:
    async with asyncio.timeout(30):
        while not process.ledger.leads or process.fleet.readiness() is not None:
            if running.done():
                await running
            await asyncio.sleep(0.02)


def rover(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tcp.ei.telekom.de/v1",
        "kind": "Rover",
        "metadata": {"name": name},
        "spec": {"zone": "caas", "team": "eni--orders", **spec},
    }


def subscription(event_type: str, **fields: Any) -> dict[str, Any]:
    return {
        "eventType": event_type,
        "deliveryType": "callback",
        "payloadType": "data",
        "callback": "http://127.0.0.1:9/events",
        **fields,
    }


def id_of(client: str, event_type: str) -> str:
    return subscription_id(environment="integration", event_type=event_type, subscriber_id=client)


async def test_a_new_rover_is_stored_with_every_document_at_its_version(rig: Rig) -> None:
    document = rover(
        "first",
        exposures=[{"eventType": "first.v1"}],
        subscriptions=[subscription("first.v1"), subscription("missing.v1")],
    )
    answer = await rig.put_rover(document)
    body = answer.json()
    assert answer.status_code == 201
    assert {name: body[name] for name in ("name", "environment", "clientId")} == {
        "name": "first",
        "environment": "integration",
        "clientId": "eni--orders--first",
    }
    [exposure] = body["exposures"]
    assert exposure["id"] == exposure["eventType"] == "first.v1"
    assert [entry["id"] for entry in body["subscriptions"]] == [
        id_of("eni--orders--first", "first.v1"),
        id_of("eni--orders--first", "missing.v1"),
    ]
    assert len(body["notices"]) == 1
    assert "missing.v1" in body["notices"][0]
    stored = await rig.stored()
    for key in (
        "rover/integration/first",
        "exposure/integration/first.v1",
        f"subscription/integration/{body['subscriptions'][0]['id']}",
    ):
        offset, found = stored[key]
        assert found["version"] == offset
        assert found["status"]["incarnation"] == offset
        assert found["owner"] == "eni--orders--first"
    assert answer.headers["etag"] == f'"{stored["rover/integration/first"][0]}"'
    assert body["resourcesOffset"] == stored["rover/integration/first"][0] + 1


async def test_a_stream_is_stored_with_its_path_and_not_turned_into_a_callback(rig: Rig) -> None:
    stream = {"eventType": "first.v1", "deliveryType": "SSE"}
    answer = await rig.put_rover(rover("reader", subscriptions=[stream]))
    stream_id = id_of("eni--orders--reader", "first.v1")
    [applied] = answer.json()["subscriptions"]
    assert applied["stream"] == f"/v1/integration/sse/{stream_id}"
    _, stored = (await rig.stored())[f"subscription/integration/{stream_id}"]
    assert stored["spec"]["deliveryType"] == "server_sent_event"
    before = await rig.end()
    refused = await rig.put_rover(rover("reader", subscriptions=[subscription("first.v1")]))
    assert (refused.status_code, refused.json()["type"]) == (
        400,
        "urn:meridian:problem:not-available",
    )
    assert [fault["pointer"] for fault in refused.json()["errors"]] == [
        "/spec/subscriptions/0/deliveryType"
    ]
    assert await rig.end() == before


async def test_the_same_rover_again_is_200_and_nothing_is_written(rig: Rig) -> None:
    document = rover("same", exposures=[{"eventType": "same.v1"}])
    first = await rig.put_rover(document)
    before = await rig.end()
    again = await rig.put_rover(document)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert await rig.end() == before


async def test_what_was_applied_can_be_read_and_sent_again(rig: Rig) -> None:
    document = rover("readable", subscriptions=[subscription("readable.v1")])
    written = await rig.put_rover(document)
    read = await rig.send("GET", "rovers/readable", by="eni--orders--readable")
    assert read.headers["etag"] == written.headers["etag"]
    assert read.json()["spec"] == document["spec"]
    [entry] = written.json()["subscriptions"]
    found = await rig.send("GET", f"subscriptions/{entry['id']}", by="eni--orders--readable")
    assert found.json()["version"] == entry["version"]
    same = await rig.send("PUT", f"subscriptions/{entry['id']}", found.json()["spec"])
    assert same.status_code == 200
    assert same.json()["version"] == entry["version"]


async def test_a_rover_replaces_what_it_had_and_a_deleted_one_is_gone(rig: Rig) -> None:
    both = rover(
        "leaving",
        exposures=[{"eventType": "leaving.v1"}],
        subscriptions=[subscription("leaving.v1")],
    )
    await rig.put_rover(both)
    await rig.put_rover(rover("leaving", subscriptions=[subscription("leaving.v1")]))
    assert (await rig.send("GET", "exposures/leaving.v1")).status_code == 404
    subscribed = f"subscriptions/{id_of('eni--orders--leaving', 'leaving.v1')}"
    assert (await rig.send("GET", subscribed)).status_code == 200
    assert (await rig.send("DELETE", "rovers/leaving")).status_code == 204
    for path in ("rovers/leaving", subscribed):
        assert (await rig.send("GET", path)).status_code == 404
    assert (await rig.send("DELETE", "rovers/leaving")).status_code == 404
    stored = await rig.stored()
    offset, kept = stored[f"subscription/integration/{id_of('eni--orders--leaving', 'leaving.v1')}"]
    assert kept["status"]["deleted"] is True
    assert kept["version"] == offset
    assert "rover/integration/leaving" not in stored


async def test_single_resources_can_be_put_and_deleted_by_their_owners(rig: Rig) -> None:
    owner, subscriber = "eni--orders--single", "eni--billing--reader"
    exposed = {"eventType": "single.v1", "visibility": "world"}
    created = await rig.send("PUT", "exposures/single.v1", exposed, by=owner)
    assert created.status_code == 201
    path = f"subscriptions/{id_of(subscriber, 'single.v1')}"
    wanted = {
        "subscriberId": subscriber,
        "type": "single.v1",
        "deliveryType": "CALLBACK",
        "callback": "http://localhost:9/",
        "eventRetentionTime": "1H",
    }
    assert (await rig.send("PUT", path, wanted, by=subscriber)).status_code == 201
    spec = (await rig.send("GET", path, by=subscriber)).json()["spec"]
    assert (spec["publisherId"], spec["eventRetentionTime"]) == ("", "1h")
    assert (await rig.send("DELETE", path, by=subscriber)).status_code == 204
    assert (await rig.send("DELETE", "exposures/single.v1", by=owner)).status_code == 204


async def test_a_list_comes_in_pages_and_shows_what_the_caller_owns(rig: Rig) -> None:
    entries = [subscription(f"listed.v{number}") for number in range(1, 6)]
    await rig.put_rover(rover("lister", subscriptions=entries))
    await rig.put_rover(rover("neighbour", subscriptions=entries[:1]))
    seen: list[str] = []
    cursor = ""
    while True:
        path = f"subscriptions?limit=2{cursor}"
        page = (await rig.send("GET", path, by="eni--orders--lister")).json()
        assert len(page["items"]) <= 2
        seen += [item["spec"]["type"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert sorted(seen) == [f"listed.v{number}" for number in range(1, 6)]
    everything = (await rig.send("GET", "subscriptions?limit=500")).json()["items"]
    assert {"eni--orders--lister", "eni--orders--neighbour"} <= {e["owner"] for e in everything}


async def test_changes_at_once_are_all_stored_each_at_its_version(rig: Rig) -> None:
    names = [f"crowd-{number}" for number in range(12)]
    answers = await asyncio.gather(
        *(rig.put_rover(rover(name, subscriptions=[subscription("crowd.v1")])) for name in names)
    )
    assert {answer.status_code for answer in answers} == {201}
    stored = await rig.stored()
    for name, answer in zip(names, answers, strict=True):
        offset, document = stored[f"rover/integration/{name}"]
        assert document["version"] == offset == answer.json()["resourcesOffset"] - 1


async def test_a_large_rover_is_one_change(rig: Rig) -> None:
    entries = [subscription(f"large.v{number}") for number in range(500)]
    answer = await rig.put_rover(rover("large", subscriptions=entries))
    versions = [entry["version"] for entry in answer.json()["subscriptions"]]
    assert answer.status_code == 201
    assert versions == list(range(versions[0], versions[0] + 500))


async def test_if_match_lets_only_a_change_of_the_known_version_through(rig: Rig) -> None:
    document = rover("matched")
    written = await rig.put_rover(document)
    changed = rover("matched", exposures=[{"eventType": "matched.v1"}])
    refused = await rig.send("PUT", "rovers/matched", changed, if_match='"123456"')
    assert refused.status_code == 412
    made = await rig.send("PUT", "rovers/matched", changed, if_match=written.headers["etag"])
    assert made.status_code == 200
    refused = await rig.send("DELETE", "rovers/matched", if_match=written.headers["etag"])
    assert refused.status_code == 412


async def test_wait_applied_answers_once_the_live_processes_have_the_change(rig: Rig) -> None:
    answer = await rig.put_rover(rover("waited"), "?wait=applied")
    assert answer.status_code == 201


async def test_wait_applied_says_who_lags_and_that_the_change_is_stored(rig: Rig) -> None:
    async with lagging_process(rig, "producer/lagging-0"):
        answer = await rig.put_rover(rover("lagged"), "?wait=applied")
        assert answer.status_code == 504
        assert answer.json()["type"] == "urn:meridian:problem:not-applied-yet"
        assert "producer/lagging-0" in answer.json()["detail"]
        assert (await rig.send("GET", "rovers/lagged")).status_code == 200


@contextlib.asynccontextmanager
async def lagging_process(rig: Rig, key: str) -> AsyncIterator[None]:
    """A live process that has applied nothing, until it is gone again."""
    topic = rig.kafka.topic_prefix + topics.INSTANCES
    line = Instance(address="-", resources_offset=0, at=clock.to_text(clock.utc_now()))
    async with AckProducer(config.producer(rig.kafka, client_id="test")) as producer:
        await producer.send(topic, key=key.encode(), value=encode(line))
        yield
        await producer.send(topic, key=key.encode(), value=None)


GOOD = rover("refused", exposures=[{"eventType": "refused.v1"}])
OTHERS = {"by": "eni--orders--intruder"}
PUT_ROVER = ("PUT", "rovers/refused")


def broken(**fields: Any) -> dict[str, Any]:
    return rover("refused", subscriptions=[subscription("refused.v1", **fields)])


def self_made(**fields: Any) -> tuple[str, str, dict[str, Any]]:
    subscriber = "eni--orders--intruder"
    document = {
        "subscriberId": subscriber,
        "type": "taken.v1",
        "deliveryType": "callback",
        "callback": "http://127.0.0.1:9/",
        **fields,
    }
    return "PUT", f"subscriptions/{id_of(subscriber, 'taken.v1')}", document


REFUSED: list[tuple[tuple[Any, ...], dict[str, str], int, str, str | None]] = [
    ((*PUT_ROVER, GOOD), {"authorization": ""}, 401, "unauthenticated", None),
    ((*PUT_ROVER, GOOD), {"authorization": "Basic eA=="}, 401, "unauthenticated", None),
    ((*PUT_ROVER, GOOD), {"authorization": "Bearer nonsense"}, 401, "unauthenticated", None),
    (("PUT", "/v1/playground/rovers/refused", GOOD), {}, 401, "realm-mismatch", None),
    ((*PUT_ROVER, GOOD), OTHERS, 403, "forbidden", None),
    (("GET", "rovers/taken"), OTHERS, 403, "forbidden", None),
    (("DELETE", "rovers/taken"), OTHERS, 403, "forbidden", None),
    (("DELETE", "exposures/taken.v1"), OTHERS, 403, "forbidden", None),
    (self_made(publisherId="eni--orders--intruder"), OTHERS, 403, "forbidden", None),
    (self_made(additionalPublisherIds=["eni--a--b"]), OTHERS, 403, "forbidden", None),
    (self_made(subscriberId="eni--a--b"), OTHERS, 400, "invalid-resource", "/subscriptionId"),
    (
        ("PUT", "exposures/x.v1", {"eventType": "x.v1", "publisherId": "eni--a--b"}),
        OTHERS,
        403,
        "forbidden",
        None,
    ),
    (("GET", "rovers/nothing"), {}, 404, "not-found", None),
    (("GET", "unknown/nothing"), {}, 404, "not-found", None),
    (("DELETE", "subscriptions/nothing"), {}, 404, "not-found", None),
    (("POST", "rovers/refused", GOOD), {}, 405, "method-not-allowed", None),
    (("GET", "/v1/In_Valid/rovers"), {}, 400, "invalid-request", "/path/environment"),
    (("GET", "rovers?limit=0"), {}, 400, "invalid-request", "/query/limit"),
    (("GET", "rovers?limit=501"), {}, 400, "invalid-request", "/query/limit"),
    (("GET", "rovers?cursor=%25"), {}, 400, "invalid-request", "/query/cursor"),
    (("PUT", "rovers/refused?wait=long", GOOD), {}, 400, "invalid-request", "/query/wait"),
    ((*PUT_ROVER, "x" * 1_048_577), {}, 413, "too-large", None),
    ((*PUT_ROVER, GOOD), {"content_type": "text/plain"}, 415, "unsupported-media-type", None),
    ((*PUT_ROVER, GOOD), {"content_type": ""}, 415, "unsupported-media-type", None),
    ((*PUT_ROVER, ""), {}, 400, "unreadable-body", None),
    ((*PUT_ROVER, "a: [1"), {}, 400, "unreadable-body", None),
    ((*PUT_ROVER, "a: 1\n---\nb: 1\n"), {}, 400, "unreadable-body", None),
    ((*PUT_ROVER, "a: &x 1\nb: *x\n"), {}, 400, "unreadable-body", None),
    ((*PUT_ROVER, "{}"), {"content_type": "application/json"}, 400, "invalid-resource", "/kind"),
    ((*PUT_ROVER, rover("other")), {}, 400, "invalid-resource", "/metadata/name"),
    (
        (*PUT_ROVER, broken(callbak="x")),
        {},
        400,
        "invalid-resource",
        "/spec/subscriptions/0/callbak",
    ),
    *(
        (
            (*PUT_ROVER, broken(callback=url)),
            {},
            400,
            "invalid-resource",
            "/spec/subscriptions/0/callback",
        )
        for url in (
            "/relative",
            "ftp://127.0.0.1/",
            "http://10.0.0.1/",
            "http://[::1]/",
            "http://169.254.169.254/latest/meta-data",
            "http://2852039166/",
            "http://nothing.invalid/",
        )
    ),
    (
        (*PUT_ROVER, broken(trigger={"selectionFilter": {"a": "b"}})),
        {},
        400,
        "not-available",
        "/spec/subscriptions/0/trigger",
    ),
    (
        (*PUT_ROVER, broken(deliveryType="sse")),
        {},
        400,
        "invalid-resource",
        "/spec/subscriptions/0/callback",
    ),
    (
        (*PUT_ROVER, {"kind": "EventSpecification"}),
        {},
        400,
        "not-available",
        "/kind",
    ),
    (
        (*PUT_ROVER, rover("refused", exposures=[{"eventType": "taken.v1"}])),
        {},
        409,
        "conflict",
        None,
    ),
    ((*PUT_ROVER, GOOD), {"if_match": '"1"'}, 412, "precondition-failed", None),
]


@pytest.mark.parametrize(("request_", "headers", "status", "slug", "place"), REFUSED)
async def test_a_broken_request_gets_its_problem_and_stores_nothing(
    rig: Rig,
    request_: tuple[Any, ...],
    headers: dict[str, str],
    status: int,
    slug: str,
    place: str | None,
) -> None:
    await rig.put_rover(rover("taken", exposures=[{"eventType": "taken.v1"}]))
    before = await rig.end()
    answer = await rig.send(*request_, **headers)
    problem = answer.json()
    assert answer.status_code == problem["status"] == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"] == f"urn:meridian:problem:{slug}"
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"] == answer.request.url.path
    if place is not None:
        assert place in [entry["pointer"] for entry in problem["errors"]]
    assert ("www-authenticate" in answer.headers) is (status == 401)
    assert ("allow" in answer.headers) is (status == 405)
    assert await rig.end() == before


async def test_a_conflict_names_the_present_owner(rig: Rig) -> None:
    await rig.put_rover(rover("taken", exposures=[{"eventType": "taken.v1"}]))
    answer = await rig.put_rover(rover("second", exposures=[{"eventType": "taken.v1"}]))
    assert answer.status_code == 409
    assert "eni--orders--taken" in answer.json()["detail"]


async def test_the_openapi_document_names_all_paths(rig: Rig) -> None:
    document = (await rig.send("GET", "/v1/../openapi.json")).json()
    assert {path for path in document["paths"] if path.endswith("{id}")} == {
        "/v1/{environment}/rovers/{id}",
        "/v1/{environment}/exposures/{id}",
        "/v1/{environment}/subscriptions/{id}",
    }
