"""Settings from the environment: what every service shares, and the check for misspelt names.

A service's settings class derives from `ServiceSettings` and sets its prefix
(`MERIDIAN_<SERVICE>_`, nested by `__`). `load` stops at a variable with that prefix that no field
reads: pydantic-settings alone would ignore it silently.
"""

import os
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableSettings

from libs.common.errors import SettingsError

IpNetwork = IPv4Network | IPv6Network


def _split(value: object) -> object:
    """A comma-separated text as a list of its non-empty parts."""
    if not isinstance(value, str):
        return value
    return [part.strip() for part in value.split(",") if part.strip()]


def _networks(value: object) -> object:
    parts = _split(value)
    return [ip_network(part) for part in parts] if isinstance(parts, list) else parts


CommaList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""`a,b,c` in the environment."""

NetworkList = Annotated[tuple[IpNetwork, ...], NoDecode, BeforeValidator(_networks)]
"""`127.0.0.0/8,::1/128` in the environment."""


class KafkaSettings(BaseModel):
    """How to reach Kafka."""

    bootstrap_servers: str = "127.0.0.1:9092"
    topic_prefix: str = Field(default="", description="Put before every topic name.")
    properties: dict[str, str] = Field(
        default_factory=dict,
        description="Further librdkafka properties as JSON, for example for SASL and TLS.",
    )


class AuthSettings(BaseModel):
    """Whose tokens are accepted."""

    trusted_issuers: str = Field(
        default="",
        description="Comma-separated issuer URLs; a last segment `*` trusts every realm there.",
    )
    audience: str | None = Field(default=None, description="When set, `aud` has to contain it.")
    leeway_s: float = Field(default=10.0, ge=0, le=300, description="Tolerated clock difference.")
    keys_ttl_s: float = Field(
        default=300.0, gt=0, description="How long fetched signing keys are used."
    )
    tokens_cached_max: int = Field(
        default=10_000, ge=0, description="Verified tokens kept until expiry."
    )

    def issuers(self) -> tuple[str, ...]:
        """The trusted issuers one by one."""
        return tuple(part.strip() for part in self.trusted_issuers.split(",") if part.strip())


class ServiceSettings(BaseSettings):
    """What every service can be told."""

    model_config = SettingsConfigDict(env_nested_delimiter="__", extra="forbid", frozen=True)

    instance: str = Field(description="Stable name of this replica, e.g. `delivery-0`.")
    host: str = Field(default="127.0.0.1", description="Address that the service listens on.")
    management_port: int = Field(description="Port of /livez, /readyz and /metrics.")
    kafka: KafkaSettings = KafkaSettings()
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$")
    drain_s: float = Field(
        default=22.0, gt=0, le=25, description="Longest orderly stop after SIGTERM."
    )


S = TypeVar("S", bound=ServiceSettings)


def load(settings_class: type[S]) -> S:
    """Reads a service's settings from the environment; SettingsError names every fault."""
    prefix = settings_class.model_config.get("env_prefix", "")
    faults = _unknown(settings_class, prefix)
    try:
        loaded = settings_class()  # pyright: ignore[reportCallIssue] - the environment fills it
    except ValidationError as error:
        faults += [
            f"{prefix}{'__'.join(str(part) for part in fault['loc']).upper()}: {fault['msg']}"
            for fault in error.errors()
        ]
    except UnreadableSettings as error:
        faults.append(f"{error}: {error.__cause__}")
    else:
        if not faults:
            return loaded
    raise SettingsError(f"invalid settings: {'; '.join(faults)}")


def _unknown(settings_class: type[ServiceSettings], prefix: str) -> list[str]:
    """One fault for all variables with the prefix that no setting reads, none if there are none."""
    known = variable_names(settings_class, prefix)
    unknown = sorted(
        name
        for name in os.environ
        if name.upper().startswith(prefix.upper()) and name.upper() not in known
    )
    if not unknown:
        return []
    return [f"unknown are {', '.join(unknown)} (known: {', '.join(sorted(known))})"]


def variable_names(model: type[BaseModel], prefix: str) -> set[str]:
    """Upper-case names of all variables that fill the model, nested models by their parts."""
    names: set[str] = set()
    for name, field in model.model_fields.items():
        variable = f"{prefix}{name}".upper()
        names.add(variable)
        for candidate in (field.annotation, *get_args(field.annotation)):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                names |= variable_names(candidate, f"{variable}__")
    return names
