"""The home folder of a platform: who runs it, and which processes belong to it.

The supervisor holds a lock on `supervisor.lock` for as long as it lives, so that a lock which can
be had means that none runs, however the last one ended. `processes.json` names its children with
their start times: that is how what a crashed supervisor left behind is found and told apart from
strangers that got the same process ids since.
"""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from deploy.local import endpoints, invocation
from deploy.local.errors import AlreadyRunning
from deploy.local.identity import ProcessId
from deploy.local.process import pause, terminate

LOCK_NAME: Final = "supervisor.lock"
PROCESSES_NAME: Final = "processes.json"


@contextmanager
def owned(home: Path) -> Iterator[None]:
    """Makes this process the supervisor of the home; AlreadyRunning when there is one."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / LOCK_NAME).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise already_running(home) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def refuse_running(home: Path) -> None:
    """AlreadyRunning when the home has a supervisor."""
    if supervisor_pid(home) is not None:
        raise already_running(home)


def already_running(home: Path) -> AlreadyRunning:
    """The error for a home that is taken."""
    status, down = (invocation.command(word, home=home) for word in ("status", "down"))
    return AlreadyRunning(
        f"A platform runs in {home} already: see '{status}', stop it with '{down}', or choose "
        "another --home and --port-base."
    )


def supervisor_pid(home: Path) -> int | None:
    """Process id of the supervisor; None when none runs."""
    try:
        with (home / LOCK_NAME).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except BlockingIOError:
        text = (home / LOCK_NAME).read_text()
        return int(text) if text.isdecimal() else None
    return None


def wait_until_free(home: Path, *, wait_s: float) -> bool:
    """Waits until no supervisor runs; False when one still does after `wait_s` seconds."""
    deadline_s = time.monotonic() + wait_s
    while supervisor_pid(home) is not None:
        if time.monotonic() > deadline_s:
            return False
        pause()
    return True


def write_processes(home: Path, processes: Mapping[str, ProcessId]) -> None:
    """Remembers the supervisor's children, in the order in which they were started."""
    endpoints.write_private(home / PROCESSES_NAME, msgspec.json.encode(dict(processes)))


def forget_processes(home: Path) -> None:
    """Nothing of this home runs any more."""
    (home / PROCESSES_NAME).unlink(missing_ok=True)


def stop_orphans(home: Path) -> list[str]:
    """Stops what a supervisor that is gone left running, last started first; names what it was.

    Call it only while holding the home.
    """
    endpoints.remove(home)
    try:
        content = (home / PROCESSES_NAME).read_bytes()
        left = msgspec.json.decode(content, type=dict[str, ProcessId])
    except (FileNotFoundError, msgspec.DecodeError):
        return []
    stopped = [name for name, process in reversed(left.items()) if terminate(process)]
    forget_processes(home)
    return stopped
