"""Builds the circuit breaker and runs it."""

import asyncio
from functools import partial

import httpx

from libs.common import http_server, management, runtime, topics
from libs.common.auth import TokenVerifier
from libs.common.instances import Beacon
from libs.common.kafka import config
from libs.common.kafka.producer import AckProducer
from libs.common.kafka.table import CompactedTable
from libs.common.records import Circuit, CircuitStatus
from libs.common.resources import Catalog, Resource, decode_resource
from services.circuit_breaker import api, metrics
from services.circuit_breaker.adapters.tables import (
    TableCircuits,
    decode_circuit,
)
from services.circuit_breaker.service import CircuitBreaker
from services.circuit_breaker.settings import CircuitBreakerSettings

ISSUER_TIMEOUT_S = 5.0


async def run(settings: CircuitBreakerSettings) -> None:
    """Runs until SIGTERM; raises what ended it otherwise."""
    stop = asyncio.Event()
    catalog = Catalog()
    kafka, name = settings.kafka, settings.instance
    resources = CompactedTable[Resource](
        kafka, topics.RESOURCES, decode=decode_resource, client_id=name, on_change=catalog.apply
    )
    circuits = CompactedTable[Circuit](
        kafka, topics.CIRCUITS, decode=decode_circuit, client_id=name
    )
    metrics.open_circuits.set_function(lambda: open_in(circuits))
    readiness = management.Readiness(stop)
    readiness.add("resources", resources.readiness)
    readiness.add("circuits", circuits.readiness)
    async with (
        AckProducer(config.producer(kafka, client_id=name)) as producer,
        httpx.AsyncClient(timeout=ISSUER_TIMEOUT_S, trust_env=False) as issuer_client,
    ):
        app = api.build(
            api.Parts(
                breaker=CircuitBreaker(TableCircuits(circuits), catalog.subscriptions),
                verifier=TokenVerifier(settings.auth, issuer_client),
                not_ready=partial(what_is_missing, readiness),
            ),
            settings,
        )
        beacon = Beacon(
            producer,
            topic_prefix=kafka.topic_prefix,
            service="circuit_breaker",
            instance=name,
            address=f"{settings.host}:{settings.port}",
            resources=resources,
        )
        host, port = settings.host, settings.port
        await runtime.run(
            {"api": lambda stop: http_server.serve(app, host=host, port=port, stop=stop)},
            attendants={
                "management": partial(
                    management.serve, readiness, host=host, port=settings.management_port
                ),
                "resources": resources.follow,
                "circuits": circuits.follow,
                "instances": beacon.run,
                "producer": producer.watch,
            },
            drain_s=settings.drain_s,
            stop=stop,
        )


def open_in(circuits: CompactedTable[Circuit]) -> int:
    """How many circuits are not CLOSED."""
    return sum(circuit.status is not CircuitStatus.CLOSED for circuit in circuits.rows.values())


def what_is_missing(readiness: management.Readiness) -> str | None:
    """The checks that do not pass, in words."""
    is_ready, lines = readiness.report()
    if is_ready:
        return None
    return ", ".join(f"{name}: {line}" for name, line in lines.items() if line != "ok")
