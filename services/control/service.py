"""Use cases of the control plane: read, decide, store.

A document is checked as a whole before anything of it is decided, and what it changes is stored in
one transaction: it applies completely or not at all.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from libs.common import log
from libs.common.errors import NotReady, TemporaryError
from libs.common.resources import Kind, Resource, resource_key
from services.control.domain import answers, callbacks, change, checks, documents, wishes
from services.control.domain.answers import Changed, Page
from services.control.domain.callbacks import Callback, Policy
from services.control.domain.documents import Document
from services.control.domain.draft import Draft, Snapshot, expired
from services.control.domain.faults import Fault, refuse
from services.control.ports import Fleet, Ledger, NameService

logger = log.get(__name__)

PURGE_INTERVAL_S: Final = 3_600.0
PURGED_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks."""

    client_id: str
    is_admin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a request is sent to."""

    kind: Kind
    environment: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a PUT brings along."""

    body: bytes
    content_type: str
    if_match: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """The ports of the use cases."""

    ledger: Ledger
    names: NameService
    fleet: Fleet


Plan = Callable[[Draft], Changed]


class Control:
    """The control plane."""

    def __init__(self, outside: Outside, *, policy: Policy) -> None:
        self._outside = outside
        self._policy = policy

    async def put(self, target: Target, sent: Sent, caller: Caller) -> Changed:
        """Applies a document to its target; raises a ClientError when it cannot be applied."""
        document = await asyncio.to_thread(
            documents.read, sent.body, content_type=sent.content_type
        )
        match target.kind:
            case Kind.ROVER:
                plan = await self._rover(target, document, sent, caller)
            case Kind.EXPOSURE:
                plan = await self._exposure(target, document, sent, caller)
            case Kind.SUBSCRIPTION:
                plan = await self._subscription(target, document, sent, caller)
        return await self._store(plan)

    async def delete(self, target: Target, caller: Caller, *, if_match: str | None) -> int:
        """Removes a resource, with a Rover all that it made; returns the offset to wait for."""

        def decide(snapshot: Snapshot) -> Draft:
            draft = Draft(snapshot)
            present = change.existing(draft, target.kind, target.environment, target.id)
            change.check_caller(caller.client_id, present.owner, is_admin=caller.is_admin)
            change.remove(draft, present, if_match=if_match)
            return draft

        return (await self._outside.ledger.change(decide)).end

    def get(self, target: Target, caller: Caller) -> Resource:
        """A resource, for its owner and administrators; raises NotFound, Forbidden, NotReady."""
        self._check_ready()
        key = resource_key(target.kind, target.environment, target.id)
        stored = self._outside.ledger.rows.get(key)
        if stored is None or stored.status.deleted:
            raise change.not_found(target.kind, target.environment, target.id)
        change.check_caller(caller.client_id, stored.owner, is_admin=caller.is_admin)
        return stored

    def page(
        self, kind: Kind, environment: str, caller: Caller, *, limit: int, cursor: str | None
    ) -> Page:
        """A piece of the list of what the caller owns; administrators see everything."""
        self._check_ready()
        prefix = resource_key(kind, environment, "")
        after = answers.id_in(cursor) if cursor is not None else ""
        visible = (
            resource
            for key, resource in self._outside.ledger.rows.items()
            if key.startswith(prefix)
            and resource.id > after
            and not resource.status.deleted
            and (caller.is_admin or resource.owner == caller.client_id)
        )
        found = heapq.nsmallest(limit + 1, visible, key=lambda resource: resource.id)
        more = len(found) > limit
        items = found[:limit]
        return Page(items=items, cursor=answers.cursor_of(items[-1].id) if more else None)

    async def applied(self, offset: int) -> None:
        """Returns once every live process has applied the change; raises NotAppliedYet."""
        await self._outside.fleet.applied(offset)

    async def purge_forever(self) -> None:
        """Forgets subscriptions that were deleted long ago, now and every hour."""
        while True:
            try:
                draft = await self._outside.ledger.change(lambda s: expired(s, most=PURGED_MAX))
            except TemporaryError as error:
                logger.warning("purge.failed", detail=str(error))
            else:
                logger.info("purge.done", removed=len(draft.writes))
            await asyncio.sleep(PURGE_INTERVAL_S)

    def _check_ready(self) -> None:
        missing = self._outside.ledger.readiness()
        if missing is not None:
            raise NotReady(f"The resources are not known yet: {missing}.")

    async def _rover(self, target: Target, document: Document, sent: Sent, caller: Caller) -> Plan:
        client = checks.rover_client(document)
        if client is not None:
            change.check_caller(caller.client_id, client, is_admin=caller.is_admin)
        faults = await asyncio.to_thread(checks.rover, document, name=target.id)
        await self._refuse(faults, checks.rover_callbacks(document))
        change.check_caller(caller.client_id, client, is_admin=caller.is_admin)
        wish = wishes.rover(document)

        def plan(draft: Draft) -> Changed:
            written = change.put_rover(draft, target.environment, wish, if_match=sent.if_match)
            types = (entry.event_type for entry in wish.subscriptions)
            notices = change.notices(draft, target.environment, types)
            return answers.rover(written, wish, draft, notices)

        return plan

    async def _exposure(
        self, target: Target, document: Document, sent: Sent, caller: Caller
    ) -> Plan:
        document = {"publisherId": caller.client_id, **document}
        refuse(checks.exposure(document, event_type=target.id))
        wish = wishes.exposure(document)
        change.check_caller(caller.client_id, wish.publisher_id, is_admin=caller.is_admin)

        def plan(draft: Draft) -> Changed:
            written = change.put_exposure(draft, target.environment, wish, if_match=sent.if_match)
            return answers.single(written, draft, [])

        return plan

    async def _subscription(
        self, target: Target, document: Document, sent: Sent, caller: Caller
    ) -> Plan:
        faults = checks.subscription(document, environment=target.environment, path_id=target.id)
        await self._refuse(faults, checks.callbacks(document))
        wish = wishes.subscription(document)
        change.check_caller(caller.client_id, wish.subscriber_id, is_admin=caller.is_admin)

        def plan(draft: Draft) -> Changed:
            if not caller.is_admin:
                change.check_publisher(wish)
            written = change.put_subscription(
                draft, target.environment, wish, if_match=sent.if_match
            )
            notices = change.notices(draft, target.environment, [wish.event_type])
            return answers.single(written, draft, notices)

        return plan

    async def _refuse(self, faults: Iterable[Fault], found: list[Callback]) -> None:
        """Raises when a document has faults, those of its callbacks included."""
        resolved = await self._outside.names.resolve(callbacks.hosts(found, self._policy))
        refuse([*faults, *callbacks.faults(found, resolved, self._policy)])

    async def _store(self, plan: Plan) -> Changed:
        outcome: list[Changed] = []

        def decide(snapshot: Snapshot) -> Draft:
            draft = Draft(snapshot)
            outcome[:] = [plan(draft)]
            return draft

        await self._outside.ledger.change(decide)
        return outcome[0]
