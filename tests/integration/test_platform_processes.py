"""Processes of an embedded platform: started, watched, stopped, and never mistaken for another."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from deploy.local import home, identity, launch, process, programs
from deploy.local.endpoints import write
from deploy.local.errors import AlreadyRunning, NotRunning, StartFailed
from deploy.local.identity import ProcessId
from deploy.local.ports import HOST, Ports
from deploy.local.process import ManagedProcess, Program
from deploy.local.redis_process import RedisProcess
from deploy.local.supervisor import run as run_supervisor
from tests.conftest import free_ports

ENDLESS = "import signal; signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)"


def program(tmp_path: Path, code: str, ready: process.ReadyCheck = lambda: None) -> Program:
    return Program(
        name="child",
        command=(sys.executable, "-c", code),
        log=tmp_path / "child.log",
        ready=ready,
        start_s_max=10.0,
    )


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that nobody asked to end."""
    with subprocess.Popen([sys.executable, "-c", ENDLESS]) as running:
        yield running
        running.kill()


def test_a_program_that_ends_before_it_is_ready_is_explained_by_its_log(tmp_path: Path) -> None:
    child = ManagedProcess(
        program(tmp_path, "print('no such setting'); raise SystemExit(2)", lambda: "not yet")
    )
    child.start()
    with pytest.raises(StartFailed, match=r"exit code 2[\s\S]*no such setting"):
        child.wait_ready()


def test_a_program_that_is_never_ready_is_given_up_with_what_is_missing(tmp_path: Path) -> None:
    slow = program(tmp_path, ENDLESS, lambda: "the moon is missing")
    child = ManagedProcess(
        Program(
            name=slow.name, command=slow.command, log=slow.log, ready=slow.ready, start_s_max=0.0
        )
    )
    child.start()
    with pytest.raises(StartFailed, match="the moon is missing"):
        child.wait_ready()
    assert child.stop()


def test_a_program_that_does_not_stop_in_time_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP_S_MAX", 0.2)
    deaf = program(tmp_path, f"{DEAF}\nwhile True: signal.pause()")
    child = ManagedProcess(
        Program(
            name=deaf.name,
            command=deaf.command,
            log=deaf.log,
            ready=lambda: None if "up" in deaf.log.read_text() else "deaf",
        )
    )
    child.start()
    child.wait_ready()
    assert not child.stop()
    assert child.exit_code() == -9


def test_a_log_that_has_grown_too_large_is_moved_aside_and_written_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LOG_BYTES_MAX", 10)
    log = tmp_path / "child.log"
    with log.open("a") as writer:
        writer.write("a long first line\n")
        writer.flush()
        process.keep_log_bounded(log)
        writer.write("next\n")
    assert log.read_text() == "next\n"
    assert (tmp_path / "child.log.1").read_text() == "a long first line\n"


def test_a_process_is_known_by_its_start_as_well_as_by_its_number(
    stranger: subprocess.Popen[bytes],
) -> None:
    found = identity.identify(stranger.pid)
    assert found is not None
    assert identity.is_alive(found)
    assert not identity.is_alive(ProcessId(stranger.pid, "some other time"))


def test_a_stranger_with_a_former_childs_number_is_left_alone(
    tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    home.write_processes(tmp_path, {"kafka": ProcessId(stranger.pid, "before the last boot")})
    assert home.stop_orphans(tmp_path) == []
    assert stranger.poll() is None


def test_what_a_crashed_supervisor_left_is_stopped_last_started_first(
    tmp_path: Path,
) -> None:
    children = [ManagedProcess(program(tmp_path, ENDLESS)) for _ in range(2)]
    for child in children:
        child.start()
    left = {f"child {n}": child.id for n, child in enumerate(children) if child.id}
    home.write_processes(tmp_path, left)
    assert home.stop_orphans(tmp_path) == ["child 1", "child 0"]
    assert [child.exit_code() for child in children] == [-15, -15]


def test_a_home_has_one_supervisor_at_a_time(tmp_path: Path) -> None:
    with home.owned(tmp_path), pytest.raises(AlreadyRunning), home.owned(tmp_path):
        pass
    assert home.supervisor_pid(tmp_path) is None


def test_endpoints_of_a_crashed_platform_are_not_taken_for_a_running_one(tmp_path: Path) -> None:
    write(tmp_path, programs.endpoints(Ports(), secret="s", pids={}))
    with pytest.raises(NotRunning, match="ended without stopping"):
        launch.status(tmp_path)


def test_stopping_what_was_never_started_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotRunning):
        launch.stop(tmp_path / "absent")


def test_every_taken_port_is_named_before_anything_starts(tmp_path: Path) -> None:
    at = free_ports(*programs.SERVICE_NAMES)
    with (
        socket.create_server((HOST, at.redis)),
        socket.create_server((HOST, at.api("control"))),
        pytest.raises(StartFailed, match=rf"{at.api('control')} \(control\), {at.redis} \(redis\)"),
    ):
        run_supervisor(tmp_path, at, say=print)
    assert not (tmp_path / "kafka").exists()


def test_redis_keeps_its_keys_over_a_restart(tmp_path: Path) -> None:
    server = RedisProcess(tmp_path, free_ports().redis)
    for turn in range(2):
        server.start()
        server.wait_ready()
        with redis.Redis.from_url(server.url) as client:
            if turn == 0:
                client.set("key", "value")
            else:
                assert client.get("key") == b"value"
        assert server.stop()
