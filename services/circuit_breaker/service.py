"""Use cases of the circuit breaker: who sees which circuits.

A token sees the circuits of its realm's environment: administrators all of them, other clients
those of their own subscriptions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from libs.common.errors import Forbidden, NotAvailable, NotFound, Violation
from services.circuit_breaker.domain import views
from services.circuit_breaker.domain.views import Case, View
from services.circuit_breaker.ports import Circuits, Subscriptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, and about which environment."""

    client_id: str
    environment: str
    is_admin: bool


class CircuitBreaker:
    """What the platform knows about circuits."""

    def __init__(self, circuits: Circuits, subscriptions: Subscriptions) -> None:
        self._circuits = circuits
        self._subscriptions = subscriptions

    def circuits(self, caller: Caller) -> View:
        """The circuits that are not CLOSED."""
        return views.circuits(self._visible(caller))

    def circuit(self, subscription_id: str, caller: Caller) -> View:
        """The circuit of a subscription; NotFound without one, Forbidden for another's."""
        return views.circuit(self._case(subscription_id, caller))

    def health_checks(self, caller: Caller) -> View:
        """What probes of callbacks found last."""
        return views.health_checks(self._visible(caller))

    def republishing(self, caller: Caller) -> View:
        """The subscriptions whose held events are being delivered."""
        return views.republishing(self._visible(caller))

    def close(self, subscription_id: str, caller: Caller) -> None:
        """Refuses, after the checks of `circuit`: nothing closes a circuit by hand yet."""
        self._case(subscription_id, caller)
        raise NotAvailable(
            "Closing a circuit by hand is not available in this version. Nothing was changed.",
            [Violation("", "closing is not available in this version")],
        )

    def _case(self, subscription_id: str, caller: Caller) -> Case:
        for case in self._cases(caller.environment):
            if case.circuit.subscription_id == subscription_id:
                _check(case, caller)
                return case
        raise NotFound(
            f"Subscription {subscription_id} has no circuit in {caller.environment}: its callback "
            "was never found broken, or there is no such subscription."
        )

    def _visible(self, caller: Caller) -> Iterator[Case]:
        for case in self._cases(caller.environment):
            if caller.is_admin or case.subscriber_id == caller.client_id:
                yield case

    def _cases(self, environment: str) -> Iterator[Case]:
        for circuit in self._circuits.all():
            if circuit.environment == environment:
                yield Case(circuit, self._subscriptions.get(circuit.subscription_id))


def _check(case: Case, caller: Caller) -> None:
    if caller.is_admin or case.subscriber_id == caller.client_id:
        return
    raise Forbidden(
        f"Client {caller.client_id} may not see this circuit: the subscription belongs to another "
        "client. Use a token of that client, or ask an administrator."
    )
