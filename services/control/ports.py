"""What the use cases need from outside, in their own words."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from libs.common.resources import Resource
from services.control.domain.callbacks import Resolution
from services.control.domain.draft import Draft, Snapshot

Decide = Callable[[Snapshot], Draft]
"""Makes the change from the table as it is; raises a ClientError to leave it as it is."""


class Ledger(Protocol):
    """The table of resources, and the right to change it."""

    @property
    def rows(self) -> Mapping[str, Resource]:
        """The table as this replica knows it, deleted documents included."""
        ...

    def readiness(self) -> str | None:
        """None once the table can be read here, else what is missing."""
        ...

    async def change(self, decide: Decide) -> Draft:
        """Carries out one change after the other, each all or nothing.

        Returns once the change is stored and visible in `rows`. `decide` sees everything that was
        stored before, and is asked again when the change could not be stored as it was. What
        `decide` raises is passed on. Raises NotReady when this replica does not lead, Overloaded
        when too many changes wait, TemporaryError when nothing was stored, FencedOut when another
        replica has taken over.
        """
        ...


class NameService(Protocol):
    """Host names to addresses."""

    async def resolve(self, hosts: Iterable[str]) -> Mapping[str, Resolution]:
        """The addresses of every host, in bounded time; never raises for a name."""
        ...


class Fleet(Protocol):
    """The live processes of the platform."""

    async def applied(self, offset: int) -> None:
        """Returns once every live process has applied `resources` up to the offset.

        Raises NotAppliedYet, naming who lags, when that takes too long.
        """
        ...
