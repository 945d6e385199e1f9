"""What the multiplexer needs from outside."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn, Protocol

from libs.common.partitions import Partition
from libs.common.resources import Subscription
from services.multiplexer.domain.routing import Output

OnStored = Callable[[], None]

Abort = Callable[[str], NoReturn]
"""Ends the process at once, without a flush: nothing may follow a record that is missing."""

Headers = Sequence[tuple[str, bytes]]


class Resources(Protocol):
    """How far the table `resources` is known here."""

    @property
    def position(self) -> int:
        """Everything below this offset is applied."""
        ...

    async def reached(self, offset: int) -> None:
        """Returns once everything below the offset is applied."""
        ...


class Subscriptions(Protocol):
    """Subscriptions by environment and event type."""

    def subscriptions_of(self, environment: str, event_type: str) -> list[Subscription]:
        """All subscriptions of a type."""
        ...


class RecordLog(Protocol):
    """Where records are written: in the order of the calls, without holes."""

    def write(
        self, output: Output, *, on_stored: OnStored, headers: Headers = (), timestamp_ms: int = 0
    ) -> None:
        """Queues a record; `on_stored` follows.

        Raises Overloaded when the same record has to be queued again later. Any other failure ends
        the process.
        """
        ...


class Reader(Protocol):
    """The member of the consumer group."""

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Hands over nothing more of the partitions."""
        ...

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Goes on where `pause` stopped."""
        ...

    def commit(self, offsets: Mapping[Partition, int], *, metadata: str) -> None:
        """Sends offsets of owned partitions; `confirmed` tells when they are committed."""
        ...

    async def commit_now(self, offsets: Mapping[Partition, int], *, metadata: str) -> None:
        """Commits offsets of owned partitions; raises CommitRefused."""
        ...

    def confirmed(self, partition: Partition) -> int | None:
        """The offset that Kafka last confirmed for an owned partition."""
        ...
