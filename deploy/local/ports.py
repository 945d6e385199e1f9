"""The ports of an embedded platform: all of them follow from one base (`docs/`)."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

BASE_DEFAULT: Final = 8080
DEMO_BASE_DEFAULT: Final = 28_080
BASE_MIN: Final = 1_024
BASE_MAX: Final = 65_535 - 1_013

API_OFFSETS: Final[Mapping[str, int]] = {
    "producer": 0,
    "control": 1,
    "sse": 2,
    "circuit_breaker": 3,
    "multiplexer": 4,
    "delivery": 5,
    "issuer": 9,
}

WITHOUT_API: Final = frozenset({"multiplexer", "delivery"})
"""Their offset only places their management port."""

MANAGEMENT_OFFSET: Final = 100
KAFKA_OFFSET: Final = 1_012
KAFKA_CONTROLLER_OFFSET: Final = 1_013
REDIS_OFFSET: Final = 298

HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports that follow from `base`, which is between BASE_MIN and BASE_MAX."""

    base: int = BASE_DEFAULT

    def __post_init__(self) -> None:
        if not BASE_MIN <= self.base <= BASE_MAX:
            raise ValueError(f"the port base has to be between {BASE_MIN} and {BASE_MAX}")

    def api(self, name: str) -> int:
        """Port of a service's API, or of the issuer."""
        return self.base + API_OFFSETS[name]

    def management(self, name: str) -> int:
        """Port of a service's /livez, /readyz and /metrics."""
        return self.api(name) + MANAGEMENT_OFFSET

    @property
    def kafka(self) -> int:
        """Where clients reach Kafka."""
        return self.base + KAFKA_OFFSET

    @property
    def kafka_controller(self) -> int:
        """Where Kafka's controller listens."""
        return self.base + KAFKA_CONTROLLER_OFFSET

    @property
    def redis(self) -> int:
        """Where Redis listens."""
        return self.base + REDIS_OFFSET


def url(port: int) -> str:
    """Base URL of something on this machine, without a slash at its end."""
    return f"http://{HOST}:{port}"


def taken(wanted: Mapping[str, int]) -> dict[str, int]:
    """Those of the wanted ports, by what they are for, on which something listens already."""
    return {name: port for name, port in wanted.items() if not can_listen(port)}


def can_listen(port: int) -> bool:
    """Whether a server could be started on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_base(*, names: tuple[str, ...], candidates: range) -> int:
    """The first base of the candidates with all ports free; ValueError when there is none."""
    for base in candidates:
        if not taken(wanted(Ports(base), names)):
            return base
    raise ValueError(f"no free ports between {candidates.start} and {candidates.stop}")


def wanted(ports: Ports, names: tuple[str, ...]) -> dict[str, int]:
    """Every port that a platform with these services listens on, by what it is for."""
    management = {f"{name} management": ports.management(name) for name in names}
    return {
        **{name: ports.api(name) for name in (*names, "issuer") if name not in WITHOUT_API},
        **management,
        "kafka": ports.kafka,
        "kafka controller": ports.kafka_controller,
        "redis": ports.redis,
    }
