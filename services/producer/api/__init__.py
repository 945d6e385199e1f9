"""The publish API: `POST` and `HEAD /v1/{environment}/events`, alias `/horizon/events/v1`."""

from services.producer.api.app import build
from services.producer.api.endpoint import NotReadyReason

__all__ = ["NotReadyReason", "build"]
