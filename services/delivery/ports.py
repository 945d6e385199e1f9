"""What delivery needs from outside."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from libs.common.partitions import ConsumedRecord, Partition
from libs.common.records import LaneRecord, StatusChange
from libs.common.resources import Subscription
from services.delivery.domain.outcome import Answer
from services.delivery.domain.progress import Checkpoint

OnStored = Callable[[], None]


class Callbacks(Protocol):
    """Subscribers' endpoints."""

    async def post(
        self, url: str, *, body: bytes, headers: Sequence[tuple[str, str]], timeout_s: float
    ) -> Answer:
        """Makes one request. Never raises for what a subscriber does."""
        ...


class StatusLog(Protocol):
    """What became of events; written in the order of the calls."""

    def record(self, change: StatusChange, *, on_stored: OnStored) -> None:
        """Queues a status; `on_stored` follows once it is durable. A failure ends the process."""
        ...

    def set_aside(self, record: ConsumedRecord, *, reason: str, on_stored: OnStored) -> None:
        """Queues a record that nobody can read for `dead-letters`, as it came."""
        ...


class ProgressLog(Protocol):
    """The table `lanes`, and the group's offsets."""

    def name_of(self, partition: Partition) -> str:
        """The partition's topic without the platform's prefix."""
        ...

    async def read(self, partitions: Sequence[Partition]) -> Mapping[Partition, list[LaneRecord]]:
        """What former owners left, all committed and refused transactions ended."""
        ...

    async def write(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """Writes checkpoints and offsets, all or nothing.

        Raises TransactionAborted when nothing was written, FencedOut when this process is replaced.
        """
        ...

    async def pick(self, partition: Partition, offsets: Sequence[int]) -> list[ConsumedRecord]:
        """The records at these ascending offsets, those that Kafka still has."""
        ...


class Subscriptions(Protocol):
    """Subscriptions as they are now."""

    def get(self, subscription_id: str) -> Subscription | None:
        """The subscription, if it exists."""
        ...

    async def known_since(self, version: int) -> None:
        """Returns once everything up to this version of the resources is known here."""
        ...


class Reader(Protocol):
    """The member of the consumer group."""

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Hands over nothing more of the partitions."""
        ...

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Goes on where `pause` stopped."""
        ...
