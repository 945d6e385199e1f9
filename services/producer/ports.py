"""What the publish service needs from outside."""

from typing import Protocol

from libs.common.auth import Identity
from services.producer.domain.stored import Registration


class Tokens(Protocol):
    """Who calls."""

    async def verify(self, token: str) -> Identity:
        """The verified caller; raises Unauthenticated, or IssuerUnavailable."""
        ...


class Registry(Protocol):
    """What the platform's resources say of event types."""

    def registration(self, environment: str, event_type: str) -> Registration:
        """The type's standing now, and the resources offset at which it is true."""
        ...


class EventLog(Protocol):
    """Where published events are stored."""

    async def append(self, key: str, record: bytes) -> None:
        """Returns once the record is durable.

        Raises KafkaUnavailable, Overloaded or TooLarge when it is not stored, AckTimeout when
        nobody knows.
        """
        ...
