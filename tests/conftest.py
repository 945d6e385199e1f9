"""What tests share: a real Kafka, a real Redis, and a whole platform, each started once per run.

They come from the embedded platform, on free ports and in temporary folders. With `--containers`
Kafka runs in a container instead. A broker that cannot be had is an error, never a skipped test.
"""

import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local import launch, ports, programs
from deploy.local.endpoints import Endpoints
from deploy.local.kafka_process import KafkaProcess
from deploy.local.ports import Ports
from deploy.local.redis_process import RedisProcess
from libs.common.settings import KafkaSettings
from tests.results import ROOT, Results

BASES = range(11_000, 31_000, 200)
"""Port bases for tests: below the range from which outgoing connections get their ports."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--containers", action="store_true", help="run Kafka in a container instead of embedded"
    )


def free_ports(*names: str) -> Ports:
    """Free ports for a platform with these services; concurrent runs look in different places."""
    first = os.getpid() * 7 % len(BASES)
    for candidates in (BASES[first:], BASES[:first]):
        try:
            return Ports(ports.free_base(names=names, candidates=candidates))
        except ValueError:
            continue
    raise RuntimeError("no free ports for tests")


@pytest.fixture(scope="session")
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Bootstrap address of a real Kafka."""
    if request.config.getoption("--containers"):
        yield from container_kafka()
        return
    process = KafkaProcess(tmp_path_factory.mktemp("kafka"), free_ports().kafka)
    process.start()
    try:
        process.wait_ready()
        yield process.bootstrap_servers
    finally:
        process.stop()


def container_kafka() -> Iterator[str]:
    """Bootstrap address of Kafka in a container."""
    from testcontainers.kafka import KafkaContainer

    with KafkaContainer().with_kraft() as container:
        yield container.get_bootstrap_server()


@pytest.fixture(scope="module")
def topic_prefix(request: pytest.FixtureRequest) -> str:
    """A prefix for topics that no other test module uses."""
    module = re.sub(r"[^a-z0-9]+", "-", Path(str(request.path)).stem)
    return f"{module}-{uuid.uuid4().hex[:8]}-"


@pytest.fixture(scope="module")
def kafka_settings(kafka: str, topic_prefix: str) -> KafkaSettings:
    """Settings of a service that has Kafka to itself; its topics do not exist yet."""
    return KafkaSettings(bootstrap_servers=kafka, topic_prefix=topic_prefix)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a real Redis."""
    process = RedisProcess(tmp_path_factory.mktemp("redis"), free_ports().redis)
    process.start()
    try:
        process.wait_ready()
        yield process.url
    finally:
        process.stop()


@pytest.fixture(scope="session")
def platform_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Home of the platform that `platform` starts."""
    return tmp_path_factory.mktemp("platform")


@pytest.fixture(scope="session")
def platform(platform_home: Path) -> Iterator[Endpoints]:
    """A whole platform: Kafka, Redis, issuer and all services."""
    started = launch.start(platform_home, free_ports(*programs.SERVICE_NAMES), say=print)
    try:
        yield started
    finally:
        launch.stop(platform_home)


@pytest.fixture(scope="session")
def results() -> Results:
    """Where long tests leave their figures for the repository."""
    return Results(ROOT / "docs" / "results")
