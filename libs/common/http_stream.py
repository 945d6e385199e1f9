"""HTTP connections for long answers: what was sent, and what only waits in this process.

An ASGI `send` returns when the bytes are buffered. For a stream that is not enough: what a process
that dies still holds was never sent. Such a connection buffers nothing by itself, and
`Connection.handed_over` tells when the kernel has all that was written.
"""

import asyncio
from typing import Any, Final

from starlette.types import Scope

from libs.common.http_protocol import BoundedHttp

_KEY: Final = "meridian.connection"


class Connection:
    """What an application may know of the connection that a request came by."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_lost = False

    async def handed_over(self) -> bool:
        """Waits until the kernel has everything; False when the connection broke before that."""
        while not self._is_lost and self._transport.get_write_buffer_size() > 0:
            await self._writable.wait()
            await asyncio.sleep(0)
        return not self._is_lost and not self._transport.is_closing()

    def abort(self) -> None:
        """Ends the connection at once: the answer is not complete."""
        self._transport.abort()

    def pause(self) -> None:
        """Something waits in this process."""
        self._writable.clear()

    def resume(self) -> None:
        """Nothing waits."""
        self._writable.set()

    def lose(self) -> None:
        """The connection is gone."""
        self._is_lost = True
        self._writable.set()


class StreamingHttp(BoundedHttp):
    """One connection whose requests carry a `Connection`."""

    connection: Connection

    def connection_made(  # type: ignore[override]  # as in the class above
        self, transport: asyncio.Transport
    ) -> None:
        """Begins, without a buffer of its own."""
        transport.set_write_buffer_limits(high=0)
        self.connection = Connection(transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends."""
        self.connection.lose()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The kernel takes no more."""
        self.connection.pause()
        super().pause_writing()

    def resume_writing(self) -> None:
        """The kernel has everything."""
        self.connection.resume()
        super().resume_writing()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]  # a key that ASGI leaves free
        scope[_KEY] = self.connection


def connection_of(scope: Scope) -> Connection:
    """The connection of a request served by `StreamingHttp`."""
    found = scope[_KEY]
    if not isinstance(found, Connection):
        raise TypeError(f"scope[{_KEY!r}] is no Connection")
    return found
