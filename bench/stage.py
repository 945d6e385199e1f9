"""What rows are measured on: a platform of the benchmark's own, a sink, processes beside them."""

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from bench import processes
from deploy.local import home, launch, paths, probes
from deploy.local.endpoints import Endpoints
from deploy.local.ports import HOST, Ports, url
from deploy.local.process import pause
from libs.cli.client import Platform
from libs.cli.rover import Rover
from libs.common.settings import KafkaSettings

HOME: Final = paths.ROOT / ".meridian-bench"
PORT_BASE_DEFAULT: Final = 25_080
SINK_OFFSET: Final = 40
FLOOR_OFFSET: Final = 41
SERVICE_OFFSET: Final = 42
"""Of a service that a row starts for itself; its management port is the next one."""

ARRIVALS_S_MAX: Final = 20.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running platform and sink."""

    folder: Path
    ports: Ports
    endpoints: Endpoints
    platform: Platform
    sink_pid: int
    say: Say
    _runs: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def kafka(self) -> KafkaSettings:
        """The platform's Kafka."""
        return KafkaSettings(bootstrap_servers=self.endpoints.kafka)

    def port(self, offset: int) -> int:
        """A port of the benchmark's own."""
        return self.ports.base + offset

    def log(self, name: str) -> Path:
        """Where a process of the benchmark's own writes."""
        return self.folder / "logs" / f"bench-{name}.log"

    def next_run(self) -> int:
        """A number that no other run of this stage has."""
        return next(self._runs)

    @property
    def callback(self) -> str:
        """Where the sink takes callbacks."""
        return f"{url(self.port(SINK_OFFSET))}/"

    def subscribe(self, name: str, event_type: str) -> str:
        """Exposes a type and subscribes the sink to it; the publisher's client id."""
        body = (
            "kind: Rover\napiVersion: tcp.ei.telekom.de/v1\n"
            f"metadata: {{name: {name}}}\nspec:\n  team: eni--bench\n  zone: local\n"
            f"  exposures:\n    - eventType: {event_type}\n"
            f"  subscriptions:\n    - eventType: {event_type}\n      deliveryType: callback\n"
            f"      payloadType: data\n      callback: {self.callback}\n"
        )
        answer = self.platform.apply(Rover(name=name, body=body.encode()))
        return str(answer["clientId"])

    def token(self, client_id: str) -> str:
        """A real token of the platform's issuer."""
        return self.platform.token(client_id, realm=self.endpoints.realm)

    def arrivals(self, run: int, *, expected: int) -> list[tuple[int, int]]:
        """What came of a run, once everything has or nothing more is to be expected."""
        deadline_s = time.monotonic() + ARRIVALS_S_MAX
        with httpx.Client(base_url=self.callback, trust_env=False, timeout=30.0) as sink:
            while sink.get(f"count/{run}").json() < expected and time.monotonic() < deadline_s:
                pause()
            return [(sequence, at_ns) for sequence, at_ns in sink.get(f"arrivals/{run}").json()]


@contextmanager
def set_up(ports: Ports, *, say: Say) -> Iterator[Stage]:
    """A platform that begins empty, and the sink; both are stopped, logs stay, data does not."""
    home.refuse_running(HOME)
    shutil.rmtree(HOME, ignore_errors=True)
    endpoints = launch.start(HOME, ports, say=say)
    try:
        port = ports.base + SINK_OFFSET
        sink = processes.module(
            "bench.sink",
            *("--host", HOST, "--port", str(port)),
            log=HOME / "logs" / "bench-sink.log",
            ready=lambda: None if probes.is_open(port) else "its port is not open",
        )
        with processes.running([sink]) as pids:
            yield Stage(
                folder=HOME,
                ports=ports,
                endpoints=endpoints,
                platform=Platform(endpoints),
                sink_pid=pids["sink"],
                say=say,
            )
    finally:
        launch.stop(HOME)
        shutil.rmtree(HOME / "kafka", ignore_errors=True)
