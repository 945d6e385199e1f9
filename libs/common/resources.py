"""Resources as the services read them: documents of the table `resources`, and their catalog.

A document is `{kind, environment, id, version, createdAt, updatedAt, owner, spec, status}` under
the key `kind/environment/id`. `version` is the offset at which it was written. The spec of a
subscription is Horizon's `subscription` object with its additions.
"""

from collections import Counter, defaultdict
from collections.abc import Set
from enum import StrEnum
from typing import Any

import msgspec

from libs.common.records import DeliveryType, Record, decoder
from libs.common.topics import RETENTION_CLASS_DEFAULT, RETENTION_CLASSES


class Kind(StrEnum):
    """Kinds of resources."""

    ROVER = "rover"
    EXPOSURE = "exposure"
    SUBSCRIPTION = "subscription"


class Placement(Record, frozen=True):
    """Where a subscription's records go for events published after a resources offset."""

    after: int
    retention_class: str = msgspec.field(name="class", default=RETENTION_CLASS_DEFAULT)
    order: str = "none"
    at: str = ""
    """When it was decided; tells when its predecessor can be forgotten."""


class ResourceStatus(Record, frozen=True):
    """What the control plane, not the user, decides about a resource."""

    incarnation: int = 0
    """Version of the first document since the resource last did not exist."""
    deleted: bool = False
    placements: list[Placement] = msgspec.field(default_factory=list)


class Resource(Record, frozen=True):
    """One document of the table."""

    kind: Kind
    environment: str
    id: str
    version: int
    created_at: str
    updated_at: str
    owner: str
    spec: dict[str, Any]
    status: ResourceStatus = msgspec.field(default_factory=ResourceStatus)


class ExposureSpec(Record, frozen=True):
    """Who may publish an event type."""

    event_type: str
    publisher_id: str
    additional_publisher_ids: list[str] = msgspec.field(default_factory=list)
    visibility: str = "enterprise"


class RetrySpec(Record, frozen=True):
    """A subscription's own retry rules; None means the platform's default."""

    on5xx: bool = msgspec.field(name="on5xx", default=False)
    attempts: int | None = None


class DeliverySpec(Record, frozen=True):
    """How callbacks are made."""

    concurrency: int | None = None
    timeout_seconds: float | None = None
    retry: RetrySpec = msgspec.field(default_factory=RetrySpec)


class SubscriptionSpec(Record, frozen=True):
    """One client's wish for one event type."""

    subscription_id: str
    subscriber_id: str
    publisher_id: str
    type: str
    delivery_type: str
    callback: str | None = None
    additional_publisher_ids: list[str] = msgspec.field(default_factory=list)
    event_retention_time: str = RETENTION_CLASS_DEFAULT
    retryable_status_codes: list[int] | None = None
    circuit_breaker_opt_out: bool = False
    delivery: DeliverySpec = msgspec.field(default_factory=DeliverySpec)


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription ready for use: its spec, and what the control plane decided."""

    id: str
    environment: str
    version: int
    incarnation: int
    placements: tuple[Placement, ...]
    spec: SubscriptionSpec

    @property
    def delivery_type(self) -> DeliveryType:
        """Callback or stream, whatever spelling the document uses."""
        return DeliveryType[self.spec.delivery_type.upper()]

    def placement_at(self, resources_offset: int) -> Placement:
        """The newest placement decided before the offset; the oldest for events older than all."""
        for placement in reversed(self.placements):
            if placement.after < resources_offset:
                return placement
        return self.placements[0]


_decoder = decoder(Resource)


def resource_key(kind: Kind, environment: str, resource_id: str) -> str:
    """The key of a document in the table."""
    return f"{kind}/{environment}/{resource_id}"


def decode_resource(key: str, value: bytes) -> Resource:
    """For a `CompactedTable` of resources; raises msgspec.DecodeError, also for a foreign key."""
    resource = _decoder.decode(value)
    if resource_key(resource.kind, resource.environment, resource.id) != key:
        raise msgspec.ValidationError(f"document does not belong to key {key}")
    return resource


def subscription_of(resource: Resource) -> Subscription:
    """The subscription in a document; raises msgspec.ValidationError for a malformed one."""
    spec = msgspec.convert(resource.spec, SubscriptionSpec)
    if spec.delivery_type.upper() not in DeliveryType.__members__:
        raise msgspec.ValidationError(f"unknown delivery type {spec.delivery_type}")
    fallback = Placement(after=-1, retention_class=spec.event_retention_time)
    placements = tuple(resource.status.placements) or (fallback,)
    for placement in placements:
        if placement.retention_class not in RETENTION_CLASSES:
            raise msgspec.ValidationError(f"unknown retention class {placement.retention_class}")
    return Subscription(
        id=resource.id,
        environment=resource.environment,
        version=resource.version,
        incarnation=resource.status.incarnation,
        placements=placements,
        spec=spec,
    )


class Catalog:
    """Exposures and subscriptions by (environment, event type), kept up to date by `apply`.

    A malformed document disables that resource alone; `faults` names it and says why.
    """

    def __init__(self) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.faults: dict[str, str] = {}
        self._exposures: dict[str, tuple[str, ExposureSpec]] = {}
        self._subscribed: dict[tuple[str, str], dict[str, Subscription]] = defaultdict(dict)
        self._exposed: dict[tuple[str, str], dict[str, ExposureSpec]] = defaultdict(dict)
        self._by_key: dict[str, Subscription] = {}
        self._publishers: dict[tuple[str, str], Counter[str]] = {}

    def apply(self, key: str, resource: Resource | None) -> None:
        """Takes over one change of the table; None or a deleted document removes the resource."""
        self._forget(key)
        if resource is None or resource.status.deleted:
            return
        try:
            self._add(key, resource)
        except msgspec.ValidationError as error:
            self.faults[key] = str(error)

    def subscriptions_of(self, environment: str, event_type: str) -> list[Subscription]:
        """All subscriptions of a type."""
        return list(self._subscribed.get((environment, event_type), {}).values())

    def is_known(self, environment: str, event_type: str) -> bool:
        """True when somebody exposes or subscribes to the type."""
        name = (environment, event_type)
        return bool(self._exposed.get(name)) or bool(self._subscribed.get(name))

    def has_subscribers(self, environment: str, event_type: str) -> bool:
        """True when somebody subscribes to the type."""
        return bool(self._subscribed.get((environment, event_type)))

    def publishers(self, environment: str, event_type: str) -> Set[str]:
        """Who may publish: the exposure's publishers, and those that subscriptions name.

        A live view, kept by counting: the cost does not depend on the number of subscriptions.
        """
        counted = self._publishers.get((environment, event_type))
        return counted.keys() if counted is not None else frozenset()

    def _add(self, key: str, resource: Resource) -> None:
        match resource.kind:
            case Kind.EXPOSURE:
                exposure = msgspec.convert(resource.spec, ExposureSpec)
                self._exposures[key] = (resource.environment, exposure)
                name = (resource.environment, exposure.event_type)
                self._exposed[name][key] = exposure
                self._count(name, exposure, 1)
            case Kind.SUBSCRIPTION:
                subscription = subscription_of(resource)
                self._by_key[key] = subscription
                self.subscriptions[subscription.id] = subscription
                name = (subscription.environment, subscription.spec.type)
                self._subscribed[name][subscription.id] = subscription
                self._count(name, subscription.spec, 1)
            case Kind.ROVER:
                pass

    def _forget(self, key: str) -> None:
        self.faults.pop(key, None)
        if (exposed := self._exposures.pop(key, None)) is not None:
            environment, exposure = exposed
            name = (environment, exposure.event_type)
            _discard(self._exposed, name, key)
            self._count(name, exposure, -1)
        if (subscription := self._by_key.pop(key, None)) is not None:
            if self.subscriptions.get(subscription.id) is subscription:
                del self.subscriptions[subscription.id]
            name = (subscription.environment, subscription.spec.type)
            _discard(self._subscribed, name, subscription.id)
            self._count(name, subscription.spec, -1)

    def _count(self, name: tuple[str, str], spec: ExposureSpec | SubscriptionSpec, by: int) -> None:
        """Adds or takes away what one document says of a type's publishers."""
        counted = self._publishers.setdefault(name, Counter())
        for publisher in {spec.publisher_id, *spec.additional_publisher_ids} - {""}:
            counted[publisher] += by
            if counted[publisher] <= 0:
                del counted[publisher]
        if not counted:
            del self._publishers[name]


def _discard(index: dict[tuple[str, str], dict[str, Any]], name: tuple[str, str], key: str) -> None:
    """Removes an entry, and its group when that was the last one."""
    group = index.get(name)
    if group is None:
        return
    group.pop(key, None)
    if not group:
        del index[name]
