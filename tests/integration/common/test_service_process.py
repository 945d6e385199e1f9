"""The start and the end of a service process: exit codes, and its log."""

import asyncio
import json
import os
import signal
import sys
from typing import Any

import pytest

PROGRAM = """
import asyncio, logging, sys
from pydantic_settings import SettingsConfigDict
from libs.common import log, runtime
from libs.common.errors import KafkaUnavailable
from libs.common.main import main
from libs.common.settings import ServiceSettings

class ProbeSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="MERIDIAN_PROBE_")
    instance: str = "probe-0"
    management_port: int = 1

async def run(settings):
    what = sys.argv[1]
    async def work(stop):
        if what == "unavailable":
            raise KafkaUnavailable("no broker\\nat all")
        if what == "unexpected":
            raise KeyError("x")
        log.get("probe").info("probe.started", value="two\\nlines", text="ä")
        log.get("probe").debug("probe.detail")
        logging.getLogger("library").warning("count %d", 7)
        try:
            raise ValueError("inner")
        except ValueError:
            logging.getLogger("library").exception("failed")
        print("ready", file=sys.stderr, flush=True)
        await stop.wait()
    await runtime.run({"work": work}, attendants={}, drain_s=5, stop=asyncio.Event())

main("probe", ProbeSettings, run)
"""
TIMEOUT_S = 30.0


async def started(what: str, **variables: str) -> asyncio.subprocess.Process:
    named = {f"MERIDIAN_PROBE_{name}": value for name, value in variables.items()}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, what),
        env={**os.environ, **named},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(process: asyncio.subprocess.Process) -> tuple[list[dict[str, Any]], str]:
    """Its log, line by line, and what it wrote to standard error."""
    output, errors = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
    return [json.loads(line) for line in output.splitlines()], errors.decode()


@pytest.fixture
async def serving() -> asyncio.subprocess.Process:
    """A process that was told to stop after it was ready."""
    process = await started("serve", LOG_LEVEL="info")
    assert process.stderr is not None
    line = await asyncio.wait_for(process.stderr.readline(), TIMEOUT_S)
    assert line == b"ready\n"
    process.send_signal(signal.SIGTERM)
    return process


async def test_a_process_that_is_told_to_stop_exits_with_0(
    serving: asyncio.subprocess.Process,
) -> None:
    lines, errors = await ended(serving)
    assert serving.returncode == 0
    assert errors == ""
    assert [line["event"] for line in lines][-2:] == ["process.stopping", "process.stopped"]


async def test_every_line_is_a_json_object_that_says_who_wrote_it_and_when(
    serving: asyncio.subprocess.Process,
) -> None:
    lines, _ = await ended(serving)
    assert {(line["service"], line["instance"]) for line in lines} == {("probe", "probe-0")}
    assert all(line["timestamp"].endswith("Z") and line["level"] for line in lines)
    mine, theirs, failure = lines[:3]
    assert (mine["event"], mine["value"], mine["text"]) == ("probe.started", "two\nlines", "ä")
    assert (theirs["event"], theirs["level"]) == ("count 7", "warning")
    assert "ValueError: inner" in failure["exception"]


async def test_settings_that_cannot_work_exit_with_2_and_name_the_variable() -> None:
    process = await started("serve", INSTANSE="x", LOG_LEVEL="loud")
    lines, errors = await ended(process)
    assert process.returncode == 2
    assert lines == []
    assert "MERIDIAN_PROBE_INSTANSE" in errors
    assert "MERIDIAN_PROBE_LOG_LEVEL: " in errors
    assert "Traceback" not in errors


async def test_a_known_failure_exits_with_1_and_one_line_about_it() -> None:
    process = await started("unavailable")
    lines, errors = await ended(process)
    assert process.returncode == 1
    (line,) = [line for line in lines if line["event"] == "process.failed"]
    assert (line["error"], line["detail"]) == ("KafkaUnavailable", "no broker\nat all")
    assert "exception" not in line
    assert errors == ""


async def test_an_unexpected_failure_exits_with_1_and_says_where_it_happened() -> None:
    process = await started("unexpected")
    lines, _ = await ended(process)
    assert process.returncode == 1
    (line,) = [line for line in lines if line["event"] == "process.failed"]
    assert line["error"] == "KeyError"
    assert "Traceback" in line["exception"]
