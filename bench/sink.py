"""Takes callbacks, answers 200 at once, and remembers when each event came.

A process of its own, on one port: `POST` anything is a callback, `GET /arrivals/<run>` gives what
came of a run as a list of [number, monotonic nanoseconds], `GET /count/<run>` how many different
events. The event is known by its id, found in the body as the first member of that name.
"""

import argparse
import asyncio
import signal
import time
from functools import partial
from typing import Final, cast

import httptools
import msgspec
import uvloop

from bench.load import parsed_id

ARRIVALS_MAX: Final = 2_000_000
BODY_BYTES_MAX: Final = 1_048_576
_MARK: Final = b'"id":"'
_ID_LENGTH: Final = 36

Arrival = tuple[int, int]
"""Number of the event, monotonic nanoseconds."""


class Arrivals:
    """What came, by run; what is over the bound or carries no id is counted only."""

    def __init__(self) -> None:
        self._by_run: dict[int, list[Arrival]] = {}
        self._total = 0
        self.unknown = 0

    def add(self, body: bytes, now_ns: int) -> None:
        """Notes one callback."""
        begin = body.find(_MARK) + len(_MARK)
        try:
            run, sequence = parsed_id(body[begin : begin + _ID_LENGTH].decode("ascii"))
        except ValueError:
            self.unknown += 1
            return
        self._total += 1
        if self._total > ARRIVALS_MAX:
            self.unknown += 1
            return
        self._by_run.setdefault(run, []).append((sequence, now_ns))

    def of(self, run: int) -> list[Arrival]:
        """What came of a run, in order of arrival, repeats included."""
        return self._by_run.get(run, [])

    def count(self, run: int) -> int:
        """Different events of a run."""
        return len({sequence for sequence, _ in self.of(run)})


class Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.WriteTransport | None = None
        self._url = b""
        self._body: list[bytes] = []
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Reads on; what is no HTTP ends the connection."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._close()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._body.clear()
        self._url = b""
        self._size = 0

    def on_url(self, url: bytes) -> None:
        """A piece of its target."""
        self._url += url

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""
        self._size += len(body)
        if self._size > BODY_BYTES_MAX:
            self._close()
            return
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Answers."""
        if self._parser.get_method() == b"POST":
            self._arrivals.add(b"".join(self._body), time.monotonic_ns())
            self._answer(b"")
        else:
            self._answer(self._asked())

    def _asked(self) -> bytes:
        _, kind, run = self._url.decode("ascii").rsplit("/", 2)
        if kind == "count":
            return msgspec.json.encode(self._arrivals.count(int(run)))
        return msgspec.json.encode(self._arrivals.of(int(run)))

    def _answer(self, body: bytes) -> None:
        if self._transport is not None:
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
            self._transport.write(head + body)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def serve(host: str, port: int) -> None:
    """Serves until SIGTERM."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    server = await loop.create_server(partial(Connection, Arrivals()), host, port, backlog=1_024)
    await stop.wait()
    server.close()


def main() -> None:
    """Reads the arguments and serves."""
    parser = argparse.ArgumentParser(prog="sink", description=__doc__)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    uvloop.run(serve(arguments.host, arguments.port))


if __name__ == "__main__":
    main()
