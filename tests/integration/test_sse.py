"""The stream service as a process on a real Kafka, read over real connections."""

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from libs.common import clock, http_server, ids
from libs.common.partitions import partition_of
from libs.common.records import Status, StatusChange, decoder
from libs.common.settings import KafkaSettings
from libs.common.testing.issuer import MemoryIssuer
from libs.common.topics import STATUS, STREAMS
from tests.integration.harness import Service, Topics, running, topics

READER = "eni--bi--reader"
TOPIC = "subscribed-7d"
READ_S = 30.0

LINES = {"accept": "application/stream+json"}
EVENTS = {"accept": "text/event-stream"}

_status = decoder(StatusChange)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform_topics(kafka_settings: KafkaSettings) -> AsyncIterator[Topics]:
    async with topics(kafka_settings) as found:
        yield found


class Desk:
    """Tokens, subscriptions, events and connections."""

    def __init__(self, platform_topics: Topics, issuer: MemoryIssuer, issuer_port: int) -> None:
        self.topics = platform_topics
        self.issuer_url = f"http://127.0.0.1:{issuer_port}/auth/realms"
        self._issuer = issuer
        self._topic_id = ids.uuid7()
        self._written = 0

    def token(self, client_id: str = READER, *, realm: str = "integration") -> str:
        return self._issuer.token(client_id, iss=f"{self.issuer_url}/{realm}")

    async def subscribe(self, name: str = "", **spec: Any) -> str:
        """A subscription of this test, read by READER."""
        given = {"deliveryType": "server_sent_event", "subscriberId": READER, **spec}
        return await self.topics.subscribe(self.subscriber(name), None, **given)

    def subscriber(self, name: str) -> str:
        """No other test has it."""
        return f"{name}-{self._topic_id}"

    async def write(self, subscription: str, event_id: str, **changes: Any) -> str:
        """Writes one subscription event as the multiplexer does, and returns its uuid."""
        self._written += 1
        uuid = ids.uuid7()
        source = {"topicId": self._topic_id, "partition": 0, "leaderEpoch": 0}
        record = {
            "uuid": uuid,
            "multiplexedFrom": ids.uuid7(),
            "environment": "integration",
            "subscriptionId": subscription,
            "subscriptionVersion": self.topics.incarnations[subscription],
            "subscriberId": READER,
            "publisherId": "eni--orders--shop",
            "orderingKey": event_id,
            "source": {**source, "offset": self._written},
            "deliveryType": "SERVER_SENT_EVENT",
            "eventRetentionTime": "7d",
            "publishedAt": clock.to_text(clock.utc_now()),
            "event": {"id": event_id, "type": "orders.v1", "data": {"n": 1}},
            "httpHeaders": {"x-custom": ["v"]},
            **changes,
        }
        await self.topics.put(TOPIC, subscription, json.dumps(record).encode())
        return uuid

    async def finals(self, uuids: set[str]) -> dict[str, list[Status]]:
        """Statuses of the events, once each of them has one."""

        def of(records: list[Any]) -> dict[str, list[Status]]:
            found: dict[str, list[Status]] = {}
            for record in records:
                change = _status.decode(record.value)
                found.setdefault(change.uuid, []).append(change.status)
            return found

        records = await self.topics.read_until(lambda found: uuids <= of(found).keys(), STATUS)
        return of(records)


class Sse(Service):
    """A replica of the stream service."""

    def __init__(self, desk: Desk, folder: Path, name: str = "sse-0", **settings: str) -> None:
        super().__init__(
            "sse",
            desk.topics.kafka,
            folder / f"{name}.log",
            instance=name,
            auth__trusted_issuers=f"{desk.issuer_url}/*",
            **settings,
        )
        self.port += 2 * int(name.rsplit("-", 1)[1])
        self.api_port = self.port + 1
        self._environment["MERIDIAN_SSE_PORT"] = str(self.api_port)
        self._environment["MERIDIAN_SSE_MANAGEMENT_PORT"] = str(self.port)
        self._desk = desk

    def url(self, subscription: str) -> str:
        return f"http://127.0.0.1:{self.api_port}/v1/integration/sse/{subscription}"

    @contextlib.asynccontextmanager
    async def stream(
        self, subscription: str, headers: dict[str, str] = EVENTS, **query: Any
    ) -> AsyncIterator["Reader"]:
        """A connection to the stream of a subscription."""
        given = {"authorization": f"Bearer {self._desk.token()}", **headers}
        async with (
            httpx.AsyncClient(timeout=READ_S) as client,
            client.stream("GET", self.url(subscription), headers=given, params=query) as response,
        ):
            yield Reader(response)


class Reader:
    """What comes over one connection."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()
        self.last_comment = ""

    async def line(self) -> str | None:
        """The next line; None at the end."""
        async with asyncio.timeout(READ_S):
            return await anext(self._lines, None)

    async def event(self) -> tuple[str, dict[str, Any]] | None:
        """Uuid and event of the next frame of an event stream; None at the end."""
        uuid = ""
        while (line := await self.line()) is not None:
            if line.startswith("id: "):
                uuid = line.removeprefix("id: ")
            elif line.startswith("data: "):
                return uuid, json.loads(line.removeprefix("data: "))
            elif line.startswith(":"):
                self.last_comment = line
        return None

    async def ids(self, number: int) -> list[str]:
        """Ids of the next events."""
        found: list[str] = []
        for _ in range(number):
            frame = await self.event()
            assert frame is not None, f"the stream ended after {found}"
            found.append(frame[1]["id"])
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def issuer() -> AsyncIterator[tuple[MemoryIssuer, int]]:
    found, stop = MemoryIssuer(), asyncio.Event()
    listener = http_server.bind("127.0.0.1", 0)
    serving = asyncio.ensure_future(http_server.serve_on(listener, found.app, stop=stop))
    try:
        yield found, listener.getsockname()[1]
    finally:
        stop.set()
        await serving
        listener.close()


@pytest.fixture
def desk(platform_topics: Topics, issuer: tuple[MemoryIssuer, int]) -> Desk:
    return Desk(platform_topics, *issuer)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sse(
    platform_topics: Topics,
    issuer: tuple[MemoryIssuer, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Sse]:
    """A replica with default settings, for tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("sse")
    async with running(Sse(Desk(platform_topics, *issuer), folder, "sse-9")) as found:
        yield found


async def test_events_come_in_order_those_from_before_the_connection_first(
    desk: Desk, sse: Sse
) -> None:
    subscription = await desk.subscribe()
    other = await desk.subscribe("other")
    before = {await desk.write(subscription, f"before-{number}") for number in range(50)}
    async with sse.stream(subscription) as reader:
        assert reader.response.status_code == 200
        assert reader.response.headers["content-type"] == "text/event-stream"
        assert reader.response.headers["cache-control"] == "no-cache"
        assert reader.response.headers["x-accel-buffering"] == "no"
        assert await reader.ids(50) == [f"before-{number}" for number in range(50)]
        for number in range(50):
            await desk.write(other, "foreign")
            before.add(await desk.write(subscription, f"live-{number}"))
        assert await reader.ids(50) == [f"live-{number}" for number in range(50)]
        finals = await desk.finals(before)
        assert all(finals[uuid] == [Status.DELIVERED] for uuid in before)


async def test_lines_are_one_event_each_with_headers_on_request(desk: Desk, sse: Sse) -> None:
    subscription = await desk.subscribe()
    uuid = await desk.write(subscription, "a")
    await desk.write(subscription, "b")
    wanted = {"includeHttpHeaders": "true", "maxNumber": 1}
    async with sse.stream(subscription, LINES, **wanted) as reader:
        assert reader.response.headers["content-type"] == "application/stream+json"
        event = json.loads(await reader.line() or "")
        assert event["id"] == "a"
        assert event["httpHeaders"] == {"x-custom": ["v"], "x-pubsub-offset-id": [uuid]}
        assert await reader.line() is None
    async with sse.stream(subscription, LINES, maxNumber=1) as reader:
        event = json.loads(await reader.line() or "")
        assert event == {"id": "b", "type": "orders.v1", "data": {"n": 1}}


async def test_the_next_connection_goes_on_where_the_last_one_ended(desk: Desk, sse: Sse) -> None:
    subscription = await desk.subscribe()
    for number in range(5):
        await desk.write(subscription, str(number))
        async with sse.stream(subscription) as reader:
            assert await reader.ids(1) == [str(number)]


async def test_a_newer_connection_cuts_the_older_one_out_in_any_process(
    desk: Desk, sse: Sse, tmp_path: Path
) -> None:
    subscription = await desk.subscribe()
    async with running(Sse(desk, tmp_path)) as second, sse.stream(subscription) as older:
        await desk.write(subscription, "a")
        assert await older.ids(1) == ["a"]
        async with second.stream(subscription) as newer:
            assert await older.event() is None
            assert older.last_comment == ": ended cut_out"
            await desk.write(subscription, "b")
            assert await newer.ids(1) == ["b"]
            async with second.stream(subscription) as newest:
                assert await newer.event() is None
                await desk.write(subscription, "c")
                assert await newest.ids(1) == ["c"]


async def test_a_stream_can_be_ended_from_another_process(
    desk: Desk, sse: Sse, tmp_path: Path
) -> None:
    subscription = await desk.subscribe()
    async with running(Sse(desk, tmp_path)) as second, sse.stream(subscription) as reader:
        await desk.write(subscription, "a")
        assert await reader.ids(1) == ["a"]
        async with httpx.AsyncClient() as client:
            answer = await client.post(
                f"{second.url(subscription)}/terminate",
                headers={"authorization": f"Bearer {desk.token()}"},
            )
        assert answer.status_code == 200
        assert await reader.event() is None


async def test_a_killed_process_repeats_little_and_loses_nothing(
    desk: Desk, tmp_path: Path
) -> None:
    subscription = await desk.subscribe()
    sse = Sse(desk, tmp_path)
    seen: list[tuple[str, str]] = []
    async with running(sse):
        async with sse.stream(subscription) as reader:
            for number in range(300):
                await desk.write(subscription, str(number))
            while len(seen) < 150:
                frame = await reader.event()
                assert frame is not None
                seen.append((frame[0], frame[1]["id"]))
            await sse.stop(signal.SIGKILL)
            with contextlib.suppress(httpx.HTTPError):
                while (frame := await reader.event()) is not None:
                    seen.append((frame[0], frame[1]["id"]))
        await sse.start()
        async with sse.stream(subscription) as reader:
            await desk.write(subscription, "last")
            while seen[-1][1] != "last":
                frame = await reader.event()
                assert frame is not None
                seen.append((frame[0], frame[1]["id"]))
    assert {event_id for _, event_id in seen} == {*map(str, range(300)), "last"}
    assert len({uuid for uuid, _ in seen}) == 301


async def test_a_consumer_that_does_not_read_holds_nobody_back(desk: Desk, tmp_path: Path) -> None:
    slow = await desk.subscribe("eni--slow--reader")
    partition = partition_of(slow.encode(), 4)
    names = (f"fast-{number}" for number in range(100))
    fast = await desk.subscribe(
        next(n for n in names if _partition_of(desk.subscriber(n)) == partition)
    )
    settings = {"queue_records_max": "20", "queue_bytes_max": "100000"}
    async with (
        running(Sse(desk, tmp_path, **settings)) as sse,
        sse.stream(slow) as stuck,
        sse.stream(fast) as reader,
    ):
        big = {"id": "big", "type": "orders.v1", "data": "x" * 100_000}
        for _ in range(200):
            await desk.write(slow, "big", event=big)
        await desk.write(fast, "small")
        assert await reader.ids(1) == ["small"]
        assert len(await stuck.ids(200)) == 200


def _partition_of(subscriber: str) -> int:
    found = ids.subscription_id(
        environment="integration", event_type="orders.v1", subscriber_id=subscriber
    )
    return partition_of(found.encode(), 4)


async def test_repeats_foreign_and_expired_events_are_not_sent(desk: Desk, sse: Sse) -> None:
    subscription = await desk.subscribe()
    source = {"topicId": "t", "partition": 3, "leaderEpoch": 1, "offset": 7}
    old = clock.to_text(clock.utc_now() - timedelta(days=8))
    await desk.write(subscription, "a", source=source)
    await desk.write(subscription, "repeated", source=source)
    await desk.write(subscription, "earlier", source={**source, "offset": 6})
    await desk.write(subscription, "former", subscriptionVersion=-1)
    await desk.write(subscription, "callback", deliveryType="CALLBACK")
    expired = await desk.write(subscription, "expired", publishedAt=old)
    await desk.topics.put(TOPIC, subscription, b"{")
    await desk.write(subscription, "timeless", publishedAt="noon")
    await desk.write(subscription, "classless", eventRetentionTime="9d")
    await desk.write(subscription, "b")
    async with sse.stream(subscription) as reader:
        assert await reader.ids(2) == ["a", "b"]
        assert (await desk.finals({expired}))[expired] == [Status.EXPIRED]


async def test_a_stream_ends_with_its_subscription(desk: Desk, sse: Sse) -> None:
    subscription = await desk.subscribe()
    async with sse.stream(subscription) as reader:
        await desk.write(subscription, "a")
        assert await reader.ids(1) == ["a"]
        await desk.topics.put_resource(subscription, None)
        assert await reader.event() is None
        assert reader.last_comment == ": ended subscription_changed"
    await desk.subscribe()
    await desk.write(subscription, "new")
    async with sse.stream(subscription) as reader:
        assert await reader.ids(1) == ["new"]


async def test_silence_ends_lines_with_504_and_is_filled_in_event_streams(
    desk: Desk, tmp_path: Path
) -> None:
    subscription = await desk.subscribe()
    settings = {"idle_timeout_s": "2", "keep_alive_s": "0.3"}
    async with running(Sse(desk, tmp_path, **settings)) as sse:
        async with sse.stream(subscription, LINES) as reader:
            assert reader.response.status_code == 504
            document = json.loads(await reader.response.aread())
            assert document["type"] == "urn:meridian:problem:no-event"
        await desk.write(subscription, "a")
        async with sse.stream(subscription, LINES) as reader:
            assert reader.response.status_code == 200
            assert json.loads(await reader.line() or "")["id"] == "a"
            assert await reader.line() is None
        async with sse.stream(subscription) as reader:
            assert [await reader.line() for _ in range(3)] == [": keep-alive", "", ": keep-alive"]


async def test_an_orderly_stop_ends_streams_and_repeats_nothing(desk: Desk, tmp_path: Path) -> None:
    subscription = await desk.subscribe()
    sse = Sse(desk, tmp_path)
    async with running(sse):
        async with sse.stream(subscription) as reader:
            await desk.write(subscription, "a")
            assert await reader.ids(1) == ["a"]
            stopping = asyncio.ensure_future(sse.stop())
            assert await reader.event() is None
            assert reader.last_comment == ": ended stopping"
        assert await stopping == 0
        await sse.start()
        await desk.write(subscription, "b")
        async with sse.stream(subscription) as reader:
            assert await reader.ids(1) == ["b"]


async def test_who_may_read_and_what_else_is_refused(desk: Desk, sse: Sse) -> None:
    subscription = await desk.subscribe()
    called_back = await desk.subscribe("eni--callback--app", deliveryType="callback")
    good = f"Bearer {desk.token()}"
    cases: list[tuple[int, str, str, str | None, dict[str, str]]] = [
        (401, "unauthenticated", subscription, None, {}),
        (401, "unauthenticated", subscription, "Bearer x.y.z", {}),
        (401, "realm-mismatch", subscription, f"Bearer {desk.token(realm='other')}", {}),
        (403, "not-the-subscriber", subscription, f"Bearer {desk.token('eni--other')}", {}),
        (404, "unknown-subscription", "0" * 40, good, {}),
        (409, "not-a-stream", called_back, good, {}),
        (406, "not-acceptable", subscription, good, {"accept": "image/png"}),
    ]
    async with httpx.AsyncClient() as client:
        for status, slug, wanted, authorization, headers in cases:
            given = {**headers, **({"authorization": authorization} if authorization else {})}
            answer = await client.get(sse.url(wanted), headers=given)
            assert answer.status_code == status, answer.text
            assert answer.json()["type"] == f"urn:meridian:problem:{slug}"
            assert answer.json()["instance"] == f"/v1/integration/sse/{wanted}"
        bad_query = await client.get(
            sse.url(subscription), headers={"authorization": good}, params={"maxNumber": "-1"}
        )
        assert bad_query.status_code == 400
        assert bad_query.json()["errors"][0]["pointer"] == "/query/maxNumber"
        base = f"http://127.0.0.1:{sse.api_port}"
        assert (await client.head(f"{base}/v1/integration/sse")).status_code == 204
        alias = f"{base}/horizon/sse/v1/orders.v1/{subscription}"
        await desk.write(subscription, "a")
        headers = {"authorization": good}
        answer = await client.get(alias, headers=headers, params={"maxNumber": 1}, timeout=READ_S)
        assert answer.json()["id"] == "a"


async def test_there_is_a_largest_number_of_streams_and_metrics_count_them(
    desk: Desk, tmp_path: Path
) -> None:
    one, two = await desk.subscribe(), await desk.subscribe("eni--two")
    await desk.write(one, "a")
    async with running(Sse(desk, tmp_path, streams_max="1")) as sse:
        async with sse.stream(one) as reader, sse.stream(two) as refused:
            assert refused.response.status_code == 503
            assert refused.response.headers["retry-after"] == "5"
            await reader.ids(1)
            await sse.metric_becomes("open_sse_connections", 1.0)
            await sse.metric_becomes("sent_sse_events_total", 1.0)
        await sse.metric_becomes("open_sse_connections", 0.0)


async def test_former_epochs_are_removed_from_the_table(desk: Desk, sse: Sse) -> None:
    subscription = await desk.subscribe()
    for number in range(3):
        await desk.write(subscription, str(number))
        async with sse.stream(subscription) as reader:
            assert await reader.ids(1) == [str(number)]

    def rows(records: list[Any]) -> dict[bytes, bytes | None]:
        own = [one for one in records if subscription.encode() in one.key]
        return {one.key: one.value for one in own}

    def is_clean(records: list[Any]) -> bool:
        left = [key for key, value in rows(records).items() if value is not None]
        last = rows(records).get(max(left, key=len), b"") or b""
        return len(left) == 2 and json.loads(last)["released"] is True

    found = rows(await desk.topics.read_until(is_clean, STREAMS))
    checkpoint = json.loads(found[max((k for k, v in found.items() if v), key=len)] or b"")
    assert checkpoint["nextOffset"] >= 3
    assert checkpoint["pending"] == []
