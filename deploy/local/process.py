"""One child process: how it is started, how one sees that it is ready, how it is stopped."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deploy.local.errors import StartFailed
from deploy.local.identity import ProcessId, identify, is_alive

POLL_S: Final = 0.1
KILL_S_MAX: Final = 5.0
LOG_BYTES_MAX: Final = 20_000_000
LOG_LINES_SHOWN: Final = 15
LOG_TAIL_BYTES: Final = 16_384

STOP_S_MAX: Final = 30.0
"""After SIGTERM; what takes longer is killed."""

ReadyCheck = Callable[[], str | None]
"""Returns None when the process is ready, otherwise what is missing; takes at most 2 seconds."""


def pause() -> None:
    """Waits a moment between two looks at something."""
    time.sleep(POLL_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is to be run."""

    name: str
    command: tuple[str, ...]
    log: Path
    """Output goes here; grows to `LOG_BYTES_MAX`, then it is moved to `<name>.log.1`."""
    ready: ReadyCheck
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to this process's own environment."""
    start_s_max: float = 120.0


class ManagedProcess:
    """A running or stopped program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._popen: subprocess.Popen[bytes] | None = None
        self.id: ProcessId | None = None
        self.log_position = 0
        """Where the log of the present run begins, in bytes."""

    def start(self) -> None:
        """Starts the program; it does not get this terminal's Ctrl-C."""
        program = self.program
        program.log.parent.mkdir(parents=True, exist_ok=True)
        keep_log_bounded(program.log)
        with program.log.open("ab") as output:
            self.log_position = output.tell()
            self._popen = subprocess.Popen(
                program.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **program.environment},
                start_new_session=True,
            )
        self.id = identify(self._popen.pid)

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._popen.pid if self._popen and self.exit_code() is None else None

    def exit_code(self) -> int | None:
        """How the program ended, negative for a signal; None while it runs."""
        return self._popen.poll() if self._popen else None

    def wait_ready(self, pause: Callable[[], None] = pause) -> None:
        """Returns once the program is ready; StartFailed when it ends or takes too long.

        `pause` is called between two looks; what it raises ends the waiting.
        """
        deadline_s = time.monotonic() + self.program.start_s_max
        while True:
            missing = self.program.ready()
            code = self.exit_code()
            if code is not None:
                raise StartFailed(self.explain(f"ended with exit code {code} before it was ready"))
            if missing is None:
                return
            if time.monotonic() > deadline_s:
                waited = f"was not ready after {self.program.start_s_max:.0f} s ({missing})"
                raise StartFailed(self.explain(waited))
            pause()

    def ask_to_stop(self) -> None:
        """Sends SIGTERM, if the program runs."""
        if self._popen and self.exit_code() is None:
            self._popen.send_signal(signal.SIGTERM)

    def stop(self) -> bool:
        """Stops the program and waits; False when it had to be killed."""
        return stop_all((self,)) == []

    def wait_stopped(self, *, until_s: float) -> bool:
        """Waits for the end until a monotonic time, then kills; False when killed."""
        if self._popen is None:
            return True
        try:
            self._popen.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait(KILL_S_MAX)
            return False
        return True

    def explain(self, what: str) -> str:
        """A sentence about the program, with the end of its log."""
        return (
            f"{self.program.name} {what}. The end of {self.program.log}:\n"
            f"{log_tail(self.program.log)}"
        )


def stop_all(processes: Sequence[ManagedProcess]) -> list[str]:
    """Stops processes together, within STOP_S_MAX; names those that had to be killed."""
    for process in processes:
        process.ask_to_stop()
    until_s = time.monotonic() + STOP_S_MAX
    return [
        process.program.name for process in processes if not process.wait_stopped(until_s=until_s)
    ]


def terminate(process: ProcessId) -> bool:
    """Stops a process that is not this one's child; False when exactly that one ran no more."""
    if not is_alive(process):
        return False
    for number, wait_s in ((signal.SIGTERM, STOP_S_MAX), (signal.SIGKILL, KILL_S_MAX)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
        deadline_s = time.monotonic() + wait_s
        while is_alive(process) and time.monotonic() < deadline_s:
            pause()
        if not is_alive(process):
            break
    return True


def keep_log_bounded(log: Path) -> None:
    """Moves the content of a log that has grown too large to `<name>.1`; its writers go on."""
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)


def log_tail(log: Path) -> str:
    """The last lines of a log, indented."""
    if not log.exists():
        return "    (no log)"
    with log.open("rb") as content:
        content.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
        lines = content.read().decode(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    return "\n".join(f"    {line}" for line in lines) or "    (empty)"
