"""The shapes of what users write, as JSON Schemas: Rover files, exposures, subscriptions.

`says` beside a rule is what a fault reads: "has to be <says>". Fields of features that this version
lacks have no rules here; `unavailable` refuses them by name.
"""

from typing import Any, Final

from libs.common.topics import RETENTION_CLASSES

Schema = dict[str, Any]

ENTRIES_MAX: Final = 500
"""Most exposures, and most subscriptions, of one Rover file: one change is one transaction."""

URL_LENGTH_MAX: Final = 2_048
PUBLISHERS_MAX: Final = 100

_SEGMENT: Final = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
EVENT_TYPE: Final = rf"^(?=.{{1,253}}\Z)(?=(.*\.)?v[0-9]+(\.|\Z)){_SEGMENT}(\.{_SEGMENT})*\Z"
APPLICATION: Final = r"^(?=.{1,63}\Z)[a-z0-9]+(-[a-z0-9]+)*\Z"
TEAM: Final = r"^(?=.{1,128}\Z)[a-z0-9]+(--?[a-z0-9]+)*\Z"
CLIENT_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z"


def _text(pattern: str, says: str) -> Schema:
    return {"type": "string", "pattern": pattern, "says": says}


def _one_of(*words: str) -> Schema:
    """A word in any case."""
    return _text(rf"^(?i:{'|'.join(words)})\Z", f"one of {', '.join(words)}")


def _whole(least: int, most: int) -> Schema:
    return {
        "type": "integer",
        "minimum": least,
        "maximum": most,
        "says": f"a whole number from {least} to {most}",
    }


def _map(properties: Schema, *, required: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
        "says": "a map of fields",
    }


def _list(items: Schema, *, most: int, says: str) -> Schema:
    return {
        "type": "array",
        "items": items,
        "maxItems": most,
        "says": f"a list of at most {most} {says}",
    }


def _anything(*names: str) -> Schema:
    return {name: {} for name in names}


_BOOLEAN: Final = {"type": "boolean", "says": "true or false"}
_CLIENT: Final = _text(
    CLIENT_ID, "a client id: at most 200 letters, digits, dots, dashes and underscores"
)
_PUBLISHERS: Final = _list(_CLIENT, most=PUBLISHERS_MAX, says="client ids")
_EVENT_TYPE: Final = _text(
    EVENT_TYPE,
    "an event type: at most 253 characters, lower-case letters, digits and dashes in segments "
    "separated by dots, one of them a version, e.g. orders.created.v1",
)
_ZONE: Final = _text(APPLICATION, "the name of a zone: lower-case letters, digits and dashes")
_CALLBACK: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": URL_LENGTH_MAX,
    "says": f"an absolute http or https URL of at most {URL_LENGTH_MAX} characters",
}

_DELIVERY: Final = _map(
    {
        "concurrency": _whole(1, 256),
        "timeoutSeconds": {
            "type": "number",
            "minimum": 1,
            "maximum": 60,
            "says": "a number of seconds from 1 to 60",
        },
        "retry": _map({"on5xx": _BOOLEAN, "attempts": _whole(1, 50)}),
        "order": _one_of("none", "key", "subscription", "subscriber"),
        **_anything("ratePerSecond", "signing", "onFailure"),
    }
)

CALLBACK: Final = "callback"
STREAM: Final = "server_sent_event"
STREAM_WORDS: Final = (STREAM, "server-sent-event", "serversentevent", "sse")
"""Spellings of a stream, in any case; the first one is stored."""

_SUBSCRIPTION_FIELDS: Final = {
    "deliveryType": _text(
        rf"^(?i:{'|'.join((CALLBACK, *STREAM_WORDS))})\Z", f"one of {CALLBACK}, {STREAM} (or sse)"
    ),
    "payloadType": _one_of("data", "dataref"),
    "callback": _CALLBACK,
    "eventRetentionTime": _one_of(*RETENTION_CLASSES),
    "retryableStatusCodes": _list(_whole(100, 599), most=500, says="HTTP statuses"),
    "circuitBreakerOptOut": _BOOLEAN,
    "enforceGetHttpRequestMethodForHealthCheck": _BOOLEAN,
    "traceDrops": _BOOLEAN,
    "state": _one_of("ACTIVE", "PAUSED"),
    "delivery": _DELIVERY,
    **_anything("trigger", "scopes", "filterProfile", "redeliveriesPerSecond"),
}

_EXPOSURE_FIELDS: Final = {
    "eventType": _EVENT_TYPE,
    "visibility": _one_of("world", "zone", "enterprise"),
    "additionalPublisherIds": _PUBLISHERS,
    **_anything("scopes", "approval", "specification", "deduplicate", "ingest", "orderingGroup"),
}

_ROVER_EXPOSURE: Final = _map(_EXPOSURE_FIELDS, required=("eventType",))
_ROVER_SUBSCRIPTION: Final = _map(
    {
        "eventType": _EVENT_TYPE,
        "payload": _one_of("data", "dataref"),
        **_SUBSCRIPTION_FIELDS,
    },
    required=("eventType", "deliveryType"),
)

ROVER: Final = _map(
    {
        "apiVersion": {"const": "tcp.ei.telekom.de/v1", "says": "tcp.ei.telekom.de/v1"},
        "kind": {"const": "Rover", "says": "Rover"},
        "metadata": _map(
            {
                "name": _text(
                    APPLICATION,
                    "an application's name: at most 63 lower-case letters, digits and single "
                    "dashes",
                )
            },
            required=("name",),
        ),
        "spec": _map(
            {
                "team": _text(
                    TEAM,
                    "a team: at most 128 lower-case letters, digits and dashes, e.g. eni--orders",
                ),
                "zone": _ZONE,
                "exposures": _list(_ROVER_EXPOSURE, most=ENTRIES_MAX, says="exposures"),
                "subscriptions": _list(_ROVER_SUBSCRIPTION, most=ENTRIES_MAX, says="subscriptions"),
            },
            required=("team",),
        ),
    },
    required=("apiVersion", "kind", "metadata", "spec"),
)

EXPOSURE: Final = _map(
    {**_EXPOSURE_FIELDS, "publisherId": _CLIENT, "zone": _ZONE},
    required=("eventType", "publisherId"),
)

SUBSCRIPTION: Final = _map(
    {
        "subscriptionId": _text(r"^[0-9a-f]{40}\Z", "40 hexadecimal digits"),
        "subscriberId": _CLIENT,
        "publisherId": {
            "type": "string",
            "pattern": rf"{CLIENT_ID}|^\Z",
            "says": "a client id, or empty",
        },
        "additionalPublisherIds": _PUBLISHERS,
        "type": _EVENT_TYPE,
        "zone": _ZONE,
        **_SUBSCRIPTION_FIELDS,
        **_anything("publisherTrigger", "appliedScopes", "jsonSchema"),
    },
    required=("subscriberId", "type", "deliveryType"),
)
