"""Settings of delivery, from variables `MERIDIAN_DELIVERY_…`."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from libs.common.settings import NetworkList, ServiceSettings


class DeliverySettings(ServiceSettings):
    """What delivery can be told."""

    model_config = SettingsConfigDict(env_prefix="MERIDIAN_DELIVERY_")

    instance: str = "delivery-0"
    management_port: int = 8185
    group: str = "delivery"
    checkpoint_interval_s: float = Field(default=0.2, gt=0, le=5)
    pending_after_s: float = Field(
        default=1.0, gt=0, description="A record in flight for longer stops holding the offset."
    )
    unsaved_s_max: float = Field(
        default=0.6, gt=0, le=10, description="No callback begins while progress is not saved."
    )
    concurrency: int = Field(
        default=32, gt=0, le=256, description="Callbacks at once per subscription, by default."
    )
    lane_records_max: int = Field(
        default=1_000, gt=0, le=1_000, description="Unsettled records of one lane; then it is full."
    )
    unsettled_bytes_max: int = Field(
        default=268_435_456, gt=0, description="Bytes of all unsettled records in this process."
    )
    connections_max: int = Field(default=4_096, gt=0, description="Connections in all.")
    connect_timeout_s: float = Field(default=5.0, gt=0)
    timeout_s: float = Field(default=30.0, gt=0, le=60, description="One attempt, by default.")
    attempts_max: int = Field(default=11, gt=0, description="Attempts per event, by default.")
    retry_delay_s_min: float = Field(default=0.1, gt=0)
    retry_delay_s_max: float = Field(default=60.0, gt=0)
    revoke_s: float = Field(
        default=5.0, gt=0, description="Longest wait for callbacks in flight when a partition goes."
    )
    stop_s: float = Field(
        default=18.0, gt=0, description="Longest wait for callbacks in flight at a stop."
    )
    allowed_callback_networks: NetworkList = ()
