"""Circuits as the API shows them, in the shapes of Horizon's golaris.

Every list is `{"items": […], "total": n}`: the first ITEMS_MAX in a fixed order, and how many there
are. Times and states are those of the table.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from libs.common.records import Circuit, CircuitStatus, Probe
from libs.common.resources import Subscription

ITEMS_MAX: Final = 10_000

View = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A circuit and its subscription; None for one that does not exist any more."""

    circuit: Circuit
    subscription: Subscription | None

    @property
    def subscriber_id(self) -> str | None:
        """Whose callback it guards."""
        return self.subscription.spec.subscriber_id if self.subscription else None


def circuit(case: Case) -> View:
    """One circuit with its last probe, its subscriber and its publisher."""
    view: View = msgspec.to_builtins(case.circuit)
    probe = case.circuit.last_probe
    if probe is not None:
        view["healthCheck"] = _health(case.circuit.environment, probe)
    if case.subscription is not None:
        view["subscriberId"] = case.subscription.spec.subscriber_id
        view["publisherId"] = case.subscription.spec.publisher_id
    return view


def circuits(cases: Iterable[Case]) -> View:
    """All circuits that are not CLOSED, by subscription."""
    broken = [case for case in cases if case.circuit.status is not CircuitStatus.CLOSED]
    return _listed([circuit(case) for case in sorted(broken, key=_subscription_id)])


def health_checks(cases: Iterable[Case]) -> View:
    """The newest probe of every callback, with the subscriptions whose circuits remember it."""
    newest: dict[tuple[str, str, str], Probe] = {}
    behind: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for case in sorted(cases, key=_subscription_id):
        probe = case.circuit.last_probe
        if probe is None:
            continue
        name = (case.circuit.environment, probe.url, probe.method)
        newest[name] = max(newest.get(name, probe), probe, key=lambda found: found.at)
        behind[name].append(case.circuit.subscription_id)
    return _listed(
        [
            {**_health(name[0], newest[name]), "subscriptionIds": behind[name]}
            for name in sorted(newest)
        ]
    )


def republishing(cases: Iterable[Case]) -> View:
    """The subscriptions whose held events are being delivered, and since when they may be."""
    running = [case for case in cases if case.circuit.status is CircuitStatus.REPUBLISHING]
    return _listed(
        [
            {
                "subscriptionId": case.circuit.subscription_id,
                "postponedUntil": case.circuit.postponed_until,
            }
            for case in sorted(running, key=_subscription_id)
        ]
    )


def _listed(items: Sequence[View]) -> View:
    return {"items": items[:ITEMS_MAX], "total": len(items)}


def _health(environment: str, probe: Probe) -> View:
    return {
        "environment": environment,
        "method": probe.method,
        "callbackUrl": probe.url,
        "lastChecked": probe.at,
        "lastCheckedStatus": probe.status,
        "error": probe.error,
    }


def _subscription_id(case: Case) -> str:
    return case.circuit.subscription_id
