"""Builds the stream service and runs it."""

import asyncio
from functools import partial

import httpx
from starlette.types import ASGIApp

from libs.common import http_server, management, runtime, topics
from libs.common.auth import TokenVerifier
from libs.common.clock import utc_now
from libs.common.errors import PermanentError
from libs.common.http_stream import StreamingHttp
from libs.common.instances import Beacon
from libs.common.kafka import admin, config
from libs.common.kafka.producer import AckProducer
from libs.common.kafka.table import CompactedTable
from libs.common.records import StreamRecord, stream_record
from libs.common.resources import Catalog, Resource, decode_resource
from services.sse.adapters.feed import LaneFeed
from services.sse.adapters.stream_log import KafkaStreamLog
from services.sse.api import Api, Parts
from services.sse.domain.claims import Claims
from services.sse.service.stream import Outside
from services.sse.service.streams import Streams
from services.sse.settings import SseSettings

LINGER_MS = 5.0
ISSUER_TIMEOUT_S = 5.0


async def run(settings: SseSettings) -> None:
    """Runs until SIGTERM; raises what ended it otherwise."""
    properties = {
        **config.producer(settings.kafka, client_id=settings.instance, linger_ms=LINGER_MS),
        "message.timeout.ms": 0,
    }
    async with (
        AckProducer(properties) as producer,
        httpx.AsyncClient(timeout=ISSUER_TIMEOUT_S, trust_env=False) as client,
    ):
        process = Process(settings, producer, client, partitions=await partitions(settings))
        await process.run()


async def partitions(settings: SseSettings) -> int:
    """Partitions of each topic that holds lanes; raises PermanentError when they differ."""
    placed = [settings.kafka.topic_prefix + name for name in (*topics.SUBSCRIBED, topics.STREAMS)]
    counts = await admin.partition_counts(settings.kafka, placed)
    if len(set(counts.values())) != 1:
        raise PermanentError(f"these topics need the same number of partitions: {counts}")
    return counts[placed[0]]


class Process:
    """One replica: its parts, wired."""

    def __init__(
        self,
        settings: SseSettings,
        producer: AckProducer,
        client: httpx.AsyncClient,
        *,
        partitions: int,
    ) -> None:
        self._settings = settings
        self._producer = producer
        self._stop = asyncio.Event()
        catalog = Catalog()
        self._resources = CompactedTable[Resource](
            settings.kafka,
            topics.RESOURCES,
            decode=decode_resource,
            client_id=settings.instance,
            on_change=self._resource_read,
        )
        self._claims = CompactedTable[StreamRecord](
            settings.kafka,
            topics.STREAMS,
            decode=stream_record,
            client_id=settings.instance,
            on_change=self._claim_read,
        )
        self._feed = LaneFeed(settings)
        self._catalog = catalog
        self._streams = Streams(
            settings,
            Outside(
                subscriptions=catalog.subscriptions,
                claims=Claims(),
                log=KafkaStreamLog(settings, producer, self._claims),
                feed=self._feed,
                clock=utc_now,
                partitions=partitions,
            ),
        )
        verifier = TokenVerifier(settings.auth, client)
        self._api = Api(
            Parts(streams=self._streams, verifier=verifier, not_ready=self._not_ready), settings
        )

    async def run(self) -> None:
        """Runs until SIGTERM; raises what ended it otherwise."""
        settings = self._settings
        await runtime.run(
            {"api": partial(self._serve, self._api.app())},
            attendants={
                "management": partial(
                    management.serve,
                    self._readiness(),
                    host=settings.host,
                    port=settings.management_port,
                ),
                "resources": self._resources.follow,
                "streams": self._claims.follow,
                "instances": self._beacon().run,
                "producer": self._producer.watch,
                "feed": self._feed.run,
                "checkpoint": self._streams.checkpoint_forever,
            },
            drain_s=settings.drain_s,
            stop=self._stop,
        )

    async def _serve(self, app: ASGIApp, stop: asyncio.Event) -> None:
        """Serves until the stop; then every stream ends, and after the last one the server."""
        settings = self._settings
        ended = asyncio.Event()
        with http_server.bind(settings.host, settings.port) as listener:
            async with asyncio.TaskGroup() as group:
                serving = http_server.serve_on(
                    listener,
                    app,
                    stop=ended,
                    connections_max=settings.connections_max,
                    protocol=StreamingHttp,
                )
                group.create_task(serving, name="http")
                await stop.wait()
                await self._streams.drain()
                ended.set()

    def _resource_read(self, key: str, resource: Resource | None) -> None:
        self._catalog.apply(key, resource)
        self._streams.subscription_read(key.rsplit("/", 1)[-1])

    def _claim_read(self, key: str, record: StreamRecord | None) -> None:
        self._streams.claim_read(key, record, self._claims.offsets.get(key, -1))

    def _not_ready(self) -> str | None:
        if self._stop.is_set():
            return "it stops"
        return self._resources.readiness() or self._claims.readiness()

    def _readiness(self) -> management.Readiness:
        readiness = management.Readiness(self._stop)
        readiness.add("resources", self._resources.readiness)
        readiness.add("streams", self._claims.readiness)
        readiness.add("kafka", lambda: None if self._producer.is_reachable else "no broker answers")
        return readiness

    def _beacon(self) -> Beacon:
        settings = self._settings
        return Beacon(
            self._producer,
            topic_prefix=settings.kafka.topic_prefix,
            service="sse",
            instance=settings.instance,
            address=f"{settings.host}:{settings.port}",
            resources=self._resources,
        )
