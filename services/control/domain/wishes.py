"""What a document asks for, after its shape is known to be right: Rover files and single resources.

All spellings end here: a wish has the platform's own words, in the form in which they are stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from libs.common.ids import ClientId, subscription_id
from libs.common.topics import RETENTION_CLASS_DEFAULT
from services.control.domain import schemas
from services.control.domain.documents import Document

VISIBILITY_DEFAULT: Final = "enterprise"

_COPIED: Final = ("callback", "retryableStatusCodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureWish:
    """A client wants to publish an event type."""

    event_type: str
    publisher_id: ClientId
    visibility: str
    zone: str
    additional_publisher_ids: tuple[str, ...]

    def spec(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "eventType": self.event_type,
            "publisherId": self.publisher_id,
            "additionalPublisherIds": list(self.additional_publisher_ids),
            "visibility": self.visibility,
            "zone": self.zone,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionWish:
    """A client wants to receive an event type."""

    event_type: str
    subscriber_id: ClientId
    zone: str
    settings: Mapping[str, Any]
    publisher_id: str = ""
    """Empty: whoever exposes the type. Only an administrator names somebody here."""
    additional_publisher_ids: tuple[str, ...] = ()

    def id(self, environment: str) -> str:
        """The subscription's id in an environment."""
        return subscription_id(
            environment=environment,
            event_type=self.event_type,
            subscriber_id=self.subscriber_id,
        )

    def spec(self, environment: str) -> dict[str, Any]:
        """As it is stored."""
        return {
            "subscriptionId": self.id(environment),
            "subscriberId": self.subscriber_id,
            "publisherId": self.publisher_id,
            "additionalPublisherIds": list(self.additional_publisher_ids),
            "type": self.event_type,
            "zone": self.zone,
            **self.settings,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RoverWish:
    """All that one application wants; it replaces what the application's Rover had before."""

    name: str
    client_id: ClientId
    exposures: tuple[ExposureWish, ...]
    subscriptions: tuple[SubscriptionWish, ...]
    spec: Mapping[str, Any]
    """The `spec` of the file, as the user wrote it."""

    def event_types(self) -> set[str]:
        """All event types that the Rover names."""
        exposed = {exposure.event_type for exposure in self.exposures}
        return exposed | {subscription.event_type for subscription in self.subscriptions}


def client_id(*, team: str, name: str) -> ClientId:
    """The client id of a team's application."""
    return ClientId(f"{team}--{name}")


def rover(document: Document) -> RoverWish:
    """The wish of a Rover file without faults."""
    spec = document["spec"]
    client = client_id(team=spec["team"], name=document["metadata"]["name"])
    zone = spec.get("zone", "")
    return RoverWish(
        name=document["metadata"]["name"],
        client_id=client,
        exposures=tuple(
            _exposure(entry, publisher=client, zone=zone) for entry in spec.get("exposures", ())
        ),
        subscriptions=tuple(
            SubscriptionWish(
                event_type=entry["eventType"],
                subscriber_id=client,
                zone=zone,
                settings=_settings(entry),
            )
            for entry in spec.get("subscriptions", ())
        ),
        spec=spec,
    )


def exposure(document: Document) -> ExposureWish:
    """The wish of a single exposure without faults."""
    return _exposure(
        document, publisher=ClientId(document["publisherId"]), zone=document.get("zone", "")
    )


def subscription(document: Document) -> SubscriptionWish:
    """The wish of a single subscription without faults."""
    return SubscriptionWish(
        event_type=document["type"],
        subscriber_id=ClientId(document["subscriberId"]),
        zone=document.get("zone", ""),
        settings=_settings(document),
        publisher_id=document.get("publisherId", ""),
        additional_publisher_ids=tuple(document.get("additionalPublisherIds", ())),
    )


def _exposure(entry: Document, *, publisher: ClientId, zone: str) -> ExposureWish:
    return ExposureWish(
        event_type=entry["eventType"],
        publisher_id=publisher,
        visibility=entry.get("visibility", VISIBILITY_DEFAULT).lower(),
        zone=zone,
        additional_publisher_ids=tuple(entry.get("additionalPublisherIds", ())),
    )


def _delivery_type(word: str) -> str:
    return schemas.STREAM if word.lower() in schemas.STREAM_WORDS else schemas.CALLBACK


def _settings(entry: Document) -> dict[str, Any]:
    """What the subscriber decides, in Horizon's spelling, with the defaults filled in."""
    settings: dict[str, Any] = {
        "deliveryType": _delivery_type(entry["deliveryType"]),
        "payloadType": "data",
        "eventRetentionTime": entry.get("eventRetentionTime", RETENTION_CLASS_DEFAULT).lower(),
        "circuitBreakerOptOut": entry.get("circuitBreakerOptOut", False),
    }
    settings.update({name: entry[name] for name in _COPIED if name in entry})
    delivery = {
        name: value
        for name, value in entry.get("delivery", {}).items()
        if name in ("concurrency", "timeoutSeconds", "retry") and value != {}
    }
    if delivery:
        settings["delivery"] = delivery
    return settings
