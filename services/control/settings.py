"""Settings of the control plane, from variables `MERIDIAN_CONTROL_…`."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from libs.common.settings import AuthSettings, CommaList, NetworkList, ServiceSettings


class ControlSettings(ServiceSettings):
    """What the control plane can be told."""

    model_config = SettingsConfigDict(env_prefix="MERIDIAN_CONTROL_")

    instance: str = "control-0"
    port: int = Field(default=8081, description="Port of the API.")
    management_port: int = 8181
    advertised_address: str = Field(
        default="", description="URL at which other replicas reach this one; from host and port."
    )
    auth: AuthSettings = AuthSettings()
    default_environment: str = Field(
        default="integration", description="Takes tokens of realm `default` too."
    )
    admin_clients: CommaList = Field(
        default=(), description="Client ids that may change everything in their realm."
    )
    allowed_callback_networks: NetworkList = Field(
        default=(), description="Networks that callbacks may go to although they are not public."
    )
    allow_http_callbacks: bool = Field(
        default=False, description="Whether callbacks may be http URLs."
    )
    body_timeout_s: float = Field(default=10.0, gt=0, le=60)
    applied_timeout_s: float = Field(
        default=15.0, gt=0, le=60, description="Longest wait of `?wait=applied`."
    )
    group: str = "control-writer"

    def address(self) -> str:
        """URL of this replica for the others."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.advertised_address.rstrip("/") or f"http://{host}:{self.port}"
