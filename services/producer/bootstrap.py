"""Builds the publish service and runs it."""

import asyncio
from functools import partial

import httpx

from libs.common import http_server, management, runtime, topics
from libs.common.auth import TokenVerifier
from libs.common.clock import utc_now
from libs.common.ids import uuid7
from libs.common.instances import Beacon
from libs.common.kafka import config
from libs.common.kafka.producer import AckProducer
from libs.common.kafka.table import CompactedTable
from libs.common.resources import Catalog, Resource, decode_resource
from services.producer import api, metrics
from services.producer.adapters.event_log import KafkaEventLog
from services.producer.adapters.registry import CatalogRegistry
from services.producer.api.endpoint import Limits, PublishEndpoint
from services.producer.domain.forwarded import HeaderFilter
from services.producer.domain.stored import SizeLimit
from services.producer.service import Admission, Outside, Policy, Publisher
from services.producer.settings import ProducerSettings

REQUESTS_DRAIN_S = 15.0
"""Longest time for requests in flight after a stop; less than `drain_s`, the flush comes after."""


async def run(settings: ProducerSettings) -> None:
    """Runs until SIGTERM; raises what ended it otherwise."""
    stop = asyncio.Event()
    catalog = Catalog()
    table = CompactedTable[Resource](
        settings.kafka,
        topics.RESOURCES,
        decode=decode_resource,
        client_id=settings.instance,
        on_change=catalog.apply,
    )
    async with AckProducer(producer_properties(settings)) as producer, httpx.AsyncClient() as http:
        readiness = management.Readiness(stop)
        readiness.add("resources", table.readiness)
        readiness.add("kafka", lambda: None if producer.is_reachable else "no broker answers")
        outside = Outside(
            tokens=TokenVerifier(settings.auth, http),
            registry=CatalogRegistry(table, catalog),
            event_log=KafkaEventLog(producer, topic_prefix=settings.kafka.topic_prefix),
            clock=utc_now,
            new_uuid=uuid7,
        )
        endpoint = build_endpoint(
            settings, outside, not_ready=lambda: "it stops" if stop.is_set() else table.readiness()
        )
        await runtime.run(
            {"api": partial(serve, settings, endpoint)},
            attendants={
                "management": partial(
                    management.serve, readiness, host=settings.host, port=settings.management_port
                ),
                "resources": table.follow,
                "instances": beacon(settings, producer, table).run,
                "producer": producer.watch,
            },
            drain_s=settings.drain_s,
            stop=stop,
        )


def producer_properties(settings: ProducerSettings) -> dict[str, object]:
    """Kafka itself gives up a record in time, so that an answer never contradicts what follows."""
    return {
        **config.producer(settings.kafka, client_id=settings.instance),
        "message.timeout.ms": int(settings.ack_timeout_s * 1000),
    }


def build_endpoint(
    settings: ProducerSettings, outside: Outside, *, not_ready: api.NotReadyReason
) -> PublishEndpoint:
    """The publish route with its use case and its bounds."""
    policy = Policy(
        default_environment=settings.default_environment,
        size_limit=SizeLimit(
            data_bytes_max=settings.max_data_bytes,
            exempt_types=frozenset(settings.max_data_exempt_types),
        ),
        header_filter=HeaderFilter(settings.dropped_headers),
    )
    admission = Admission(
        requests_max=settings.in_flight_max, bytes_max=settings.body_bytes_in_flight_max
    )
    metrics.in_flight.set_function(lambda: admission.requests)
    metrics.body_bytes_in_flight.set_function(lambda: admission.bytes)
    return PublishEndpoint(
        Publisher(outside, policy),
        admission,
        limits=Limits(
            body_bytes_max=settings.body_bytes_max, body_timeout_s=settings.body_timeout_s
        ),
        not_ready=not_ready,
        clock=outside.clock,
    )


def beacon(
    settings: ProducerSettings, producer: AckProducer, table: CompactedTable[Resource]
) -> Beacon:
    """Says where this instance lives and what it has applied."""
    return Beacon(
        producer,
        topic_prefix=settings.kafka.topic_prefix,
        service="producer",
        instance=settings.instance,
        address=f"{settings.host}:{settings.port}",
        resources=table,
    )


async def serve(settings: ProducerSettings, endpoint: PublishEndpoint, stop: asyncio.Event) -> None:
    """Serves until the stop, then answers what is in flight."""
    await http_server.serve(
        api.build(endpoint),
        host=settings.host,
        port=settings.port,
        stop=stop,
        drain_s=REQUESTS_DRAIN_S,
        connections_max=settings.connections_max,
    )
