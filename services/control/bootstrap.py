"""Builds the control plane and runs it."""

import asyncio
from functools import partial

import httpx
from starlette.requests import Request
from starlette.responses import Response

from libs.common import http_server, management, runtime, topics
from libs.common.auth import TokenVerifier
from libs.common.instances import Beacon, decode_instance
from libs.common.kafka import config
from libs.common.kafka.consumer import GroupConsumer
from libs.common.kafka.producer import AckProducer
from libs.common.kafka.table import CompactedTable
from libs.common.records import Instance
from libs.common.resources import Resource, decode_resource
from services.control.adapters.fleet import KafkaFleet
from services.control.adapters.forwarding import Forwarder
from services.control.adapters.leadership import LEADER_SERVICE, Leadership
from services.control.adapters.ledger import KafkaLedger
from services.control.adapters.name_service import SystemNameService
from services.control.api import Api, Parts
from services.control.domain.callbacks import Policy
from services.control.service import Control, Outside
from services.control.settings import ControlSettings

CONNECTIONS_MAX = 50
ISSUER_TIMEOUT_S = 5.0


async def run(settings: ControlSettings) -> None:
    """Runs until SIGTERM; raises what ended it otherwise."""
    properties = config.producer(settings.kafka, client_id=settings.instance)
    limits = httpx.Limits(max_connections=CONNECTIONS_MAX)
    async with (
        AckProducer(properties) as producer,
        httpx.AsyncClient(timeout=ISSUER_TIMEOUT_S, limits=limits, trust_env=False) as client,
    ):
        await Process(settings, producer, issuer_client=client, replica_client=client).run()


class Process:
    """One replica: its parts, wired."""

    def __init__(
        self,
        settings: ControlSettings,
        producer: AckProducer,
        *,
        issuer_client: httpx.AsyncClient,
        replica_client: httpx.AsyncClient,
    ) -> None:
        self.stop = asyncio.Event()
        self._settings = settings
        self._producer = producer
        kafka, name = settings.kafka, settings.instance
        self._resources = CompactedTable[Resource](
            kafka, topics.RESOURCES, decode=decode_resource, client_id=name
        )
        self._instances = CompactedTable[Instance](
            kafka, topics.INSTANCES, decode=decode_instance, client_id=name
        )
        self.ledger = KafkaLedger(kafka, self._resources, client_id=name)
        self.fleet = KafkaFleet(self._instances, timeout_s=settings.applied_timeout_s)
        self._names = SystemNameService()
        self._control = Control(
            Outside(ledger=self.ledger, names=self._names, fleet=self.fleet),
            policy=Policy(
                allow_http=settings.allow_http_callbacks,
                allowed_networks=settings.allowed_callback_networks,
            ),
        )
        self._leadership = Leadership(
            self.ledger,
            {
                "leader-line": self._beacon(LEADER_SERVICE).run,
                "purge": self._control.purge_forever,
            },
        )
        self._consumer = GroupConsumer(
            kafka,
            [topics.RESOURCES],
            group=settings.group,
            instance=name,
            listener=self._leadership,
            on_batch=_leave_to_the_table,
        )
        self._forwarder = Forwarder(replica_client, self.fleet, own_address=settings.address())
        self.app = Api(
            Parts(
                control=self._control,
                verifier=TokenVerifier(settings.auth, issuer_client),
                leads=lambda: self.ledger.leads,
                is_stopping=self.stop.is_set,
                forward=self._forward,
            ),
            settings,
        ).app()

    async def run(self) -> None:
        """Runs until SIGTERM; raises what ended it otherwise."""
        settings = self._settings
        try:
            await runtime.run(
                {"api": self._serve},
                attendants={
                    "management": partial(
                        management.serve,
                        self._readiness(),
                        host=settings.host,
                        port=settings.management_port,
                    ),
                    "resources": self._resources.follow,
                    "instances": self._instances.follow,
                    "line": self._beacon("control").run,
                    "producer": self._producer.watch,
                    "consumer": self._consumer.watch,
                    "leadership": self._leadership.run,
                    "ledger": self.ledger.watch,
                },
                drain_s=settings.drain_s,
                stop=self.stop,
            )
        finally:
            self._names.close()

    async def _serve(self, stop: asyncio.Event) -> None:
        """Leads only once the tables are known; stops leading after the last answer."""
        host, port = self._settings.host, self._settings.port
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    http_server.serve(self.app, host=host, port=port, stop=stop), name="http"
                )
                group.create_task(self._join(stop), name="join")
        finally:
            await self._consumer.close()

    async def _join(self, stop: asyncio.Event) -> None:
        if await runtime.unless_stopped(self._caught_up(), stop):
            self._consumer.start()

    async def _caught_up(self) -> None:
        await self._resources.caught_up()
        await self._instances.caught_up()

    async def _forward(self, request: Request, body: bytes) -> Response:
        target = request.scope.get("raw_path") or request.url.path.encode()
        query = request.scope.get("query_string", b"")
        answer = await self._forwarder.forward(
            request.method,
            (target + (b"?" + query if query else b"")).decode("ascii"),
            headers=dict(request.headers),
            body=body,
        )
        return Response(answer.body, status_code=answer.status, headers=dict(answer.headers))

    def _readiness(self) -> management.Readiness:
        readiness = management.Readiness(self.stop)
        readiness.add("resources", self._resources.readiness)
        readiness.add("leader", self.fleet.readiness)
        return readiness

    def _beacon(self, service: str) -> Beacon:
        return Beacon(
            self._producer,
            topic_prefix=self._settings.kafka.topic_prefix,
            service=service,
            instance=self._settings.instance,
            address=self._settings.address(),
            resources=self._resources,
        )


def _leave_to_the_table(_: object) -> None:
    """The group only decides who leads; the table reads the records for itself."""
