"""Settings of the publish service, from variables `MERIDIAN_PRODUCER_…`."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import SettingsConfigDict

from libs.common.settings import AuthSettings, CommaList, ServiceSettings
from libs.common.topics import PUBLISHED_BYTES_MAX

ENVELOPE_BYTES_MAX = 65_536
"""What a body may have beside the data."""

DROPPED_HEADERS_DEFAULT = (
    "x-spacegate-token",
    "authorization",
    "content-length",
    "host",
    "accept.*",
    "x-forwarded.*",
    "cookie",
)
"""Horizon's list."""


def _patterns(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"{value!r} is no regular expression: {error}") from error
    return values


class ProducerSettings(ServiceSettings):
    """What the publish service can be told."""

    model_config = SettingsConfigDict(env_prefix="MERIDIAN_PRODUCER_")

    instance: str = "producer-0"
    port: int = Field(default=8080, description="Port of the publish API.")
    management_port: int = 8180
    auth: AuthSettings = AuthSettings()
    default_environment: str = Field(
        default="integration",
        description="Takes tokens of realm `default` too; the alias path uses it for them.",
    )
    max_data_bytes: int = Field(
        default=1_048_576,
        gt=0,
        le=PUBLISHED_BYTES_MAX,
        description="Largest `data` of one event, serialized.",
    )
    max_data_exempt_types: CommaList = Field(
        default=(), description="Event types bound only by what a record can hold."
    )
    dropped_headers: Annotated[CommaList, AfterValidator(_patterns)] = Field(
        default=DROPPED_HEADERS_DEFAULT,
        description="Regular expressions of lower-case header names that subscribers do not get.",
    )
    in_flight_max: int = Field(default=2_000, gt=0, description="Requests answered at once.")
    body_bytes_in_flight_max: int = Field(
        default=268_435_456, gt=0, description="Bytes of all bodies that are held at once."
    )
    body_timeout_s: float = Field(
        default=10.0, gt=0, le=60, description="Longest time for a body to arrive."
    )
    ack_timeout_s: float = Field(
        default=30.0, gt=0, le=300, description="Longest wait for Kafka's acknowledgement."
    )
    connections_max: int = Field(default=10_000, gt=0, description="Connections held at once.")

    @property
    def body_bytes_max(self) -> int:
        """Largest body: data and envelope, or what a record can hold where types are exempt."""
        if self.max_data_exempt_types:
            return PUBLISHED_BYTES_MAX
        return min(self.max_data_bytes + ENVELOPE_BYTES_MAX, PUBLISHED_BYTES_MAX)
