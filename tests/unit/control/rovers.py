"""Rover files and table rows to start from."""

from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from libs.common.resources import Resource
from services.control.domain import change, wishes
from services.control.domain.draft import Draft, Snapshot

ENVIRONMENT = "integration"
NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
CLIENT = "eni--orders--shop"

EXPOSURE: dict[str, Any] = {"eventType": "orders.created.v1"}
SUBSCRIPTION: dict[str, Any] = {
    "eventType": "orders.created.v1",
    "deliveryType": "callback",
    "payloadType": "data",
    "callback": "https://shop.example/events",
}


def rover(
    *,
    exposures: list[Any] | None = None,
    subscriptions: list[Any] | None = None,
    name: str = "shop",
    team: str = "eni--orders",
    zone: str = "caas",
) -> dict[str, Any]:
    spec: dict[str, Any] = {"zone": zone, "team": team}
    if exposures is not None:
        spec["exposures"] = exposures
    if subscriptions is not None:
        spec["subscriptions"] = subscriptions
    return {
        "apiVersion": "tcp.ei.telekom.de/v1",
        "kind": "Rover",
        "metadata": {"name": name},
        "spec": deepcopy(spec),
    }


def subscription(**fields: Any) -> dict[str, Any]:
    return {**SUBSCRIPTION, **fields}


class Table:
    """The rows of `resources` as changes are stored one after the other."""

    def __init__(self) -> None:
        self.rows: dict[str, Resource] = {}
        self.end = 0
        self.now = NOW

    def draft(self) -> Draft:
        return Draft(Snapshot(rows=self.rows, next_offset=self.end, now=self.now))

    def store(self, draft: Draft) -> None:
        """A change takes one more offset, for the end of its transaction."""
        for key, resource in draft.writes.items():
            if resource is None:
                self.rows.pop(key)
            else:
                self.rows[key] = resource
        self.end = draft.end + bool(draft.writes)

    def put(self, document: Mapping[str, Any]) -> Resource:
        draft = self.draft()
        written = change.put_rover(draft, ENVIRONMENT, wishes.rover(dict(document)))
        self.store(draft)
        return written

    def pass_days(self, days: float) -> None:
        self.now += timedelta(days=days)
