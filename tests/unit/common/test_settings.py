"""Settings from the environment."""

from ipaddress import ip_network

import pytest
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from libs.common.errors import SettingsError
from libs.common.settings import AuthSettings, CommaList, NetworkList, ServiceSettings, load

PREFIX = "MERIDIAN_PROBE_"


class ProbeSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX)

    instance: str = "probe-0"
    management_port: int = Field(default=8189, gt=0)
    names: CommaList = ()
    networks: NetworkList = ()
    auth: AuthSettings = AuthSettings()


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    return monkeypatch


def refused(environ: pytest.MonkeyPatch, **variables: str) -> str:
    """What `load` says of these variables."""
    for name, value in variables.items():
        environ.setenv(PREFIX + name, value)
    with pytest.raises(SettingsError) as error:
        load(ProbeSettings)
    return str(error.value)


def test_without_variables_the_defaults_hold() -> None:
    found = load(ProbeSettings)
    assert (found.instance, found.host, found.management_port) == ("probe-0", "127.0.0.1", 8189)
    assert found.kafka.bootstrap_servers == "127.0.0.1:9092"
    assert found.kafka.topic_prefix == ""
    assert found.log_level == "info"
    assert found.networks == ()


def test_variables_are_read_nested_ones_by_two_underscores(environ: pytest.MonkeyPatch) -> None:
    environ.setenv(PREFIX + "INSTANCE", "probe-7")
    environ.setenv(PREFIX + "KAFKA__TOPIC_PREFIX", "blue-")
    environ.setenv(PREFIX + "KAFKA__PROPERTIES", '{"security.protocol": "SSL"}')
    environ.setenv(PREFIX + "AUTH__LEEWAY_S", "3")
    found = load(ProbeSettings)
    assert found.instance == "probe-7"
    assert found.kafka.topic_prefix == "blue-"
    assert found.kafka.bootstrap_servers == "127.0.0.1:9092"
    assert found.kafka.properties == {"security.protocol": "SSL"}
    assert found.auth.leeway_s == 3


def test_lists_are_separated_by_commas(environ: pytest.MonkeyPatch) -> None:
    environ.setenv(PREFIX + "NAMES", "a, b,, c , ,")
    environ.setenv(PREFIX + "NETWORKS", "127.0.0.0/8, ::1/128")
    environ.setenv(PREFIX + "AUTH__TRUSTED_ISSUERS", "http://a/realms/*, http://b")
    found = load(ProbeSettings)
    assert found.names == ("a", "b", "c")
    assert found.networks == (ip_network("127.0.0.0/8"), ip_network("::1/128"))
    assert found.auth.issuers() == ("http://a/realms/*", "http://b")


@pytest.mark.parametrize(
    "name", ["INSTANSE", "KAFKA__BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS", "kafka__topicprefix"]
)
def test_a_variable_that_no_setting_reads_is_named(environ: pytest.MonkeyPatch, name: str) -> None:
    assert f"unknown are {PREFIX}{name} " in refused(environ, **{name: "x"})


def test_variables_of_others_are_not_looked_at(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("MERIDIAN_PROBES_INSTANCE", "x")
    environ.setenv("MERIDIAN_HOME", "x")
    assert load(ProbeSettings).instance == "probe-0"


def test_every_fault_is_named_at_once(environ: pytest.MonkeyPatch) -> None:
    said = refused(
        environ,
        INSTANSE="x",
        MANAGEMENT_PORT="many",
        AUTH__LEEWAY_S="-1",
        NETWORKS="10.0.0.1/8",
        LOG_LEVEL="loud",
    )
    assert f"unknown are {PREFIX}INSTANSE " in said
    for name in ("MANAGEMENT_PORT", "AUTH__LEEWAY_S", "NETWORKS", "LOG_LEVEL"):
        assert f"{PREFIX}{name}: " in said


@pytest.mark.parametrize("name", ["KAFKA", "KAFKA__PROPERTIES"])
def test_a_structure_that_is_not_json_is_a_fault_of_the_settings(
    environ: pytest.MonkeyPatch, name: str
) -> None:
    assert "kafka" in refused(environ, **{name: "{not json"}).lower()


@pytest.mark.parametrize("text", ["10.0.0.0/33", "example.org", "10.0.0.1/8"])
def test_what_is_no_network_is_refused(environ: pytest.MonkeyPatch, text: str) -> None:
    assert PREFIX + "NETWORKS" in refused(environ, NETWORKS=text)


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load(ProbeSettings).instance = "other"  # type: ignore[misc]
