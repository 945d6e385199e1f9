"""All faults of a document that can be told from the document alone."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from libs.common.ids import ClientId, subscription_id
from services.control.domain import schemas, unavailable, wishes
from services.control.domain.callbacks import Callback
from services.control.domain.documents import Document
from services.control.domain.faults import Fault, Place
from services.control.domain.shape import Shape

_ROVER: Final = Shape(schemas.ROVER)
_EXPOSURE: Final = Shape(schemas.EXPOSURE)
_SUBSCRIPTION: Final = Shape(schemas.SUBSCRIPTION)

_Entry = tuple[Place, Any]


def rover(document: Document, *, name: str) -> list[Fault]:
    """Faults of a Rover file that was sent to the Rover `name`."""
    other_kind = list(unavailable.kind(document))
    if other_kind:
        return other_kind
    exposures = list(_entries(document, "exposures"))
    subscriptions = list(_entries(document, "subscriptions"))
    found = [*_ROVER.faults(document), *_name_faults(document, name)]
    found += _repeated(exposures) + _repeated(subscriptions)
    lacking: list[Fault] = []
    for place, entry in exposures:
        lacking += unavailable.in_exposure(entry, place=place)
        found += _zone_missing(entry, place, zone=_value(document, ("spec", "zone")))
    for place, entry in subscriptions:
        found += _delivery_faults(entry, place)
        found += _payload_twice(entry, place)
        lacking += unavailable.in_subscription(entry, place=place)
    return _merged(found, lacking)


def exposure(document: Document, *, event_type: str) -> list[Fault]:
    """Faults of a single exposure that was sent to the path of `event_type`."""
    found = [*_EXPOSURE.faults(document)]
    if document.get("eventType", event_type) != event_type:
        found.append(Fault(("eventType",), f"has to be {event_type}, as in the path"))
    found += _zone_missing(document, (), zone=document.get("zone"))
    return _merged(found, unavailable.in_exposure(document))


def subscription(document: Document, *, environment: str, path_id: str) -> list[Fault]:
    """Faults of a single subscription that was sent to the path of `path_id`."""
    found = [*_SUBSCRIPTION.faults(document), *_delivery_faults(document, ())]
    if not found:
        expected = subscription_id(
            environment=environment,
            event_type=document["type"],
            subscriber_id=document["subscriberId"],
        )
        if {path_id, document.get("subscriptionId", expected)} != {expected}:
            found.append(
                Fault(
                    ("subscriptionId",),
                    f"has to be {expected}, here and in the path: the SHA-1 of "
                    "environment--type--subscriberId",
                )
            )
    return _merged(found, unavailable.in_subscription(document))


def rover_client(document: Document) -> ClientId | None:
    """Whose Rover it is; None when the document does not say so properly."""
    team = _value(document, ("spec", "team"))
    name = _value(document, ("metadata", "name"))
    if not _is(team, schemas.TEAM) or not _is(name, schemas.APPLICATION):
        return None
    return wishes.client_id(team=team, name=name)


def _is(value: Any, pattern: str) -> bool:
    return isinstance(value, str) and re.search(pattern, value) is not None


def rover_callbacks(document: Document) -> list[Callback]:
    """The callbacks in a Rover file, whatever else is wrong with it."""
    entries = list(_entries(document, "subscriptions"))[: schemas.ENTRIES_MAX]
    return [callback for place, entry in entries for callback in callbacks(entry, place=place)]


def callbacks(entry: Any, *, place: Place = ()) -> list[Callback]:
    """The callback of a subscription that has its events called back, if it is a text."""
    if not isinstance(entry, dict):
        return []
    url = entry.get("callback")
    if str(entry.get("deliveryType")).lower() in schemas.STREAM_WORDS:
        return []
    if not isinstance(url, str) or not 0 < len(url) <= schemas.URL_LENGTH_MAX:
        return []
    return [Callback((*place, "callback"), url)]


def _value(tree: Any, place: Place) -> Any:
    for name in place:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(name)
    return tree


def _entries(document: Document, name: str) -> Iterator[_Entry]:
    entries = _value(document, ("spec", name))
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        yield ("spec", name, index), entry


def _name_faults(document: Document, name: str) -> Iterator[Fault]:
    found = _value(document, ("metadata", "name"))
    if isinstance(found, str) and found != name:
        yield Fault(("metadata", "name"), f"has to be {name}, as in the path")


def _repeated(entries: Iterable[_Entry]) -> list[Fault]:
    seen: set[str] = set()
    found = []
    for place, entry in entries:
        event_type = _value(entry, ("eventType",))
        if not isinstance(event_type, str):
            continue
        if event_type in seen:
            found.append(Fault((*place, "eventType"), f"{event_type} stands there twice"))
        seen.add(event_type)
    return found


def _delivery_faults(entry: Any, place: Place) -> list[Fault]:
    """A callback has a URL, a stream has none."""
    if not isinstance(entry, dict):
        return []
    word = str(entry.get("deliveryType")).lower()
    if word == schemas.CALLBACK and "callback" not in entry:
        return [Fault((*place, "callback"), "is missing; deliveryType callback needs it")]
    if word in schemas.STREAM_WORDS and "callback" in entry:
        return [
            Fault(
                (*place, "callback"),
                f"is not taken with deliveryType {word}: the subscriber reads its stream. Leave it "
                "out, or choose deliveryType callback",
            )
        ]
    return []


def _zone_missing(entry: Any, place: Place, *, zone: Any) -> list[Fault]:
    visibility = _value(entry, ("visibility",))
    if zone is not None or str(visibility).lower() != "zone":
        return []
    return [Fault((*place, "visibility"), "limits the type to a zone, but no zone is given")]


def _payload_twice(entry: Any, place: Place) -> list[Fault]:
    one, other = _value(entry, ("payload",)), _value(entry, ("payloadType",))
    if not isinstance(one, str) or not isinstance(other, str) or one.lower() == other.lower():
        return []
    return [Fault((*place, "payload"), "differs from payloadType; give one of them")]


def _merged(found: list[Fault], lacking: Iterable[Fault]) -> list[Fault]:
    """Both, but one fault a place where a feature is not available."""
    unavailable_faults = list(lacking)
    taken = {fault.place for fault in unavailable_faults}
    return [fault for fault in found if fault.place not in taken] + unavailable_faults
