"""What a wish changes: the documents to be written and removed, and who stands in the way.

Everything here works on a draft; a Conflict means that nothing of it is stored.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from libs.common.errors import Conflict, Forbidden, NotFound
from libs.common.resources import Kind, Resource
from services.control.domain import unavailable, wishes
from services.control.domain.draft import Draft, check_precondition
from services.control.domain.faults import Fault, Place, refuse
from services.control.domain.wishes import ExposureWish, RoverWish, SubscriptionWish

NAMED_MAX: Final = 5
"""So many clients are named in a conflict."""


def put_rover(
    draft: Draft, environment: str, wish: RoverWish, *, if_match: str | None = None
) -> Resource:
    """Makes the application have what its Rover says, and nothing that it said before only."""
    present = draft.find(Kind.ROVER, environment, wish.name)
    check_precondition(present, if_match)
    if present is not None and present.owner != wish.client_id:
        raise Conflict(
            f"Rover {wish.name} belongs to client {present.owner} in {environment}. Choose another "
            "name, or have its owner delete it. Nothing was applied."
        )
    _check_owners(draft, environment, wish.exposures)
    refuse(
        fault
        for index, subscription in enumerate(wish.subscriptions)
        for fault in _switched(
            draft, environment, subscription, place=("spec", "subscriptions", index)
        )
    )
    _remove_others(draft, environment, wish, present)
    for exposure in wish.exposures:
        _write_exposure(draft, environment, exposure)
    for subscription in wish.subscriptions:
        _write_subscription(draft, environment, subscription)
    check_zones(draft, environment, wish.event_types())
    return draft.put(Kind.ROVER, environment, wish.name, owner=wish.client_id, spec=dict(wish.spec))


def put_exposure(
    draft: Draft, environment: str, wish: ExposureWish, *, if_match: str | None = None
) -> Resource:
    """Makes the client the owner of the event type."""
    check_precondition(draft.find(Kind.EXPOSURE, environment, wish.event_type), if_match)
    _check_owners(draft, environment, [wish])
    written = _write_exposure(draft, environment, wish)
    check_zones(draft, environment, {wish.event_type})
    return written


def put_subscription(
    draft: Draft, environment: str, wish: SubscriptionWish, *, if_match: str | None = None
) -> Resource:
    """Makes the client a subscriber of the event type."""
    check_precondition(draft.find(Kind.SUBSCRIPTION, environment, wish.id(environment)), if_match)
    refuse(_switched(draft, environment, wish))
    written = _write_subscription(draft, environment, wish)
    check_zones(draft, environment, {wish.event_type})
    return written


def remove(draft: Draft, present: Resource, *, if_match: str | None = None) -> None:
    """Removes a resource; with a Rover all that it made."""
    check_precondition(present, if_match)
    if present.kind is Kind.ROVER:
        _remove_all(draft, present, keep_exposures=set(), keep_subscriptions=set())
    draft.remove(present.kind, present.environment, present.id)


def existing(draft: Draft, kind: Kind, environment: str, resource_id: str) -> Resource:
    """The document; raises NotFound."""
    found = draft.find(kind, environment, resource_id)
    if found is None:
        raise not_found(kind, environment, resource_id)
    return found


def not_found(kind: Kind, environment: str, resource_id: str) -> NotFound:
    """The error for a resource that does not exist."""
    return NotFound(f"There is no {kind} {resource_id} in {environment}.")


def check_caller(caller: str, owner: str | None, *, is_admin: bool) -> None:
    """Raises Forbidden unless the caller owns the resource or is an administrator."""
    if is_admin or caller == owner:
        return
    whose = f"client {owner}" if owner else "another client"
    raise Forbidden(
        f"Client {caller} may not do this: the resource belongs to {whose}. Use a token of that "
        "client, or ask an administrator."
    )


def check_publisher(wish: SubscriptionWish) -> None:
    """Raises Forbidden when a subscriber names publishers: that would make them publishers."""
    if wish.additional_publisher_ids or wish.publisher_id:
        raise Forbidden(
            f"A subscriber cannot say who publishes {wish.event_type}: leave publisherId and "
            "additionalPublisherIds out. Its exposure decides, or an administrator."
        )


def notices(draft: Draft, environment: str, event_types: Iterable[str]) -> list[str]:
    """What a subscriber should know: types that nobody exposes."""
    return [
        f"Nobody exposes {event_type} in {environment} yet; events arrive once somebody does."
        for event_type in event_types
        if draft.find(Kind.EXPOSURE, environment, event_type) is None
    ]


def check_zones(draft: Draft, environment: str, event_types: Iterable[str]) -> None:
    """Raises Conflict when a subscription is outside the zone that its event type is limited to."""
    for event_type in sorted(event_types):
        exposure = draft.find(Kind.EXPOSURE, environment, event_type)
        if exposure is None or exposure.spec.get("visibility") != "zone":
            continue
        zone = exposure.spec.get("zone", "")
        outside = sorted(
            subscription.owner
            for subscription in draft.all(Kind.SUBSCRIPTION, environment)
            if subscription.spec.get("type") == event_type
            and subscription.spec.get("zone", "") != zone
        )
        if outside:
            raise Conflict(
                f"{event_type} is visible in zone {zone or '(none)'} only, and these subscribers "
                f"are outside: {_named(outside)}. Nothing was applied."
            )


def _check_owners(draft: Draft, environment: str, exposures: Iterable[ExposureWish]) -> None:
    taken = []
    for wish in exposures:
        present = draft.find(Kind.EXPOSURE, environment, wish.event_type)
        if present is not None and present.owner != wish.publisher_id:
            taken.append(f"{wish.event_type} by client {present.owner}")
    if taken:
        raise Conflict(
            f"Already exposed in {environment}: {_named(taken)}. An event type has one owner; ask "
            "it to add this client to additionalPublisherIds. Nothing was applied."
        )


def _remove_others(
    draft: Draft, environment: str, wish: RoverWish, present: Resource | None
) -> None:
    if present is None:
        return
    _remove_all(
        draft,
        present,
        keep_exposures={exposure.event_type for exposure in wish.exposures},
        keep_subscriptions={entry.id(environment) for entry in wish.subscriptions},
    )


def _remove_all(
    draft: Draft, rover: Resource, *, keep_exposures: set[str], keep_subscriptions: set[str]
) -> None:
    """Removes what a Rover made, except what is to be kept."""
    made = wishes.rover({"metadata": {"name": rover.id}, "spec": rover.spec})
    for exposure in made.exposures:
        found = draft.find(Kind.EXPOSURE, rover.environment, exposure.event_type)
        is_own = found is not None and found.owner == rover.owner
        if is_own and exposure.event_type not in keep_exposures:
            draft.remove(Kind.EXPOSURE, rover.environment, exposure.event_type)
    for subscription in made.subscriptions:
        subscription_id = subscription.id(rover.environment)
        if subscription_id not in keep_subscriptions:
            draft.remove(Kind.SUBSCRIPTION, rover.environment, subscription_id)


def _switched(
    draft: Draft, environment: str, wish: SubscriptionWish, *, place: Place = ()
) -> Iterator[Fault]:
    """A subscription that exists keeps the way in which it gets its events."""
    present = draft.find(Kind.SUBSCRIPTION, environment, wish.id(environment))
    if present is None:
        return
    before, after = str(present.spec["deliveryType"]), str(wish.settings["deliveryType"])
    if before != after:
        yield unavailable.switch((*place, "deliveryType"), before=before, after=after)


def _write_exposure(draft: Draft, environment: str, wish: ExposureWish) -> Resource:
    return draft.put(
        Kind.EXPOSURE, environment, wish.event_type, owner=wish.publisher_id, spec=wish.spec()
    )


def _write_subscription(draft: Draft, environment: str, wish: SubscriptionWish) -> Resource:
    return draft.put(
        Kind.SUBSCRIPTION,
        environment,
        wish.id(environment),
        owner=wish.subscriber_id,
        spec=wish.spec(environment),
    )


def _named(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
