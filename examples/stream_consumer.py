"""Reads a stream: prints each event once, connects again when it breaks, gives way to another.

    TOKEN=$(./meridian token eni--quickstart--dashboard) \
        .venv/bin/python examples/stream_consumer.py <address that `meridian apply` printed>

The lines of `text/event-stream` are few: `id:` names the event, `data:` carries it, an empty line
ends it, and a comment (`:`) says that the connection lives, or why it ends.
"""

import os
import sys
import time
from collections import deque
from collections.abc import Iterator

import httpx

REMEMBERED = 10_000
PAUSE_S_MAX = 30.0
SILENCE_S = 45.0


def main() -> None:
    """Reads until the stream is somebody else's, or is refused."""
    address, token = sys.argv[1], os.environ["TOKEN"]
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    seen: deque[str] = deque(maxlen=REMEMBERED)
    pause_s = 0.5
    with httpx.Client(headers=headers, timeout=httpx.Timeout(10, read=SILENCE_S)) as http:
        while True:
            try:
                with http.stream("GET", address) as answer:
                    if answer.status_code not in (200, 503):
                        sys.exit(f"refused: {answer.read().decode()}")
                    if answer.status_code == 200:
                        read(lines(answer.iter_bytes()), seen)
                        pause_s = 0.5
            except httpx.HTTPError as error:
                print(f"no stream: {error}", file=sys.stderr)
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)


def lines(chunks: Iterator[bytes]) -> Iterator[str]:
    """Lines as they end. Only LF ends one: JSON may hold other breaks that Unicode knows."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode() for line in whole)


def read(stream: Iterator[str], seen: deque[str]) -> None:
    """Handles each event of one connection; exits when another reader has the stream."""
    event_id, data = "", ""
    for line in stream:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            event_id = value
        elif name == "data":
            data = value  # the platform puts an event on one line
        elif line == ": ended cut_out":
            sys.exit("another reader has the stream now")
        elif not line and data:
            if event_id not in seen:
                seen.append(event_id)
                handle(data)
            data = ""


def handle(event: str) -> None:
    """What the application does with an event: here it prints it."""
    print(event, flush=True)


if __name__ == "__main__":
    main()
