"""A record of `published` as an event, or the reason why no code can read it. Pure."""

from dataclasses import dataclass

import msgspec

from libs.common import clock, ids
from libs.common.records import EventHead, PublishedEvent, decoder, head_decoder

_decoder = decoder(PublishedEvent)


@dataclass(frozen=True, slots=True)
class Readable:
    """A published event with its id, type and time, and when it was published."""

    event: PublishedEvent
    head: EventHead
    published_ms: int
    """Milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Poison:
    """A record that no code can read."""

    reason: str


def parse(value: bytes | None) -> Readable | Poison:
    """Reads one record; never raises."""
    if value is None:
        return Poison("the record has no value")
    try:
        event = _decoder.decode(value)
        ids.uuid_bytes(event.uuid)
        published_ms = clock.to_ms(clock.from_text(event.published_at))
        return Readable(event, head_decoder.decode(event.event), published_ms)
    except (msgspec.MsgspecError, ValueError) as error:
        return Poison(str(error))
