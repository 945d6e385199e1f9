"""What an embedded platform runs: the one list of its services, and how each is started."""

import sys
from dataclasses import dataclass
from enum import Flag, auto
from pathlib import Path
from typing import Final

from deploy.local import ports, probes
from deploy.local.endpoints import Endpoints
from deploy.local.issuer import app as issuer_app
from deploy.local.ports import HOST, Ports, url
from deploy.local.process import Program

REALM: Final = "integration"
ENVIRONMENT: Final = "integration"
ADMIN_CLIENT: Final = "meridian-cli"
"""The client id by which the command line administers a platform."""

CALLBACK_NETWORKS: Final = "127.0.0.0/8,::1/128"


class Needs(Flag):
    """Settings that not every service has."""

    NOTHING = 0
    API = auto()
    AUTH = auto()
    CALLBACKS = auto()
    HTTP_CALLBACKS = auto()
    ADMIN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service of this platform; its port offset is in `ports`."""

    name: str
    needs: Needs = Needs.NOTHING
    endpoint: str | None = None
    """Its field in endpoints.json, for one with an API."""

    @property
    def variable_prefix(self) -> str:
        """What its settings begin with."""
        return f"MERIDIAN_{self.name.upper()}_"


SERVICES: Final = (
    Service(
        name="control",
        needs=Needs.API | Needs.AUTH | Needs.CALLBACKS | Needs.HTTP_CALLBACKS | Needs.ADMIN,
        endpoint="control",
    ),
    Service(name="producer", needs=Needs.API | Needs.AUTH, endpoint="publish"),
    Service(name="multiplexer"),
    Service(name="delivery", needs=Needs.CALLBACKS),
    Service(name="sse", needs=Needs.API | Needs.AUTH, endpoint="sse"),
    Service(
        name="circuit_breaker",
        needs=Needs.API | Needs.AUTH | Needs.ADMIN,
        endpoint="circuit_breaker",
    ),
)
SERVICE_NAMES: Final = tuple(service.name for service in SERVICES)


def issuer_program(home: Path, at: Ports) -> Program:
    """The development issuer."""
    port = at.api("issuer")
    return Program(
        name="issuer",
        command=(
            *(sys.executable, "-P", "-m", "deploy.local.issuer"),
            *("--home", str(home / "issuer"), "--port", str(port)),
        ),
        log=home / "logs" / "issuer.log",
        ready=lambda: probes.http_missing(f"{url(port)}/livez"),
    )


def service_program(service: Service, home: Path, at: Ports) -> Program:
    """A service with the settings that tie it to this platform."""
    ready_url = f"{url(at.management(service.name))}/readyz"
    return Program(
        name=service.name,
        command=(sys.executable, "-P", "-m", f"services.{service.name}"),
        log=home / "logs" / f"{service.name}.log",
        environment=settings(service, at),
        ready=lambda: probes.http_missing(ready_url),
    )


def settings(service: Service, at: Ports) -> dict[str, str]:
    """Environment variables of a service on these ports."""
    values = {
        "INSTANCE": f"{service.name.replace('_', '-')}-0",
        "HOST": HOST,
        "MANAGEMENT_PORT": str(at.management(service.name)),
        "KAFKA__BOOTSTRAP_SERVERS": f"{HOST}:{at.kafka}",
    }
    if Needs.API in service.needs:
        values["PORT"] = str(at.api(service.name))
    if Needs.AUTH in service.needs:
        values["AUTH__TRUSTED_ISSUERS"] = f"{url(at.api('issuer'))}{issuer_app.PATH}/*"
        values["DEFAULT_ENVIRONMENT"] = ENVIRONMENT
    if Needs.CALLBACKS in service.needs:
        values["ALLOWED_CALLBACK_NETWORKS"] = CALLBACK_NETWORKS
    if Needs.HTTP_CALLBACKS in service.needs:
        values["ALLOW_HTTP_CALLBACKS"] = "true"
    if Needs.ADMIN in service.needs:
        values["ADMIN_CLIENTS"] = ADMIN_CLIENT
    return {f"{service.variable_prefix}{name}": value for name, value in values.items()}


def endpoints(at: Ports, *, secret: str, pids: dict[str, int]) -> Endpoints:
    """What endpoints.json says about a platform on these ports."""
    issuer = f"{url(at.api('issuer'))}{issuer_app.PATH}/{REALM}"
    apis = {service.endpoint: url(at.api(service.name)) for service in SERVICES if service.endpoint}
    return Endpoints(
        publish=apis["publish"],
        control=apis["control"],
        sse=apis.get("sse"),
        circuit_breaker=apis.get("circuit_breaker"),
        issuer=issuer,
        token_endpoint=f"{issuer}/protocol/openid-connect/token",
        kafka=f"{HOST}:{at.kafka}",
        redis=f"redis://{HOST}:{at.redis}/0",
        client_secret=secret,
        realm=REALM,
        environment=ENVIRONMENT,
        port_base=at.base,
        pids=pids,
    )


def wanted_ports(at: Ports) -> dict[str, int]:
    """Every port that the platform listens on, by what it is for."""
    return ports.wanted(at, SERVICE_NAMES)
