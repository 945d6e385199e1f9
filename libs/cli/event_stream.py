"""Reads `text/event-stream`, the format of server-sent events, piece by piece. Pure.

By the HTML standard: lines end with CR LF, LF or CR, a line that begins with a colon is a comment,
an empty line ends an event, an event that has not ended counts for nothing. Its fields `event` and
`retry` have no use here. Before the platform ends a stream it says why in a comment: `ended <why>`.
"""

import codecs
import re
from dataclasses import dataclass, field
from typing import Final

from libs.cli.errors import CommandFailed

EVENT_CHARACTERS_MAX: Final = 8_388_608
"""Larger than any event that the platform takes."""

FAREWELL: Final = "ended "

_LINE_END: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event: its data, and the last id that the stream gave, empty before the first."""

    id: str
    data: str


@dataclass(slots=True)
class EventStreamParser:
    """Takes the bytes of one connection as they come; holds at most one event that is not whole."""

    ended_because: str | None = None
    """Why the server ends the stream, once it has said so."""
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    )
    _rest: str = ""
    _data: list[str] = field(default_factory=list)
    _id: str = ""
    _after_return: bool = False
    """The last character was a CR: a LF that follows belongs to it."""

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """The events that end in this piece; CommandFailed for one that is too large."""
        text = self._decoder.decode(chunk)
        if not text:
            return []
        if self._after_return and text[0] == "\n":
            text = text[1:]
        self._after_return = text.endswith("\r") if text else False
        *lines, self._rest = _LINE_END.split(self._rest + text)
        found = [event for line in lines if (event := self._take(line)) is not None]
        if len(self._rest) + sum(map(len, self._data)) > EVENT_CHARACTERS_MAX:
            raise CommandFailed(
                f"An event on the stream has more than {EVENT_CHARACTERS_MAX} characters."
            )
        return found

    def _take(self, line: str) -> StreamEvent | None:
        """Takes one line; the event that it ends, if it ends one with data."""
        if not line:
            lines, self._data = self._data, []
            return StreamEvent(self._id, "\n".join(lines)) if lines else None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not name and value.startswith(FAREWELL):
            self.ended_because = value.removeprefix(FAREWELL)
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        return None
