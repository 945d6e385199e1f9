"""What the use cases need from outside, in their own words."""

from collections.abc import Iterable
from typing import Protocol

from libs.common.records import Circuit
from libs.common.resources import Subscription


class Circuits(Protocol):
    """The circuits that the platform knows."""

    def all(self) -> Iterable[Circuit]:
        """Every circuit, in no order."""
        ...


class Subscriptions(Protocol):
    """The subscriptions as they are now."""

    def get(self, subscription_id: str, /) -> Subscription | None:
        """One of them; None for one that does not exist any more."""
        ...
