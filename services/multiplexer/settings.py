"""Settings of the multiplexer, from variables `MERIDIAN_MULTIPLEXER_…`."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from libs.common.settings import ServiceSettings


class MultiplexerSettings(ServiceSettings):
    """What the multiplexer can be told."""

    model_config = SettingsConfigDict(env_prefix="MERIDIAN_MULTIPLEXER_")

    instance: str = "multiplexer-0"
    management_port: int = 8184
    group: str = "multiplexer"
    commit_interval_s: float = Field(default=0.1, gt=0, le=5)
    unacknowledged_s_max: float = Field(
        default=30.0, gt=0, description="The process ends when Kafka is silent for longer."
    )
    inbox_records_max: int = Field(
        default=1_000, gt=0, description="Records of one partition that wait here; then it pauses."
    )
    outstanding_records_max: int = Field(
        default=5_000, gt=0, description="Events of one partition in flight; then it pauses."
    )
