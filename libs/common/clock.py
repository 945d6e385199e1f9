"""Time as the wire has it: ISO-8601 UTC with milliseconds.

Domain code takes times as arguments; these functions belong to the shell.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]
"""Returns the present as an aware datetime in UTC."""

_WITHOUT_OFFSET = len("2026-11-20T10:00:00.123")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def utc_now() -> datetime:
    """The present, aware, in UTC."""
    return datetime.now(UTC)


def to_text(moment: datetime) -> str:
    """`2026-11-20T10:00:00.123Z`; the moment has to be aware."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return in_utc.isoformat(timespec="milliseconds")[:_WITHOUT_OFFSET] + "Z"


def from_text(text: str) -> datetime:
    """The aware moment of an ISO-8601 text; raises ValueError for any other, or without offset."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset from UTC")
    return moment


def to_ms(moment: datetime) -> int:
    """Milliseconds since the epoch, as Kafka counts."""
    return (moment - _EPOCH) // _MILLISECOND
