"""The records on Kafka, as JSON. Payloads stay raw bytes and are never parsed here.

Field names are those on the wire. Unknown fields are ignored when read. Times are ISO-8601 UTC
with milliseconds; see `libs.common.clock`.
"""

from enum import StrEnum
from typing import Annotated, Any, NewType, TypeVar

import msgspec

from libs.common.topics import RETENTION_CLASSES

HttpHeaders = NewType("HttpHeaders", dict[str, list[str]])
"""Header names in lower case, each with its values."""


class DeliveryType(StrEnum):
    """How a subscription receives its events."""

    CALLBACK = "CALLBACK"
    SERVER_SENT_EVENT = "SERVER_SENT_EVENT"


class Status(StrEnum):
    """Where a subscription event stands; DELIVERED, FAILED, DUPLICATE and EXPIRED are final."""

    PROCESSED = "PROCESSED"
    DELIVERING = "DELIVERING"
    WAITING = "WAITING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"
    DUPLICATE = "DUPLICATE"
    EXPIRED = "EXPIRED"


class Outcome(StrEnum):
    """What became of a published event."""

    MATCHED = "MATCHED"
    ALL_DROPPED = "ALL_DROPPED"
    NO_SUBSCRIBER = "NO_SUBSCRIBER"


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Common shape: frozen, keyword-only, camel case on the wire."""


RetentionClass = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(RETENTION_CLASSES)})$")]
"""A name of `RETENTION_CLASSES`; a record with another one cannot be read."""


class Source(Record, frozen=True):
    """Where a published event stands on `published`; orders all that is made from it."""

    topic_id: str
    partition: int
    leader_epoch: int
    offset: int


class PublishedEvent(Record, frozen=True):
    """One event as the producer stored it; `event` is the CloudEvent in JSON form."""

    uuid: str
    environment: str
    publisher_id: str
    published_at: str
    ordering_key: str
    resources_offset: int
    event: msgspec.Raw
    status: str = "PROCESSED"
    only_subscriptions: list[str] | None = None
    http_headers: dict[str, list[str]] = msgspec.field(default_factory=dict)
    additional_fields: dict[str, Any] = msgspec.field(default_factory=dict)


class SubscriptionEvent(Record, frozen=True):
    """One event for one subscription."""

    uuid: str
    multiplexed_from: str
    environment: str
    subscription_id: str
    subscription_version: int
    subscriber_id: str
    publisher_id: str
    ordering_key: str
    source: Source
    delivery_type: DeliveryType
    event_retention_time: RetentionClass
    published_at: str
    event: msgspec.Raw
    status: Status = Status.PROCESSED
    applied_scopes: list[str] = msgspec.field(default_factory=list)
    http_headers: dict[str, list[str]] = msgspec.field(default_factory=dict)
    additional_fields: dict[str, Any] = msgspec.field(default_factory=dict)


class EventHead(Record, frozen=True):
    """What records about an event repeat of it."""

    id: str
    type: str
    time: str | None = None


class Match(Record, frozen=True):
    """A subscription that receives the event, and the uuid of its copy."""

    subscription_id: str
    uuid: str


class Drop(Record, frozen=True):
    """A subscription whose filters did not let the event through."""

    subscription_id: str
    code: str
    trace: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class RoutingRecord(Record, frozen=True):
    """Whom one published event matched and whom not."""

    published_uuid: str
    source: Source
    environment: str
    event: EventHead
    publisher_id: str
    published_at: str
    at: str
    outcome: Outcome
    matched: list[Match]
    matched_count: int
    dropped: list[Drop]
    dropped_count: int


class Coordinates(Record, frozen=True):
    """Where the subscription event stands on Kafka."""

    topic: str
    partition: int
    offset: int


class StatusChange(Record, frozen=True):
    """One step in the life of a subscription event."""

    uuid: str
    subscription_id: str
    subscriber_id: str
    publisher_id: str
    environment: str
    multiplexed_from: str
    event: EventHead
    delivery_type: DeliveryType
    status: Status
    at: str
    published_at: str
    attempt: int
    coordinates: Coordinates
    http_status: int | None = None
    duration_ms: int | None = None
    error_type: str | None = None
    error_message: str | None = None
    redelivery_id: str | None = None


class LaneCheckpoint(Record, frozen=True, tag_field="kind", tag="LaneCheckpoint"):
    """What is settled of one lane: everything below `next_offset` except `pending`."""

    lane_id: str
    state: str
    next_offset: int
    reasons: list[str] = msgspec.field(default_factory=list)
    pending: list[int] = msgspec.field(default_factory=list)
    sources: dict[str, tuple[int, int, str]] = msgspec.field(default_factory=dict)
    resource_version: int = 0
    released: bool = False


class PartitionProgress(Record, frozen=True, tag_field="kind", tag="PartitionProgress"):
    """What is settled of one partition above the committed offset, as [first offset, length].

    `sources` is the repeat filter's state at `committed`.
    """

    topic: str
    partition: int
    committed: int
    settled_above: list[tuple[int, int]]
    sources: dict[str, tuple[int, int, str]]
    released: bool = False


LaneRecord = LaneCheckpoint | PartitionProgress


class Claim(Record, frozen=True, tag_field="kind", tag="Claim"):
    """A connection wants a lane's events. Its offset is its epoch; the highest has the lane.

    Without a `connection_id` it ends the stream and begins none.
    """

    lane_id: str
    instance: str
    connection_id: str | None
    at: str


class StreamCheckpoint(Record, frozen=True, tag_field="kind", tag="StreamCheckpoint"):
    """What the claim of an epoch has settled of a lane: everything below `next_offset`.

    `released` is the last one of its epoch: nothing is under way any longer.
    """

    lane_id: str
    epoch: int
    next_offset: int
    pending: list[int] = msgspec.field(default_factory=list)
    sources: dict[str, tuple[int, int, str]] = msgspec.field(default_factory=dict)
    resource_version: int = 0
    released: bool = False


StreamRecord = Claim | StreamCheckpoint


class CircuitStatus(StrEnum):
    """Whether callbacks of a lane are made."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    CHECKING = "CHECKING"
    REPUBLISHING = "REPUBLISHING"


class Probe(Record, frozen=True):
    """One request to a callback that asks whether it is there; `status` is None without answer."""

    at: str
    method: str
    url: str
    status: int | None = None
    error: str | None = None


class Circuit(Record, frozen=True):
    """The circuit of one lane; `epoch` grows by one at every opening."""

    lane_id: str
    subscription_id: str
    environment: str
    event_type: str
    status: CircuitStatus
    epoch: int
    last_modified: str
    last_opened: str | None = None
    loop_counter: int = 0
    postponed_until: str | None = None
    waiting_for: list[str] = msgspec.field(default_factory=list)
    """What still has to be caught up with, as `topic/partition`."""
    reason: str | None = None
    last_probe: Probe | None = None


class Instance(Record, frozen=True):
    """A live process; seen within 15 s means live. `resources_offset` is what it has applied."""

    address: str
    resources_offset: int
    at: str


_encoder = msgspec.json.Encoder()
T = TypeVar("T")


def encode(record: Any) -> bytes:
    """The record as JSON bytes."""
    return _encoder.encode(record)


def decoder(record_type: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder of one record type; it raises msgspec.DecodeError for what is not one."""
    return msgspec.json.Decoder(record_type)


_stream_decoder: msgspec.json.Decoder[StreamRecord] = msgspec.json.Decoder(StreamRecord)


def stream_record(_: str, value: bytes) -> StreamRecord:
    """A value of the topic `streams`, for a `CompactedTable`; raises msgspec.DecodeError."""
    return _stream_decoder.decode(value)


head_decoder = decoder(EventHead)
"""Reads id, type and time of a CloudEvent, skipping its data."""
