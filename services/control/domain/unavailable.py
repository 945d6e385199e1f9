"""Features of later versions: a document that asks for one is refused, field by field.

Ignoring such a field would deliver events that the user wanted filtered, or in an order that nobody
keeps. A field that asks for nothing (absent, null, false, an empty list, the default) is fine.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from services.control.domain.faults import Fault, Place

Asks = Callable[[Any], bool]


def _anything(value: Any) -> bool:
    return value not in (None, False, "", [], {})


def _word(*words: str) -> Asks:
    """True for one of the words in any case; what is no known word at all is a fault of shape."""
    return lambda value: isinstance(value, str) and value.lower() in words


def _not_automatic(value: Any) -> bool:
    strategy = value.get("strategy") if isinstance(value, dict) else value
    extras = isinstance(value, dict) and set(value) != {"strategy"}
    return _anything(value) and (extras or str(strategy).lower() != "auto")


_Rules = Mapping[Place, tuple[Asks, str]]

_SUBSCRIPTION: Final[_Rules] = {
    ("payload",): (_word("dataref"), "delivery by reference is"),
    ("payloadType",): (_word("dataref"), "delivery by reference is"),
    ("trigger",): (_anything, "selection and response filters are"),
    ("publisherTrigger",): (_anything, "publisher filters are"),
    ("scopes",): (_anything, "scopes are"),
    ("appliedScopes",): (_anything, "scopes are"),
    ("jsonSchema",): (_anything, "schemas are"),
    ("filterProfile",): (_anything, "filter profiles are"),
    ("traceDrops",): (_anything, "tracing of filters is"),
    ("redeliveriesPerSecond",): (_anything, "limits on redelivery are"),
    ("enforceGetHttpRequestMethodForHealthCheck",): (_anything, "health checks by GET are"),
    ("state",): (_word("paused"), "pausing is"),
    ("delivery", "order"): (
        _word("key", "subscription", "subscriber"),
        "order modes other than none are",
    ),
    ("delivery", "onFailure"): (_anything, "order modes other than none are"),
    ("delivery", "ratePerSecond"): (_anything, "limits on the rate are"),
    ("delivery", "signing"): (_anything, "signatures are"),
    ("delivery", "retry", "attempts"): (_word("unlimited"), "unlimited attempts are"),
}

_EXPOSURE: Final[_Rules] = {
    ("scopes",): (_anything, "scopes are"),
    ("approval",): (_not_automatic, "approvals other than auto are"),
    ("specification",): (_anything, "event specifications are"),
    ("deduplicate",): (_anything, "suppression of duplicates is"),
    ("ingest",): (_anything, "ingest topics are"),
    ("orderingGroup",): (_anything, "ordering groups are"),
}


def in_subscription(entry: Any, *, place: Place = ()) -> Iterator[Fault]:
    """What a subscription asks for that is not available."""
    return _asked(entry, _SUBSCRIPTION, place)


def in_exposure(entry: Any, *, place: Place = ()) -> Iterator[Fault]:
    """What an exposure asks for that is not available."""
    return _asked(entry, _EXPOSURE, place)


def switch(place: Place, *, before: str, after: str) -> Fault:
    """A subscription that exists asks for another delivery type."""
    return Fault(
        place,
        f"cannot change from {before} to {after} in this version. Take the subscription out of the "
        "file and apply it, then put it in again and apply it once more. It begins anew then: "
        "events that its subscriber does not have yet are not delivered any more",
        is_unavailable=True,
    )


def kind(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Other kinds of documents than Rover files."""
    if document.get("kind") == "EventSpecification":
        yield _fault(("kind",), "event specifications are")


def _asked(entry: Any, rules: _Rules, place: Place) -> Iterator[Fault]:
    for path, (asks, feature) in rules.items():
        if asks(_value(entry, path)):
            yield _fault((*place, *path), feature)


def _value(entry: Any, path: Place) -> Any:
    for name in path:
        if not isinstance(entry, dict):
            return None
        entry = entry.get(name)
    return entry


def _fault(place: Place, feature: str) -> Fault:
    return Fault(place, f"{feature} not available in this version", is_unavailable=True)
