"""Starts, stops and looks at platforms from other programs: command line, demo, tests."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TextIO

from deploy.local import endpoints, home, invocation, probes, programs
from deploy.local.endpoints import Endpoints
from deploy.local.errors import NotRunning, StartFailed
from deploy.local.ports import Ports, url
from deploy.local.process import keep_log_bounded, pause
from deploy.local.supervisor import FAILED

START_S_MAX: Final = 600.0
STOP_S_MAX: Final = 120.0

Say = Callable[[str], None]

_children: Final[dict[Path, subprocess.Popen[bytes]]] = {}
"""Supervisors that this process started, by home, so that their ends are collected."""


def start(folder: Path, at: Ports, *, say: Say) -> Endpoints:
    """Starts a platform that outlives this process; returns when it is ready.

    `say` gets every line of progress. LocalError when it cannot be started: nothing is left then.
    """
    home.refuse_running(folder)
    _collect(folder)
    log = folder / "logs" / "platform.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    keep_log_bounded(log)
    with log.open("ab") as output:
        begin = output.tell()
        supervisor = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "deploy.local.supervisor"),
                *("--home", str(folder), "--port-base", str(at.base)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[folder] = supervisor
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            lines.seek(begin)
            return _follow(supervisor, folder, lines=lines, say=say)
    except BaseException:
        supervisor.terminate()
        _collect(folder)
        raise


def stop(folder: Path) -> list[str] | None:
    """Stops the platform of a home and waits for its end.

    Returns None when a supervisor stopped it; otherwise there was none, and what an earlier one
    had left running is stopped and named. StartFailed never; NotRunning when there is nothing.
    """
    pid = home.supervisor_pid(folder)
    if pid is None:
        return _clean_up(folder)
    os.kill(pid, signal.SIGTERM)
    if not home.wait_until_free(folder, wait_s=STOP_S_MAX):
        raise NotRunning(
            f"The platform in {folder} did not stop within {STOP_S_MAX:.0f} s: its supervisor is "
            f"process {pid}, its log {folder / 'logs' / 'platform.log'}."
        )
    _collect(folder)
    return None


def status(folder: Path) -> dict[str, str]:
    """What each process of a running platform lacks, `ready` when nothing; NotRunning."""
    running = endpoints.read(folder)
    if home.supervisor_pid(folder) is None:
        up = invocation.command("up", home=folder, port_base=running.port_base)
        down = invocation.command("down", home=folder)
        raise NotRunning(
            f"The platform in {folder} ended without stopping; start it again with '{up}', or "
            f"clear what it left with '{down}'."
        )
    at = Ports(running.port_base)
    urls = {name: f"{url(at.management(name))}/readyz" for name in programs.SERVICE_NAMES}
    urls["issuer"] = f"{url(at.api('issuer'))}/livez"
    found = {name: probes.http_missing(address) or "ready" for name, address in urls.items()}
    found["kafka"] = "ready" if probes.is_open(at.kafka) else "its port is not open"
    found["redis"] = probes.redis_missing(at.redis) or "ready"
    return found


def _follow(
    supervisor: subprocess.Popen[bytes], folder: Path, *, lines: TextIO, say: Say
) -> Endpoints:
    """Passes progress on until the platform is ready; the supervisor's last words are an error."""
    deadline_s = time.monotonic() + START_S_MAX
    failure = ""
    while True:
        has_ended = supervisor.poll() is not None
        ready = _read_if_ready(folder, supervisor.pid)
        for line in lines.read().splitlines():
            if failure or line.startswith(FAILED):
                failure += f"{line.removeprefix(FAILED)}\n"
            else:
                say(line)
        if has_ended:
            raise StartFailed(failure.rstrip() or f"The supervisor ended; see {lines.name}")
        if ready:
            return ready
        if time.monotonic() > deadline_s:
            raise StartFailed(f"The platform was not ready after {START_S_MAX:.0f} s: {lines.name}")
        pause()


def _read_if_ready(folder: Path, supervisor_pid: int) -> Endpoints | None:
    try:
        found = endpoints.read(folder)
    except NotRunning:
        return None
    return found if found.pids.get("supervisor") == supervisor_pid else None


def _collect(folder: Path) -> None:
    """Waits for a supervisor that was started here and is about to end, or has ended."""
    child = _children.pop(folder, None)
    if child is not None:
        child.wait(STOP_S_MAX)


def _clean_up(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise NotRunning(f"There is no platform in {folder}: name its home with --home.")
    with home.owned(folder):
        return home.stop_orphans(folder)
