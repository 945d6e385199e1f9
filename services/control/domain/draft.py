"""A change of the table before it is stored: which documents, with which versions.

A document's version is the offset at which it will stand: the first free offset of the topic plus
its place in the change. What is the same as before is not written again and keeps its version.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from libs.common import clock
from libs.common.errors import PreconditionFailed
from libs.common.resources import Kind, Resource, ResourceStatus, resource_key
from services.control.domain import placements


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The table at one moment: its rows, the next free offset, the time."""

    rows: Mapping[str, Resource]
    next_offset: int
    now: datetime


@dataclass(slots=True)
class Draft:
    """Collects the documents of one change; None removes a key."""

    snapshot: Snapshot
    writes: dict[str, Resource | None] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """What the table's position will be once all of the change is applied."""
        return self.snapshot.next_offset + len(self.writes)

    def find(self, kind: Kind, environment: str, resource_id: str) -> Resource | None:
        """The document as it will be; None when there is none, or only a deleted one."""
        found = self._stored(resource_key(kind, environment, resource_id))
        return None if found is None or found.status.deleted else found

    def all(self, kind: Kind, environment: str) -> Iterator[Resource]:
        """All documents of a kind in an environment, as they will be."""
        prefix = resource_key(kind, environment, "")
        for key in {**self.snapshot.rows, **self.writes}:
            found = self._stored(key) if key.startswith(prefix) else None
            if found is not None and not found.status.deleted:
                yield found

    def put(
        self, kind: Kind, environment: str, resource_id: str, *, owner: str, spec: dict[str, Any]
    ) -> Resource:
        """Makes the document have this owner and spec; returns it, old or new."""
        key = resource_key(kind, environment, resource_id)
        stored = self._stored(key)
        alive = stored if stored is not None and not stored.status.deleted else None
        if alive is not None and (alive.owner, alive.spec) == (owner, spec):
            return alive
        at = clock.to_text(self.snapshot.now)
        written = Resource(
            kind=kind,
            environment=environment,
            id=resource_id,
            version=self.end,
            created_at=at if alive is None else alive.created_at,
            updated_at=at,
            owner=owner,
            spec=spec,
            status=self._status(stored, spec),
        )
        self._write(key, written)
        return written

    def remove(self, kind: Kind, environment: str, resource_id: str) -> None:
        """Removes a document that exists; of a subscription a deleted one stays for its place."""
        found = self.find(kind, environment, resource_id)
        if found is None:
            return
        key = resource_key(kind, environment, resource_id)
        if kind is not Kind.SUBSCRIPTION:
            self._write(key, None)
            return
        deleted = msgspec.structs.replace(
            found,
            version=self.end,
            updated_at=clock.to_text(self.snapshot.now),
            status=msgspec.structs.replace(found.status, deleted=True),
        )
        self._write(key, deleted)

    def _write(self, key: str, resource: Resource | None) -> None:
        if key in self.writes:
            raise ValueError(f"{key} is written twice in one change")
        self.writes[key] = resource

    def _stored(self, key: str) -> Resource | None:
        return self.writes[key] if key in self.writes else self.snapshot.rows.get(key)

    def _status(self, stored: Resource | None, spec: dict[str, Any]) -> ResourceStatus:
        is_alive = stored is not None and not stored.status.deleted
        before = stored.status if stored is not None else ResourceStatus()
        placed = []
        if "eventRetentionTime" in spec:
            placed = placements.after_change(
                before.placements,
                retention_class=spec["eventRetentionTime"],
                version=self.end,
                now=self.snapshot.now,
            )
        incarnation = before.incarnation if is_alive else self.end
        return ResourceStatus(incarnation=incarnation, placements=placed)


def check_precondition(present: Resource | None, if_match: str | None) -> None:
    """Raises PreconditionFailed unless the document is at a version that If-Match names."""
    if if_match is None:
        return
    if present is None:
        raise PreconditionFailed("There is no such resource, so no version can match If-Match.")
    wanted = [entry.strip() for entry in if_match.split(",")]
    if "*" not in wanted and etag(present) not in wanted:
        raise PreconditionFailed(
            f"The resource is at version {etag(present)}, not {if_match}. Read it again, then "
            "repeat the change."
        )


def etag(resource: Resource) -> str:
    """The entity tag of a document."""
    return f'"{resource.version}"'


def expired(snapshot: Snapshot, *, most: int) -> Draft:
    """Removes the deleted subscriptions whose placements nobody needs any longer."""
    draft = Draft(snapshot)
    for key, resource in snapshot.rows.items():
        if len(draft.writes) >= most:
            break
        if not resource.status.deleted:
            continue
        if snapshot.now - clock.from_text(resource.updated_at) > placements.KEPT:
            draft.writes[key] = None
    return draft
