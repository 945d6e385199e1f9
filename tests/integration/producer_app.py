"""The publish service in this process, on a real Kafka, for tests."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from confluent_kafka import Message
from starlette.types import ASGIApp

from libs.common import topics
from libs.common.auth import TokenVerifier
from libs.common.clock import utc_now
from libs.common.ids import uuid7
from libs.common.kafka import admin
from libs.common.kafka.producer import AckProducer
from libs.common.kafka.table import CompactedTable
from libs.common.records import PublishedEvent, decoder, encode
from libs.common.resources import Catalog, Kind, Resource, decode_resource, resource_key
from libs.common.settings import KafkaSettings
from libs.common.testing.issuer import MemoryIssuer
from libs.common.testing.reading import Ends, end_offsets, records_since
from libs.common.topics import topic_specs
from services.producer import api
from services.producer.adapters.event_log import KafkaEventLog
from services.producer.adapters.registry import CatalogRegistry
from services.producer.bootstrap import build_endpoint, producer_properties
from services.producer.service import Outside
from services.producer.settings import ProducerSettings

SHOP = "eni--orders--shop"
SUBSCRIBED = "orders.created.v1"
LONELY = "orders.lonely.v1"
LEGACY = "orders.legacy.v1"
BIG = "orders.big.v1"
PATH = "/v1/integration/events"
EVENT_ID = "018f3c1e-7a52-7bd0-9c1f-2f6d1c1a9b10"

_published = decoder(PublishedEvent)


@dataclass(frozen=True)
class Producer:
    """The running app, and what it stores."""

    app: ASGIApp
    client: httpx.AsyncClient
    issuer: MemoryIssuer
    settings: ProducerSettings

    def headers(self, **more: str) -> dict[str, str]:
        """Headers of a good request; underscores in names stand for dashes."""
        changed = {name.replace("_", "-"): value for name, value in more.items()}
        token = self.issuer.token(SHOP)
        good = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        return {**good, **changed}

    async def ends(self) -> Ends:
        """Where `published` ends now."""
        return await end_offsets(self.settings.kafka, topics.PUBLISHED)

    async def stored_since(self, ends: Ends) -> list[tuple[Message, PublishedEvent]]:
        """The records that were stored after `ends`."""
        found = await records_since(self.settings.kafka, topics.PUBLISHED, ends)
        return [(message, _published.decode(message.value() or b"")) for message in found]


def event(**fields: Any) -> dict[str, Any]:
    """A good event; a field that is set to `...` is left out."""
    good: dict[str, Any] = {
        "id": EVENT_ID,
        "type": SUBSCRIBED,
        "source": "https://shop.example/orders",
        "specversion": "1.0",
        "datacontenttype": "application/json",
        "data": {"order": 1},
    }
    return {name: value for name, value in {**good, **fields}.items() if value is not ...}


def body(**fields: Any) -> bytes:
    """A good event as JSON."""
    return json.dumps(event(**fields)).encode()


async def prepare(kafka: KafkaSettings) -> None:
    """Creates the topics and the resources that the tests publish to."""
    await admin.create_topics(kafka, topic_specs(prefix=kafka.topic_prefix, embedded=True))
    documents = [_exposure(name) for name in (SUBSCRIBED, LONELY, BIG)]
    documents += [_subscription(SUBSCRIBED, ""), _subscription(LEGACY, SHOP)]
    async with AckProducer(producer_properties(ProducerSettings(kafka=kafka))) as producer:
        topic = kafka.topic_prefix + topics.RESOURCES
        for document in documents:
            key = resource_key(document.kind, document.environment, document.id)
            await producer.send(topic, key=key.encode(), value=encode(document))


@asynccontextmanager
async def running(kafka: KafkaSettings, **settings: Any) -> AsyncIterator[Producer]:
    """The app with its table caught up."""
    issuer = MemoryIssuer()
    found = ProducerSettings(kafka=kafka, auth=issuer.settings, **settings)
    catalog = Catalog()
    table = CompactedTable[Resource](
        kafka,
        topics.RESOURCES,
        decode=decode_resource,
        client_id="producer-test",
        on_change=catalog.apply,
    )
    following = asyncio.ensure_future(table.follow())
    try:
        async with AckProducer(producer_properties(found)) as producer, issuer.client() as http:
            outside = Outside(
                tokens=TokenVerifier(found.auth, http),
                registry=CatalogRegistry(table, catalog),
                event_log=KafkaEventLog(producer, topic_prefix=kafka.topic_prefix),
                clock=utc_now,
                new_uuid=uuid7,
            )
            app = api.build(build_endpoint(found, outside, not_ready=table.readiness))
            await table.caught_up()
            async with client(app) as connected:
                yield Producer(app, connected, issuer, found)
    finally:
        following.cancel()
        await asyncio.wait({following})


def client(app: ASGIApp) -> httpx.AsyncClient:
    """Calls the app without a network."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://producer.test")


def _exposure(event_type: str) -> Resource:
    spec = {"eventType": event_type, "publisherId": SHOP}
    return _document(Kind.EXPOSURE, event_type, spec)


def _subscription(event_type: str, publisher: str) -> Resource:
    spec = {
        "subscriptionId": f"subscription-of-{event_type}",
        "subscriberId": "eni--billing--invoices",
        "publisherId": publisher,
        "type": event_type,
        "deliveryType": "callback",
        "callback": "https://billing.example/events",
    }
    return _document(Kind.SUBSCRIPTION, f"subscription-of-{event_type}", spec)


def _document(kind: Kind, resource_id: str, spec: Mapping[str, Any]) -> Resource:
    return Resource(
        kind=kind,
        environment="integration",
        id=resource_id,
        version=0,
        created_at="2026-11-20T10:00:00.000Z",
        updated_at="2026-11-20T10:00:00.000Z",
        owner=SHOP,
        spec=dict(spec),
    )
