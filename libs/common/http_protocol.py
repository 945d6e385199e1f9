"""HTTP connections with bounds that uvicorn does not have, and problems where it sends plain text.

A request's head has a largest size and a longest time; so has the rest of a body that nobody reads
because its request was already answered. Connections over the limit are told so and closed.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from libs.common import problem
from libs.common.errors import ClientError, Overloaded

HEAD_BYTES_MAX: Final = 65_536
HEAD_TIMEOUT_S: Final = 20.0
"""For a head to arrive, and for what is left of a body after its answer."""

WHOLE_BODY: Final = "meridian.body.whole"
"""The ASGI extension of a request whose body has arrived: one `receive` gives all of it."""

_WITH_WHOLE_BODY: Final[dict[str, dict[object, object]]] = {WHOLE_BODY: {}}

_REASONS: Final = {
    400: b"Bad Request",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class BoundedHttp(HttpToolsProtocol):
    """One connection."""

    head_timeout_s = HEAD_TIMEOUT_S

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._connections_max, self.limit_concurrency = self.limit_concurrency, None
        self._head_bytes = 0
        self._is_reading_head = False
        self._is_reading_body = False
        self._overdue: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]  # as in the class above
        self, transport: asyncio.Transport
    ) -> None:
        """Begins, or says that there are too many connections."""
        super().connection_made(transport)
        if self._connections_max is not None and len(self.connections) > self._connections_max:
            error = Overloaded(f"There are {self._connections_max} connections already.")
            self._refuse(problem.problem(error, instance=""))
        else:
            self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reads on; ends the connection of a head that is too long."""
        if self.transport.is_closing():
            return
        was_reading_head = self._is_reading_head
        super().data_received(data)
        if self._is_reading_head and was_reading_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                detail = f"The request's head is longer than {HEAD_BYTES_MAX} bytes."
                self._refuse(problem.framework_problem(431, detail, instance=""))
                return
        if self._is_reading_head or self._is_discarding:
            self._arm()

    def on_message_begin(self) -> None:
        """A head begins."""
        self._is_reading_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is here, the body begins."""
        self._is_reading_head = False
        self._is_reading_body = True
        self._disarm()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is here."""
        self.scope["extensions"] = _WITH_WHOLE_BODY
        self._is_reading_body = False
        self._disarm()
        super().on_message_complete()

    @property
    def _is_discarding(self) -> bool:
        return self._is_reading_body and bool(self.cycle.response_complete)

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP."""
        self._refuse(problem.problem(ClientError(msg), instance=""))

    def _arm(self) -> None:
        if self._overdue is None and not self.transport.is_closing():
            self._overdue = self.loop.call_later(self.head_timeout_s, self.transport.close)

    def _disarm(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _refuse(self, found: problem.Problem) -> None:
        headers = {
            "content-type": problem.CONTENT_TYPE,
            "content-length": str(len(found.body)),
            "connection": "close",
            **found.headers,
        }
        head = b"".join(f"{name}: {value}\r\n".encode() for name, value in headers.items())
        status = b"HTTP/1.1 %d %s\r\n" % (found.status, _REASONS[found.status])
        self.transport.write(status + head + b"\r\n" + found.body)
        self.transport.close()
