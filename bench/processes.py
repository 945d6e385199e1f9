"""The benchmark's own processes, and the CPU time of any process on this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.load import Plan, Report
from deploy.local.errors import StartFailed
from deploy.local.process import ManagedProcess, Program, ReadyCheck, stop_all

GENERATOR_S_MAX: Final = 60.0
"""What a generator may need beyond sending and waiting for answers."""

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def module(
    name: str,
    *arguments: str,
    log: Path,
    ready: ReadyCheck,
    environment: Mapping[str, str] | None = None,
) -> ManagedProcess:
    """A process that runs a Python module; not yet started."""
    return ManagedProcess(
        Program(
            name=name,
            command=(sys.executable, "-P", "-m", name, *arguments),
            log=log,
            ready=ready,
            environment=environment or {},
        )
    )


def saying_ready(name: str, *arguments: str, log: Path, line: str) -> ManagedProcess:
    """As `module`, for a process that prints a line once it takes part."""

    def missing() -> str | None:
        with log.open("rb") as content:
            content.seek(process.log_position)
            return None if line.encode() in content.read() else "it does not take part yet"

    process = module(name, *arguments, log=log, ready=missing)
    return process


@contextmanager
def running(processes: Sequence[ManagedProcess]) -> Iterator[dict[str, int]]:
    """Starts processes, gives their ids by the last part of their names, and stops them."""
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.wait_ready()
        yield {
            process.program.name.rpartition(".")[2]: process.pid
            for process in processes
            if process.pid is not None
        }
    finally:
        stop_all(processes)


def generate(plan: Plan) -> Report:
    """Carries out a plan in a process of its own; StartFailed when that does not work."""
    limit_s = plan.duration_s + plan.answers_s_max + GENERATOR_S_MAX
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "bench.generator"],
        input=msgspec.json.encode(plan),
        capture_output=True,
        timeout=limit_s,
        check=False,
    )
    if ended.returncode != 0:
        words = ended.stderr.decode(errors="replace").strip().splitlines()
        raise StartFailed(f"the generator ended: {words[-1] if words else ended.returncode}")
    return msgspec.json.decode(ended.stdout, type=Report)


def cpu_s(pids: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds (user and system) that each process has used; 0 for one that is gone."""
    return {name: _cpu_s(pid) for name, pid in pids.items()}


def _cpu_s(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
