"""What the API answers: resources and the outcome of changes as plain JSON values."""

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from libs.common.errors import InvalidRequest, Violation
from libs.common.resources import Kind, Resource
from services.control.domain import schemas
from services.control.domain.draft import Draft
from services.control.domain.wishes import RoverWish


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The outcome of a change."""

    resource: Resource
    is_new: bool
    is_stored: bool
    """False when everything was as it is already."""
    body: dict[str, Any]
    offset: int
    """A process whose position in `resources` has reached it has applied the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A piece of a list, in the order of ids."""

    items: Sequence[Resource]
    cursor: str | None
    """Begins the next page; None at the end."""


def document(resource: Resource) -> dict[str, Any]:
    """The resource as it is stored."""
    found: dict[str, Any] = msgspec.to_builtins(resource)
    return found


def exposure(resource: Resource) -> dict[str, Any]:
    """An exposure in the answer to a change."""
    return {"id": resource.id, "eventType": resource.id, "version": resource.version}


def subscription(resource: Resource) -> dict[str, Any]:
    """A subscription in the answer to a change: with its callback, or the path of its stream."""
    view = {
        "id": resource.id,
        "eventType": resource.spec["type"],
        "deliveryType": resource.spec["deliveryType"],
        "version": resource.version,
    }
    if resource.spec["deliveryType"] == schemas.STREAM:
        return {**view, "stream": stream_path(resource)}
    return {**view, "callback": resource.spec.get("callback")}


def stream_path(subscription: Resource) -> str:
    """Where the subscriber reads its events, below the address of the streams."""
    return f"/v1/{subscription.environment}/sse/{subscription.id}"


def rover(resource: Resource, wish: RoverWish, draft: Draft, notices: list[str]) -> Changed:
    """The answer to a Rover file."""
    environment = resource.environment
    exposures = _found(
        draft, Kind.EXPOSURE, environment, (entry.event_type for entry in wish.exposures)
    )
    subscriptions = _found(
        draft, Kind.SUBSCRIPTION, environment, (e.id(environment) for e in wish.subscriptions)
    )
    return _changed(
        draft,
        [*exposures, *subscriptions, resource],
        {
            "name": resource.id,
            "environment": environment,
            "clientId": resource.owner,
            "exposures": [exposure(entry) for entry in exposures],
            "subscriptions": [subscription(entry) for entry in subscriptions],
            "notices": notices,
        },
    )


def single(resource: Resource, draft: Draft, notices: list[str]) -> Changed:
    """The answer to a single exposure or subscription."""
    view = subscription if resource.kind is Kind.SUBSCRIPTION else exposure
    return _changed(draft, [resource], {**view(resource), "notices": notices})


def _found(
    draft: Draft, kind: Kind, environment: str, resource_ids: Iterable[str]
) -> list[Resource]:
    found = (draft.find(kind, environment, resource_id) for resource_id in resource_ids)
    return [resource for resource in found if resource is not None]


def _changed(draft: Draft, resources: list[Resource], body: dict[str, Any]) -> Changed:
    """The last of `resources` is what the request was sent to."""
    offset = draft.end if draft.writes else max(entry.version for entry in resources) + 1
    target = resources[-1]
    is_written = target.version >= draft.snapshot.next_offset
    return Changed(
        resource=target,
        is_new=is_written and target.status.incarnation == target.version,
        is_stored=bool(draft.writes),
        body={**body, "resourcesOffset": offset},
        offset=offset,
    )


def cursor_of(resource_id: str) -> str:
    """The cursor of the page that begins after a resource."""
    return base64.urlsafe_b64encode(resource_id.encode()).decode().rstrip("=")


def id_in(cursor: str) -> str:
    """The id in a cursor; raises InvalidRequest for what is none."""
    padded = cursor + "=" * (-len(cursor) % 4)
    try:
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(
            "The request breaks rules; see `errors`.",
            [Violation("/query/cursor", "has to be a cursor that an earlier page gave")],
        ) from error
