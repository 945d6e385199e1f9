"""Settings of the circuit breaker, from variables `MERIDIAN_CIRCUIT_BREAKER_…`."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from libs.common.settings import AuthSettings, CommaList, ServiceSettings


class CircuitBreakerSettings(ServiceSettings):
    """What the circuit breaker can be told."""

    model_config = SettingsConfigDict(env_prefix="MERIDIAN_CIRCUIT_BREAKER_")

    instance: str = "circuit-breaker-0"
    port: int = Field(default=8083, description="Port of the API.")
    management_port: int = 8183
    auth: AuthSettings = AuthSettings()
    default_environment: str = Field(
        default="integration", description="What a token of realm `default` may see."
    )
    admin_clients: CommaList = Field(
        default=(), description="Client ids that see every circuit in their realm."
    )
