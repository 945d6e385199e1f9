"""Runs a whole platform in the foreground until it is told to stop.

Order of start: Kafka, Redis and the issuer; topics; services. Order of stop: services, then the
rest. A process that ends by itself is started again with growing delays. State stays in the home,
so the next start finds everything as it was.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from deploy.local import endpoints, home, invocation, ports, programs, restarts
from deploy.local.errors import LocalError, StartFailed
from deploy.local.issuer import keys
from deploy.local.kafka_process import KafkaProcess
from deploy.local.ports import Ports
from deploy.local.process import ManagedProcess, keep_log_bounded, pause, stop_all
from deploy.local.redis_process import RedisProcess
from libs.common import topics
from libs.common.errors import KafkaUnavailable
from libs.common.kafka import admin
from libs.common.settings import KafkaSettings

TOPICS_S_MAX: Final = 30.0
FAILED: Final = "meridian: "
"""What the supervisor's last words begin with when it could not do its work."""

Say = Callable[[str], None]


class StopRequested(Exception):
    """SIGTERM or Ctrl-C."""


class Supervisor:
    """The processes of one platform. The caller holds the home."""

    def __init__(self, folder: Path, at: Ports, *, say: Say, pause: Callable[[], None]) -> None:
        self._home = folder
        self._ports = at
        self._say = say
        self._pause = pause
        self._secret = keys.load_secret(folder / "issuer")
        self._kafka = KafkaProcess(folder, at.kafka)
        self._ground: tuple[ManagedProcess, ...] = (
            self._kafka,
            RedisProcess(folder, at.redis),
            ManagedProcess(programs.issuer_program(folder, at)),
        )
        self._services = tuple(
            ManagedProcess(programs.service_program(service, folder, at))
            for service in programs.SERVICES
        )
        self._history: dict[str, restarts.Restarts] = {}

    def start(self) -> None:
        """Returns when everything is ready; StartFailed says which part is not."""
        self._start_stage(self._ground)
        self._create_topics()
        self._start_stage(self._services)
        self._write_endpoints()

    def watch(self) -> None:
        """Starts again what ends by itself; returns never, StopRequested ends it."""
        while True:
            for process in (*self._ground, *self._services):
                self._look_after(process)
            self._pause()

    def stop(self) -> None:
        """Stops everything in order; what does not stop in time is killed and named."""
        endpoints.remove(self._home)
        for stage in (self._services, self._ground[::-1]):
            for name in stop_all(stage):
                self._say(f"{name} did not stop in time and was killed")
        home.forget_processes(self._home)

    def _start_stage(self, stage: Sequence[ManagedProcess]) -> None:
        for process in stage:
            self._start_one(process)
        for process in stage:
            began_s = time.monotonic()
            process.wait_ready(self._pause)
            self._say(f"{process.program.name} is ready ({time.monotonic() - began_s:.1f} s)")

    def _start_one(self, process: ManagedProcess) -> None:
        name = process.program.name
        process.start()
        history = self._history.get(name, restarts.Restarts())
        self._history[name] = restarts.started(history, now_s=time.monotonic())
        running = (*self._ground, *self._services)
        home.write_processes(
            self._home, {each.program.name: each.id for each in running if each.id}
        )

    def _create_topics(self) -> None:
        kafka = KafkaSettings(
            bootstrap_servers=self._kafka.bootstrap_servers, properties={"log_level": "0"}
        )
        deadline_s = time.monotonic() + TOPICS_S_MAX
        while True:
            try:
                created = asyncio.run(admin.create_topics(kafka, topics.topic_specs(embedded=True)))
                break
            except KafkaUnavailable as error:
                if time.monotonic() > deadline_s:
                    raise StartFailed(self._kafka.explain(f"has no topics: {error}")) from error
                self._pause()
        if created:
            self._say(f"{len(created)} topics created")

    def _look_after(self, process: ManagedProcess) -> None:
        name = process.program.name
        history = self._history[name]
        now_s = time.monotonic()
        keep_log_bounded(process.program.log)
        if process.exit_code() is None:
            return
        if history.due_at_s is None:
            history = restarts.ended(history, now_s=now_s)
            self._history[name] = history
            wait_s = (history.due_at_s or now_s) - now_s
            what = f"ended with exit code {process.exit_code()}, starting again in {wait_s:.1f} s"
            self._say(process.explain(what))
        if history.due_at_s is not None and now_s >= history.due_at_s:
            self._start_one(process)
            self._write_endpoints()

    def _write_endpoints(self) -> None:
        running = (*self._ground, *self._services)
        pids = {each.program.name: each.pid for each in running if each.pid is not None}
        pids["supervisor"] = os.getpid()
        endpoints.write(self._home, programs.endpoints(self._ports, secret=self._secret, pids=pids))


def run(folder: Path, at: Ports, *, say: Say, greeting: Sequence[str] = ()) -> None:
    """Runs a platform until SIGTERM or Ctrl-C. Raises a LocalError when it cannot be started.

    The lines of `greeting` are said once everything is ready.
    """
    switch = StopSwitch()
    with switch.listening(), home.owned(folder):
        for name in home.stop_orphans(folder):
            say(f"{name}, left over from a platform that ended without stopping, was stopped")
        refuse_taken_ports(at)
        supervisor = Supervisor(folder, at, say=say, pause=switch.pause)
        try:
            supervisor.start()
            for line in greeting:
                say(line)
            supervisor.watch()
        except StopRequested:
            say("stopping ...")
        finally:
            supervisor.stop()
        again = invocation.command("up", home=folder, port_base=at.base)
        say(f"stopped; '{again}' goes on from here. State: {folder}")


def refuse_taken_ports(at: Ports) -> None:
    """StartFailed naming every port that something else listens on."""
    taken = ports.taken(programs.wanted_ports(at))
    if taken:
        listed = ", ".join(f"{port} ({name})" for name, port in sorted(taken.items()))
        raise StartFailed(
            f"These ports are taken: {listed}. Choose another range, for example with "
            f"--port-base {at.base + 10_000 if at.base < 40_000 else ports.BASE_DEFAULT}."
        )


class StopSwitch:
    """Set by SIGTERM or Ctrl-C, looked at between two steps: a signal never breaks one off."""

    def __init__(self) -> None:
        self._is_on = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes both signals over for a while."""
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self._turn_on) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def pause(self) -> None:
        """Waits a moment; raises StopRequested when the switch is on."""
        pause()
        if self._is_on:
            raise StopRequested

    def _turn_on(self, _: int, __: FrameType | None) -> None:
        self._is_on = True


def say_at_once(line: str) -> None:
    """Prints a line at once."""
    print(line, flush=True)


def main() -> None:
    """Runs a platform as a process of its own, for `launch`; exit code 1 when it cannot start."""
    parser = argparse.ArgumentParser(prog="supervisor", description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--port-base", type=int, required=True)
    arguments = parser.parse_args()
    try:
        run(arguments.home.resolve(), Ports(arguments.port_base), say=say_at_once)
    except LocalError as error:
        print(f"{FAILED}{error}", file=sys.stderr, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
