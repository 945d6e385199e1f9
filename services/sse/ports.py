"""What the stream service needs from outside."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from libs.common.partitions import ConsumedRecord
from libs.common.records import StatusChange, StreamCheckpoint
from libs.common.resources import Subscription
from services.sse.domain.claims import Place

OnStored = Callable[[], None]
Sink = Callable[[ConsumedRecord], bool]
"""Takes a record over in the event loop; False when there is no room for it."""


class Subscriptions(Protocol):
    """Subscriptions as they are now."""

    def get(self, subscription_id: str, /) -> Subscription | None:
        """The subscription, if it exists."""
        ...


class StreamLog(Protocol):
    """The topics `streams` and `status`."""

    async def claim(self, place: Place, *, connection_id: str | None) -> int:
        """Claims a lane and returns the epoch, once this process has read its own claim.

        Without a connection the claim only ends what is open. Raises KafkaUnavailable.
        """
        ...

    def checkpoint(
        self, place: Place, checkpoint: StreamCheckpoint, *, on_stored: OnStored
    ) -> None:
        """Queues the state of an epoch; `on_stored` follows once it is durable."""
        ...

    def forget(self, place: Place, epoch: int) -> None:
        """Queues the removal of a former epoch's checkpoint."""
        ...

    def record(self, change: StatusChange, *, on_stored: OnStored) -> None:
        """Queues a status; `on_stored` follows once it is durable."""
        ...


class Reading(Protocol):
    """One stream's reading of one lane."""

    def position(self) -> int:
        """Every record of the lane below was offered and taken."""
        ...

    def resume(self) -> None:
        """There is room again for what was refused."""
        ...

    def close(self) -> None:
        """Offers nothing more."""
        ...


class Feed(Protocol):
    """The records of lanes, in order, now and as they come."""

    async def first_offset(self, place: Place, since: datetime | None) -> int:
        """Where the first record that is not older stands, None for the first that Kafka has.

        Raises KafkaUnavailable.
        """
        ...

    def read(self, place: Place, start: int, sink: Sink) -> Reading:
        """Offers the lane's records from an offset on, one after the other, to the sink."""
        ...


class Outlet(Protocol):
    """The connection of one consumer."""

    async def begin(self) -> None:
        """Sends the head of the answer, once."""
        ...

    async def write(self, chunk: bytes) -> None:
        """Returns once the chunk has left this process; raises Disconnected.

        Sends the head first if that has not been done.
        """
        ...

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Calls back when the consumer ends the connection."""
        ...


class Disconnected(Exception):
    """The consumer's connection is gone; what was written last may not have arrived."""
