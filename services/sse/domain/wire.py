"""What consumers get: formats, frames, limits. Pure.

`application/stream+json` is one event per line, as Horizon has it. `text/event-stream` carries the
copy's uuid as the event's id, by which a consumer tells a repeat.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

REPLAY_HEADER = "x-pubsub-offset-id"
"""Where Horizon puts the copy's uuid."""

KEEP_ALIVE = b": keep-alive\n\n"


class Format(StrEnum):
    """Media types of a stream; the first is the default."""

    JSON_LINES = "application/stream+json"
    EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a stream ends by itself; 0 means never."""

    events: int = 0
    minutes: int = 0
    size_bytes: int = 0

    def is_reached(self, *, events: int, elapsed_s: float, size_bytes: int) -> bool:
        """True before the event with which one of them would be passed."""
        return (
            bool(self.events and events >= self.events)
            or bool(self.minutes and elapsed_s >= self.minutes * 60)
            or bool(self.size_bytes and size_bytes >= self.size_bytes)
        )


UNLIMITED = Limits()


def farewell(reason: str) -> bytes:
    """The comment by which an event stream ends: consumers may read it, browsers pass it over."""
    return b": ended %s\n\n" % reason.encode()


def negotiate(accept: str | None) -> Format | None:
    """The format that the header prefers; None when it takes neither.

    The more specific range counts for each format, then the higher quality, then the order in which
    the header names them; without a header, and for ranges alone, it is the default.
    """
    ranges = [_range(part) for part in (accept or "*/*").split(",")]
    best: tuple[float, int, int] | None = None
    chosen = None
    for order, offered in enumerate(Format):
        matching = [
            (_specificity(name, offered), quality, -place)
            for place, (name, quality) in enumerate(ranges)
            if _specificity(name, offered) > 0
        ]
        if not matching:
            continue
        specificity, quality, place = max(matching)
        rank = (quality, specificity, place if specificity > 1 else -order)
        if quality > 0 and (best is None or rank > best):
            best, chosen = rank, offered
    return chosen


def _range(part: str) -> tuple[str, float]:
    name, *parameters = part.split(";")
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            try:
                quality = float(value)
            except ValueError:
                quality = 0.0
    return name.strip().lower(), quality


def _specificity(name: str, offered: Format) -> int:
    major = offered.split("/")[0]
    return {offered.value: 3, f"{major}/*": 2, "*/*": 1}.get(name, 0)


def frame(
    event: bytes,
    *,
    uuid: str,
    form: Format,
    http_headers: Mapping[str, list[str]] | None = None,
) -> bytes:
    """One event as it goes out; `http_headers` are added to it when they are given."""
    line = _with_headers(event, http_headers, uuid) if http_headers is not None else event
    # A line break in JSON stands between tokens, where a blank does as well.
    line = line.replace(b"\n", b" ").replace(b"\r", b" ")
    if form is Format.JSON_LINES:
        return line + b"\n"
    return b"id: %s\ndata: %s\n\n" % (uuid.encode(), line)


def _with_headers(event: bytes, http_headers: Mapping[str, list[str]], uuid: str) -> bytes:
    members = {**http_headers, REPLAY_HEADER: [uuid]}
    body = event.rstrip()[:-1].rstrip()
    return b'%s,"httpHeaders":%s}' % (body, msgspec.json.encode(members))
