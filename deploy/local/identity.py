"""Which process a number stands for. A process id alone is not enough: ids are used again."""

import os
import subprocess
from pathlib import Path

import msgspec

ASK_S_MAX = 10.0


class ProcessId(msgspec.Struct, frozen=True):
    """A process for as long as this machine runs."""

    pid: int
    started: str
    """When it was started, in the machine's own words; only good for comparing."""


def identify(pid: int) -> ProcessId | None:
    """The process that has the id now; None when there is none, or when it has ended."""
    started = _started_linux(pid) if Path("/proc/self/stat").exists() else _started(pid)
    return ProcessId(pid, started) if started else None


def is_alive(process: ProcessId) -> bool:
    """Whether exactly this process still runs."""
    return identify(process.pid) == process


def _started_linux(pid: int) -> str | None:
    """Boot id and start time; a process that has ended and waits to be collected counts as none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else f"{boot}/{fields[18]}"


def _started(pid: int) -> str | None:
    answer = subprocess.run(
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        timeout=ASK_S_MAX,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    return answer.stdout.strip() or None
