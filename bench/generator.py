"""Sends events over connections that are kept, by the clock or as fast as answers come.

A process of its own: a `Plan` on standard input, a `Report` on standard output. Nothing is parsed
but what an answer's status and end need, so that the generator is not what is measured.
"""

import asyncio
import sys
import time
from collections import Counter, deque
from functools import partial
from typing import Final, cast

import httptools
import msgspec
import uvloop

from bench import schedule
from bench.load import Plan, Report, Requests

START_S: Final = 0.1
CONNECT_S_MAX: Final = 10.0
REQUESTS_MAX: Final = 2_000_000


class Connection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, course: "Course") -> None:
        self._course = course
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.WriteTransport | None = None
        self.sequence: int | None = None
        """The event that waits for its answer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        """The request under way stays without an answer."""
        self._course.lost(self)

    def data_received(self, data: bytes) -> None:
        """Reads on."""
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """The whole answer is here."""
        self._course.answered(self, self._parser.get_status_code())

    def send(self, sequence: int, request: bytes) -> None:
        """Sends one request."""
        self.sequence = sequence
        if self._transport is not None:
            self._transport.write(request)

    def close(self) -> None:
        """Ends."""
        if self._transport is not None:
            self._transport.close()


class Course:
    """One run: what is to be sent, what has been, what was answered."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._requests = Requests(plan)
        self._loop = asyncio.get_running_loop()
        self._free: deque[Connection] = deque()
        self._is_over = asyncio.Event()
        self._start_ns = 0
        self._end_ns = 0
        self._in_flight = 0
        self._connected = 0
        self._sent_ns: list[int] = []
        self._answered_ns: list[int] = []
        self._statuses: Counter[int] = Counter()
        rate = plan.rate
        self._total = REQUESTS_MAX if rate is None else round(rate * plan.duration_s)

    async def run(self) -> Report:
        """Connects, sends, waits for answers."""
        async with asyncio.timeout(CONNECT_S_MAX):
            for _ in range(self._plan.connections):
                _, connection = await self._loop.create_connection(
                    partial(Connection, self), self._plan.host, self._plan.port
                )
                self._free.append(connection)
        everybody = list(self._free)
        self._connected = len(everybody)
        self._start_ns = time.monotonic_ns() + int(START_S * schedule.NS_PER_S)
        self._end_ns = self._start_ns + int(self._plan.duration_s * schedule.NS_PER_S)
        self._loop.call_later(START_S, self._begin)
        try:
            async with asyncio.timeout(START_S + self._plan.duration_s + self._plan.answers_s_max):
                await self._is_over.wait()
        except TimeoutError:
            pass
        for connection in everybody:
            connection.close()
        return self._report()

    def _begin(self) -> None:
        if self._plan.rate is None:
            while self._free:
                self._send(self._free.popleft(), time.monotonic_ns())
        else:
            self._tick(self._plan.rate)

    def _tick(self, rate: float) -> None:
        """Sends what is due as far as connections are free, and comes back for the next."""
        now_ns = time.monotonic_ns()
        self._send_due(now_ns, rate)
        if len(self._sent_ns) < self._total and self._connected:
            due_ns = schedule.intended_ns(len(self._sent_ns), rate=rate, start_ns=self._start_ns)
            wait_s = max(0.0, (due_ns - time.monotonic_ns()) / schedule.NS_PER_S)
            self._loop.call_later(wait_s if self._free else max(wait_s, 0.001), self._tick, rate)

    def _send_due(self, now_ns: int, rate: float) -> None:
        due = schedule.due(now_ns, rate=rate, start_ns=self._start_ns, total=self._total)
        while self._free and len(self._sent_ns) < due:
            self._send(self._free.popleft(), time.monotonic_ns())

    def _send(self, connection: Connection, now_ns: int) -> None:
        sequence = len(self._sent_ns)
        self._sent_ns.append(now_ns)
        self._answered_ns.append(0)
        self._in_flight += 1
        connection.send(sequence, self._requests.of(sequence))

    def answered(self, connection: Connection, status: int) -> None:
        """A connection has its answer, and is free again."""
        now_ns = time.monotonic_ns()
        if connection.sequence is None:
            return
        self._answered_ns[connection.sequence] = now_ns
        connection.sequence = None
        self._statuses[status] += 1
        self._in_flight -= 1
        is_open = self._plan.rate is None and now_ns < self._end_ns
        if is_open and len(self._sent_ns) < self._total:
            self._send(connection, now_ns)
        else:
            self._free.append(connection)
        self._end_if_done(now_ns)

    def lost(self, connection: Connection) -> None:
        """A connection has ended; nothing is sent again."""
        self._connected -= 1
        if connection.sequence is not None:
            connection.sequence = None
            self._in_flight -= 1
        elif connection in self._free:
            self._free.remove(connection)
        self._end_if_done(time.monotonic_ns())

    def _end_if_done(self, now_ns: int) -> None:
        is_sent = len(self._sent_ns) >= self._total or (
            self._plan.rate is None and now_ns >= self._end_ns
        )
        if (is_sent and self._in_flight == 0) or self._connected == 0:
            self._is_over.set()

    def _report(self) -> Report:
        return Report(
            start_ns=self._start_ns,
            sent_ns=self._sent_ns,
            answered_ns=self._answered_ns,
            statuses=dict(self._statuses),
            cpu_s=time.process_time(),
        )


async def run(plan: Plan) -> Report:
    """Carries out one plan."""
    return await Course(plan).run()


def main() -> None:
    """Reads the plan, writes the report."""
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    report = msgspec.json.encode(uvloop.run(run(plan)))
    # A writer of its own: with PYTHONUNBUFFERED standard output may write a part and say so only in
    # its result.
    with open(sys.stdout.fileno(), "wb", closefd=False) as output:
        output.write(report)


if __name__ == "__main__":
    main()
