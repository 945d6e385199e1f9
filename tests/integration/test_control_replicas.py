"""Two replicas of the control plane as processes: one leads, the other passes changes on."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from libs.common import topics
from libs.common.kafka import admin
from libs.common.settings import KafkaSettings
from libs.common.testing.issuer import MemoryIssuer
from tests.conftest import free_ports

PREFIX = "MERIDIAN_CONTROL_"
CLIENT = "eni--orders--shop"
START_S = 40.0


class Issuer:
    """The issuer in memory, behind a socket."""

    def __init__(self) -> None:
        memory = MemoryIssuer()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host = self.headers["host"]
                asked = httpx.Request("GET", f"http://{host}{self.path}")
                body = memory._answer(asked).content
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Says nothing."""

        self._memory = memory
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.realms = f"http://127.0.0.1:{self._server.server_port}/auth/realms"

    def authorization(self) -> str:
        return f"Bearer {self._memory.token(CLIENT, iss=f'{self.realms}/integration')}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Replica:
    """One process."""

    def __init__(
        self, name: str, ports: tuple[int, int], kafka: KafkaSettings, realms: str, log: Path
    ) -> None:
        self.url = f"http://127.0.0.1:{ports[0]}/v1/integration/rovers/shop"
        self._ready_url = f"http://127.0.0.1:{ports[1]}/readyz"
        self._log = log
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(PREFIX)},
            f"{PREFIX}INSTANCE": name,
            f"{PREFIX}PORT": str(ports[0]),
            f"{PREFIX}MANAGEMENT_PORT": str(ports[1]),
            f"{PREFIX}KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            f"{PREFIX}KAFKA__TOPIC_PREFIX": kafka.topic_prefix,
            f"{PREFIX}AUTH__TRUSTED_ISSUERS": f"{realms}/*",
        }
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "services.control"],
                env=self._environ,
                stdout=log,
                stderr=log,
            )

    def wait_ready(self) -> None:
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            assert self.process.poll() is None, self._log.read_text()
            try:
                if httpx.get(self._ready_url).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError(self._log.read_text())

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(25)


class Rig:
    """Both replicas, and documents to send."""

    def __init__(self, first: Replica, second: Replica, issuer: Issuer) -> None:
        self.first = first
        self.second = second
        self._issuer = issuer

    def put(self, replica: Replica, *types: str, wait: bool = True) -> httpx.Response:
        return httpx.put(
            replica.url,
            params={"wait": "applied"} if wait else {},
            json={
                "apiVersion": "tcp.ei.telekom.de/v1",
                "kind": "Rover",
                "metadata": {"name": "shop"},
                "spec": {"team": "eni--orders", "exposures": [{"eventType": t} for t in types]},
            },
            headers={"authorization": self._issuer.authorization()},
            timeout=30,
        )

    def get(self, replica: Replica) -> httpx.Response:
        return httpx.get(replica.url, headers={"authorization": self._issuer.authorization()})


@pytest.fixture
async def kafka_with_topics(kafka_settings: KafkaSettings) -> KafkaSettings:
    specs = topics.topic_specs(prefix=kafka_settings.topic_prefix, embedded=True)
    await admin.create_topics(kafka_settings, specs)
    return kafka_settings


@pytest.fixture
def replicas(kafka_with_topics: KafkaSettings, tmp_path: Path) -> Iterator[Rig]:
    kafka, folder = kafka_with_topics, tmp_path
    base = free_ports("control").base
    issuer = Issuer()
    first = Replica("control-0", (base + 1, base + 101), kafka, issuer.realms, folder / "0.log")
    second: Replica | None = None
    try:
        first.wait_ready()
        second = Replica(
            "control-1", (base + 21, base + 121), kafka, issuer.realms, folder / "1.log"
        )
        second.wait_ready()
        yield Rig(first, second, issuer)
    finally:
        for replica in (first, second):
            if replica is not None and replica.process.poll() is None:
                replica.process.kill()
                replica.process.wait()
        issuer.close()


def test_a_change_reaches_the_leader_through_any_replica_and_survives_it(replicas: Rig) -> None:
    created = replicas.put(replicas.second, "shop.v1")
    assert created.status_code == 201, created.text
    for replica in (replicas.first, replicas.second):
        read = replicas.get(replica)
        assert read.headers["etag"] == created.headers["etag"]
    refused = replicas.put(replicas.second, "Wrong")
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"

    replicas.first.process.kill()
    replicas.first.process.wait()
    taken_over = put_until_led(replicas, "shop.v1", "shop.v2")
    assert taken_over.status_code == 200, taken_over.text
    [kept, added] = taken_over.json()["exposures"]
    assert kept["version"] == created.json()["exposures"][0]["version"]
    assert added["version"] > kept["version"]

    replicas.first.start()
    replicas.first.wait_ready()
    through_the_other = replicas.put(replicas.first, "shop.v2")
    assert through_the_other.status_code == 200, through_the_other.text
    assert replicas.get(replicas.first).headers["etag"] == through_the_other.headers["etag"]

    assert replicas.first.stop() == 0
    assert replicas.second.stop() == 0


def put_until_led(rig: Rig, *types: str) -> httpx.Response:
    """Repeats a change, as its 503 says, until the second replica leads."""
    until_s = time.monotonic() + START_S
    while True:
        answer = rig.put(rig.second, *types, wait=False)
        if answer.status_code != 503 or time.monotonic() > until_s:
            return answer
        assert int(answer.headers["retry-after"]) >= 1
        time.sleep(0.2)


def test_a_misspelt_setting_stops_the_start() -> None:
    environ = {**os.environ, f"{PREFIX}ADMIN_CLIENT": "root"}
    ended = subprocess.run(
        [sys.executable, "-m", "services.control"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 2
    assert f"{PREFIX}ADMIN_CLIENT" in ended.stderr
