"""Settings of the stream service, from variables `MERIDIAN_SSE_…`."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from libs.common.settings import AuthSettings, ServiceSettings


class SseSettings(ServiceSettings):
    """What the stream service can be told."""

    model_config = SettingsConfigDict(env_prefix="MERIDIAN_SSE_")

    instance: str = "sse-0"
    port: int = Field(default=8082, description="Port of the stream API.")
    management_port: int = 8182
    auth: AuthSettings = AuthSettings()
    default_environment: str = Field(
        default="integration",
        description="Takes tokens of realm `default` too; the alias path uses it for them.",
    )
    streams_max: int = Field(default=1_000, gt=0, description="Streams open at once.")
    connections_max: int = Field(default=2_000, gt=0, description="Connections held at once.")
    queue_records_max: int = Field(
        default=500, gt=0, description="Events read ahead of one consumer."
    )
    queue_bytes_max: int = Field(
        default=4_194_304, gt=0, description="Bytes of the events read ahead of one consumer."
    )
    queued_bytes_max: int = Field(
        default=268_435_456, gt=0, description="Bytes of all events read ahead in this process."
    )
    unstored_max: int = Field(
        default=1_000, gt=0, description="Events of one stream sent but not recorded as delivered."
    )
    scans_max: int = Field(
        default=4, gt=0, le=32, description="Readers for streams that are behind the end."
    )
    checkpoint_interval_s: float = Field(default=0.2, gt=0, le=5)
    idle_timeout_s: float = Field(
        default=60.0, gt=0, description="A stream of JSON lines ends after so long without event."
    )
    keep_alive_s: float = Field(
        default=15.0, gt=0, description="Between comments to a silent `text/event-stream`."
    )
    send_timeout_s: float = Field(
        default=60.0, gt=0, description="A consumer that takes nothing for so long is cut off."
    )
    claim_timeout_s: float = Field(
        default=5.0, gt=0, description="Longest wait for Kafka when a stream begins."
    )
    takeover_s: float = Field(
        default=2.0, ge=0, description="Longest wait for the last word of a stream cut out."
    )
    release_s: float = Field(
        default=3.0, gt=0, description="Longest wait for Kafka when a stream ends."
    )
