"""Streams on a whole platform by the command: apply, listen, publish; take-over and mistakes."""

import asyncio
import json
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.local import endpoints, paths
from tests.integration.command_line import COMMAND_S_MAX, meridian, publish

ROVER = """\
kind: Rover
apiVersion: tcp.ei.telekom.de/v1
metadata: {{name: {name}}}
spec:
  team: eni--tests
  exposures:
    - eventType: {event_type}
  subscriptions:
    - eventType: {event_type}
      deliveryType: {delivery}
"""


@dataclass(frozen=True, slots=True)
class Applied:
    """A type with one subscription, and where it is read."""

    event_type: str
    client_id: str
    url: str


async def apply_stream(home: Path, folder: Path, *, delivery: str = "sse") -> Applied:
    """Exposes a new type and subscribes to it."""
    name = f"app-{uuid.uuid4().hex[:8]}"
    event_type = f"tests.{name}.v1"
    file = folder / f"{name}.yaml"
    file.write_text(ROVER.format(name=name, event_type=event_type, delivery=delivery))
    applied = await meridian(home, "apply", "-f", str(file))
    assert (applied.code, applied.err) == (0, "")
    urls = [line.split()[1] for line in applied.out.splitlines() if line.startswith("    at ")]
    return Applied(event_type, f"eni--tests--{name}", "".join(urls))


class Running:
    """A reader of a stream as a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), COMMAND_S_MAX)
        return line.decode().rstrip()

    async def ended(self) -> tuple[int, str]:
        """Its exit code and what it said on standard error."""
        async with asyncio.timeout(COMMAND_S_MAX):
            _, said = await self.process.communicate()
        return self.process.returncode or 0, said.decode()


@asynccontextmanager
async def started(home: Path, *words: str, **variables: str) -> AsyncIterator[Running]:
    """A program in Python, killed in the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "MERIDIAN_HOME": str(home), **variables},
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def listen(*words: str) -> tuple[str, ...]:
    return ("-P", "-m", "libs.cli", "listen", *words)


@pytest.mark.usefixtures("platform")
async def test_what_is_published_is_read_from_the_stream_also_what_came_before(
    platform_home: Path, tmp_path: Path
) -> None:
    applied = await apply_stream(platform_home, tmp_path)
    first = await publish(platform_home, applied.event_type, "1")
    words = listen(applied.event_type, "--json", "--count", "2")
    async with started(platform_home, *words) as reader:
        assert json.loads(await reader.line())["id"] == first
        second = await publish(platform_home, applied.event_type, "2")
        event = json.loads(await reader.line())
        assert (event["id"], event["data"]) == (second, 2)
        code, said = await reader.ended()
    assert code == 0
    assert "2 events, 0 repeats left out" in said
    told = await meridian(platform_home, "event", first, "--wait", "30")
    assert f"{applied.client_id} by stream" in told.out
    assert "DELIVERED   sent on the stream" in told.out


@pytest.mark.usefixtures("platform")
async def test_the_newer_of_two_listeners_has_the_stream_and_ctrl_c_ends_it_in_order(
    platform_home: Path, tmp_path: Path
) -> None:
    applied = await apply_stream(platform_home, tmp_path)
    await publish(platform_home, applied.event_type, '"older"')
    async with started(platform_home, *listen(applied.event_type)) as older:
        assert '"older"' in await older.line()
        async with started(platform_home, *listen(applied.event_type)) as newer:
            code, said = await older.ended()
            assert code == 1
            assert "Another listener has taken this stream over" in said
            await publish(platform_home, applied.event_type, '"newer"')
            assert '"newer"' in await newer.line()
            newer.process.send_signal(signal.SIGINT)
            code, said = await newer.ended()
    assert code == 0
    assert "1 event, 0 repeats left out" in said


@pytest.mark.usefixtures("platform")
async def test_a_restart_of_the_service_is_waited_for(platform_home: Path, tmp_path: Path) -> None:
    applied = await apply_stream(platform_home, tmp_path)
    await publish(platform_home, applied.event_type, "1")
    async with started(platform_home, *listen(applied.event_type, "--count", "2")) as reader:
        await reader.line()
        os.kill(endpoints.read(platform_home).pids["sse"], signal.SIGTERM)
        await publish(platform_home, applied.event_type, '"after"')
        assert '"after"' in await reader.line()
        code, said = await reader.ended()
    assert code == 0
    assert "connecting again" in said


@pytest.mark.usefixtures("platform")
async def test_the_example_consumer_reads_an_event(platform_home: Path, tmp_path: Path) -> None:
    applied = await apply_stream(platform_home, tmp_path)
    event_id = await publish(platform_home, applied.event_type, "1")
    token = (await meridian(platform_home, "token", applied.client_id)).out.strip()
    program = str(paths.ROOT / "examples" / "stream_consumer.py")
    async with started(platform_home, program, applied.url, TOKEN=token) as consumer:
        assert json.loads(await consumer.line())["id"] == event_id


@pytest.mark.usefixtures("platform")
async def test_mistakes_say_what_to_do_next(platform_home: Path, tmp_path: Path) -> None:
    called = await apply_stream(
        platform_home, tmp_path, delivery="callback\n      callback: http://127.0.0.1:9/"
    )
    callbacks = await meridian(platform_home, "listen", called.event_type)
    assert callbacks.code == 1
    assert f"callbacks only: {called.client_id} at http://127.0.0.1:9/" in callbacks.err
    unknown = await meridian(platform_home, "listen", "tests.absent.v1")
    assert (unknown.code, unknown.out) == (1, "")
    assert "Nobody exposes or subscribes to tests.absent.v1" in unknown.err
    stream = await apply_stream(platform_home, tmp_path)
    few = await meridian(platform_home, "listen", stream.event_type, "--count", "1", "--for", "1")
    assert few.code == 1
    assert "0 of 1 events came" in few.err
