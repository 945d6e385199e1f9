"""What is stored of an event: the record, its key, and whether it may be stored at all."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from libs.common.errors import InvalidEvent, NotAPublisher, TooLarge, UnknownEventType, Violation
from libs.common.records import PublishedEvent, encode
from libs.common.topics import PUBLISHED_BYTES_MAX
from services.producer.domain.parts import Parts

START_TIME_FIELD: Final = "system-horizon-event-startTime"
"""Epoch milliseconds at which the event was received; Horizon's name, its timers start here."""

DETAIL_VIOLATIONS_MAX: Final = 10


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What the platform's resources said of one event type, at one of their offsets."""

    resources_offset: int
    is_known: bool
    has_subscribers: bool
    publishers: Set[str]


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """How and when the event came in; `received_at` is ISO-8601 UTC."""

    uuid: str
    environment: str
    publisher_id: str
    received_at: str
    received_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimit:
    """Bytes of data that an event may have; types in `exempt_types` are not limited by it."""

    data_bytes_max: int
    exempt_types: frozenset[str] = frozenset()


def check_fields(found: Sequence[Violation]) -> None:
    """Raises InvalidEvent, naming everything in `errors` and the first ten in its text."""
    if not found:
        return
    ordered = sorted(found, key=lambda violation: violation.pointer)
    named = [f"{v.pointer or 'event'} {v.detail}" for v in ordered[:DETAIL_VIOLATIONS_MAX]]
    more = len(ordered) - len(named)
    suffix = f"; and {more} more" if more else ""
    raise InvalidEvent("; ".join(named) + suffix + ".", ordered)


def check_size(parts: Parts, limit: SizeLimit) -> None:
    """Raises TooLarge for data over the limit."""
    if parts.data_bytes <= limit.data_bytes_max:
        return
    if parts.attributes["type"] not in limit.exempt_types:
        raise TooLarge(
            f"The data has {parts.data_bytes} bytes; at most {limit.data_bytes_max} are taken. "
            "Publish a reference to it (dataref) instead."
        )


def check_publisher(registration: Registration, receipt: Receipt, event_type: str) -> None:
    """Raises UnknownEventType or NotAPublisher."""
    if not registration.is_known:
        raise UnknownEventType(event_type=event_type, environment=receipt.environment)
    if receipt.publisher_id not in registration.publishers:
        raise NotAPublisher(
            client_id=receipt.publisher_id,
            event_type=event_type,
            environment=receipt.environment,
        )


def ordering_key(attributes: Mapping[str, Any]) -> str:
    """Events with equal keys keep their order: `partitionkey`, else source and subject, else id.

    Without a subject the id spreads events evenly, and no order is promised.
    """
    if "partitionkey" in attributes:
        return str(attributes["partitionkey"])
    if attributes.get("subject"):
        return f"{attributes['source']} {attributes['subject']}"
    return str(attributes["id"])


def record_of(
    parts: Parts,
    receipt: Receipt,
    *,
    resources_offset: int,
    http_headers: dict[str, list[str]],
) -> tuple[str, bytes]:
    """Key and value of the record on `published`; raises TooLarge for one over Kafka's limit."""
    key = ordering_key(parts.attributes)
    value = encode(
        PublishedEvent(
            uuid=receipt.uuid,
            environment=receipt.environment,
            publisher_id=receipt.publisher_id,
            published_at=receipt.received_at,
            ordering_key=key,
            resources_offset=resources_offset,
            event=_event(parts, time=receipt.received_at),
            http_headers=http_headers,
            additional_fields={START_TIME_FIELD: receipt.received_at_ms},
        )
    )
    if len(value) > PUBLISHED_BYTES_MAX:
        raise TooLarge(
            f"The event needs {len(value)} bytes with its headers; at most {PUBLISHED_BYTES_MAX} "
            "can be stored. Publish a reference to its data (dataref) instead."
        )
    return key, value


def _event(parts: Parts, *, time: str) -> msgspec.Raw:
    """The event as JSON, its data byte for byte as it came; `time` is set where it is absent."""
    members: dict[str, Any] = {"time": time, **parts.attributes}
    if parts.data is not None:
        members["data"] = parts.data
    return msgspec.Raw(encode(members))
