"""Where a platform is: home, ports, endpoints.json."""

import socket
import stat
from pathlib import Path

import pytest

from deploy.local import endpoints, paths, ports, programs
from deploy.local.errors import NotRunning
from deploy.local.ports import Ports


def test_a_chosen_home_comes_first(tmp_path: Path) -> None:
    chosen = paths.home(tmp_path / "a", environ={"MERIDIAN_HOME": "/b"}, start=tmp_path)
    assert chosen == tmp_path / "a"


def test_the_variable_comes_before_a_folder_that_is_found(tmp_path: Path) -> None:
    (tmp_path / ".meridian").mkdir()
    assert paths.home(None, environ={"MERIDIAN_HOME": "/b"}, start=tmp_path) == Path("/b")


def test_the_home_is_found_in_a_folder_above(tmp_path: Path) -> None:
    (tmp_path / ".meridian").mkdir()
    below = tmp_path / "x" / "y"
    below.mkdir(parents=True)
    assert paths.home(None, environ={}, start=below) == tmp_path / ".meridian"


def test_the_cache_can_be_put_elsewhere() -> None:
    assert paths.cache({"MERIDIAN_CACHE": "/var/cache/meridian"}) == Path("/var/cache/meridian")
    assert paths.cache({}) == paths.ROOT / ".cache"


def test_ports_follow_from_the_base() -> None:
    at = Ports(8080)
    found = (at.api("producer"), at.api("control"), at.api("issuer"), at.kafka, at.redis)
    assert found == (8080, 8081, 8089, 9092, 8378)
    assert at.kafka_controller == 9093
    assert [at.management(name) for name in ("producer", "multiplexer", "delivery")] == [
        8180,
        8184,
        8185,
    ]


def test_no_two_parts_of_a_platform_share_a_port() -> None:
    wanted = programs.wanted_ports(Ports(8080))
    assert len(set(wanted.values())) == len(wanted)


def test_a_base_beyond_the_last_port_is_refused() -> None:
    with pytest.raises(ValueError, match="port base"):
        Ports(65_000)


def test_a_port_on_which_something_listens_is_named() -> None:
    with socket.create_server((ports.HOST, 0)) as listener:
        port = listener.getsockname()[1]
        assert ports.taken({"kafka": port}) == {"kafka": port}
    assert ports.taken({"kafka": port}) == {}


def test_endpoints_are_read_as_they_were_written(tmp_path: Path) -> None:
    written = programs.endpoints(Ports(8080), secret="s3cret", pids={"kafka": 12})
    endpoints.write(tmp_path, written)
    assert endpoints.read(tmp_path) == written


def test_only_the_owner_can_read_the_client_secret(tmp_path: Path) -> None:
    endpoints.write(tmp_path, programs.endpoints(Ports(8080), secret="s3cret", pids={}))
    mode = stat.S_IMODE((tmp_path / "endpoints.json").stat().st_mode)
    assert mode == 0o600


def test_a_home_without_endpoints_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match="meridian up"):
        endpoints.read(tmp_path)


def test_broken_endpoints_are_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "endpoints.json").write_text('{"publish":')
    with pytest.raises(NotRunning, match="cannot be read"):
        endpoints.read(tmp_path)


def test_the_token_endpoint_of_another_realm_differs_in_the_realm_only() -> None:
    found = programs.endpoints(Ports(8080), secret="s", pids={}).token_endpoint_of("playground")
    assert found == ("http://127.0.0.1:8089/auth/realms/playground/protocol/openid-connect/token")


def test_services_are_tied_to_the_platform_by_settings_alone() -> None:
    by_name = {service.name: service for service in programs.SERVICES}
    producer = programs.settings(by_name["producer"], Ports(8080))
    assert producer["MERIDIAN_PRODUCER_AUTH__TRUSTED_ISSUERS"] == (
        "http://127.0.0.1:8089/auth/realms/*"
    )
    assert producer["MERIDIAN_PRODUCER_PORT"] == "8080"
    delivery = programs.settings(by_name["delivery"], Ports(8080))
    assert "MERIDIAN_DELIVERY_PORT" not in delivery
    assert delivery["MERIDIAN_DELIVERY_KAFKA__BOOTSTRAP_SERVERS"] == "127.0.0.1:9092"


def test_administrators_are_named_to_every_service_that_knows_them() -> None:
    by_name = {service.name: service for service in programs.SERVICES}
    breaker = programs.settings(by_name["circuit_breaker"], Ports(8080))
    assert breaker["MERIDIAN_CIRCUIT_BREAKER_ADMIN_CLIENTS"] == "meridian-cli"
    assert breaker["MERIDIAN_CIRCUIT_BREAKER_INSTANCE"] == "circuit-breaker-0"
    assert "MERIDIAN_CIRCUIT_BREAKER_ALLOW_HTTP_CALLBACKS" not in breaker
    control = programs.settings(by_name["control"], Ports(8080))
    assert control["MERIDIAN_CONTROL_ALLOW_HTTP_CALLBACKS"] == "true"
    assert control["MERIDIAN_CONTROL_ADMIN_CLIENTS"] == "meridian-cli"
