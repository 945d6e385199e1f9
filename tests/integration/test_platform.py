"""The whole platform by its command: apply, publish, receive; crashes; a second start."""

import asyncio
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from deploy.local import endpoints, launch, process, programs
from deploy.local.endpoints import Endpoints
from deploy.local.home import wait_until_free
from deploy.local.ports import HOST
from libs.cli import receiver
from libs.common import http_server
from tests.conftest import free_ports
from tests.integration.command_line import COMMAND_S_MAX, meridian, publish

ARRIVAL_S_MAX = 30.0

ROVER = """\
kind: Rover
apiVersion: tcp.ei.telekom.de/v1
metadata: {{name: {name}}}
spec:
  team: eni--tests
  zone: local
  exposures:
    - eventType: {event_type}
  subscriptions:
    - eventType: {event_type}
      deliveryType: callback
      payloadType: data
      callback: http://127.0.0.1:{port}/
      delivery: {{retry: {{attempts: {attempts}}}}}
"""


@dataclass(slots=True)
class Inbox:
    """What a subscriber received."""

    port: int
    received: asyncio.Queue[receiver.Received] = field(default_factory=asyncio.Queue)

    async def next(self) -> receiver.Received:
        """The next event; TimeoutError when none comes."""
        return await asyncio.wait_for(self.received.get(), ARRIVAL_S_MAX)


@asynccontextmanager
async def subscriber() -> AsyncIterator[Inbox]:
    """A callback receiver on a free port."""
    inbox = Inbox(free_ports().api("sse"))
    stop = asyncio.Event()
    app = receiver.create(receiver.Behaviour(), inbox.received.put_nowait)
    async with asyncio.TaskGroup() as group:
        group.create_task(http_server.serve(app, host=HOST, port=inbox.port, stop=stop, drain_s=1))
        try:
            yield inbox
        finally:
            stop.set()


async def apply_rover(home: Path, folder: Path, *, port: int, attempts: int = 11) -> str:
    """Exposes a new event type and subscribes to it; the type."""
    name = f"app-{uuid.uuid4().hex[:8]}"
    event_type = f"tests.{name}.v1"
    file = folder / f"{name}.yaml"
    rover = ROVER.format(name=name, event_type=event_type, port=port, attempts=attempts)
    file.write_text(rover)
    applied = await meridian(home, "apply", "-f", str(file))
    assert (applied.code, applied.err) == (0, "")
    assert f"subscribes to {event_type}" in applied.out
    return event_type


async def test_what_is_published_arrives_at_the_callback(
    platform: Endpoints, platform_home: Path, tmp_path: Path
) -> None:
    async with subscriber() as inbox:
        event_type = await apply_rover(platform_home, tmp_path, port=inbox.port)
        await publish(platform_home, event_type, '{"order": {"number": 1}}')
        received = await inbox.next()
    assert received.event["type"] == event_type
    assert received.event["data"] == {"order": {"number": 1}}
    assert received.headers["x-event-id"] == received.event["id"]
    assert platform.environment == "integration"


@pytest.mark.usefixtures("platform")
async def test_what_became_of_a_delivered_event_is_told(
    platform_home: Path, tmp_path: Path
) -> None:
    async with subscriber() as inbox:
        event_type = await apply_rover(platform_home, tmp_path, port=inbox.port)
        event_id = await publish(platform_home, event_type, "1")
        told = await meridian(platform_home, "event", event_id, "--wait", str(ARRIVAL_S_MAX))
    assert (told.code, told.err) == (0, "")
    assert f"Event {event_id}, {event_type}" in told.out
    assert "matched 1 subscription" in told.out
    assert "DELIVERED   attempt 1, HTTP 200" in told.out


@pytest.mark.usefixtures("platform")
async def test_what_became_of_an_event_whose_callback_is_down_says_how_to_start_it(
    platform_home: Path, tmp_path: Path
) -> None:
    port = free_ports().api("sse")
    event_type = await apply_rover(platform_home, tmp_path, port=port, attempts=2)
    event_id = await publish(platform_home, event_type, "1")
    told = await meridian(platform_home, "event", event_id, "--wait", str(ARRIVAL_S_MAX))
    assert (told.code, told.err) == (0, "")
    assert "DELIVERING  attempt 1" in told.out
    assert "FAILED      attempt 2" in told.out
    assert f"meridian sink --port {port}" in told.out
    assert f"meridian publish {event_type} --id {event_id}" in told.out


@pytest.mark.usefixtures("platform")
async def test_an_id_that_was_never_published_is_not_found(platform_home: Path) -> None:
    told = await meridian(platform_home, "event", str(uuid.uuid4()))
    assert told.code == 1
    assert "No event with the id" in told.out


async def test_a_sink_says_that_it_receives_once_it_does_and_names_a_taken_port(
    tmp_path: Path,
) -> None:
    port = free_ports().api("sse")
    sink = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "libs.cli", "sink", "--port", str(port)),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert sink.stdout is not None
        line = await asyncio.wait_for(sink.stdout.readline(), COMMAND_S_MAX)
        assert f"Receiving at http://127.0.0.1:{port}/" in line.decode()
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(f"http://127.0.0.1:{port}/any", json={"id": "1"})
        assert answer.status_code == 200
        second = await meridian(tmp_path, "sink", "--port", str(port))
        assert (second.code, second.out) == (1, "")
        assert f"meridian sink --port {port + 1}" in second.err
    finally:
        sink.terminate()
        assert await asyncio.wait_for(sink.wait(), COMMAND_S_MAX) == 0


async def test_a_ready_platform_says_so_of_every_part(
    platform: Endpoints, platform_home: Path
) -> None:
    status = await meridian(platform_home, "status")
    assert status.code == 0
    states = dict(line.split(maxsplit=1) for line in status.out.splitlines())
    assert set(states) == set(platform.pids) - {"supervisor"}
    assert set(states.values()) == {"ready"}


async def test_a_token_of_the_command_is_good_for_plain_http(
    platform: Endpoints, platform_home: Path
) -> None:
    token = (await meridian(platform_home, "token", "eni--tests--nobody")).out.strip()
    event = {
        "id": str(uuid.uuid4()),
        "type": "tests.absent.v1",
        "source": "test",
        "specversion": "1.0",
        "data": 1,
    }
    async with httpx.AsyncClient(trust_env=False) as client:
        url = f"{platform.publish}/v1/{platform.environment}/events"
        answer = await client.post(url, json=event, headers={"Authorization": f"Bearer {token}"})
        unsigned = await client.post(url, json=event, headers={"Authorization": "Bearer x.y.z"})
    assert (answer.status_code, unsigned.status_code) == (403, 401)


@pytest.mark.usefixtures("platform")
async def test_publishing_a_type_that_nobody_exposes_says_what_to_do(platform_home: Path) -> None:
    ended = await meridian(platform_home, "publish", "tests.absent.v1", "--data", "{}")
    assert ended.code == 1
    assert "Nobody exposes tests.absent.v1" in ended.err


@pytest.mark.usefixtures("platform")
async def test_a_rover_with_faults_is_refused_with_all_of_them(
    platform_home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "rover.yaml"
    file.write_text(
        "kind: Rover\nmetadata: {name: broken}\nspec:\n  team: eni--tests\n"
        "  subscriptions:\n    - {eventType: a.b.v1, deliveryType: pigeon}\n"
        "    - {eventType: NOT-A-TYPE, deliveryType: callback, callback: 'ftp://x'}\n"
    )
    ended = await meridian(platform_home, "apply", "-f", str(file))
    assert ended.code == 1
    for pointer in (
        "/spec/subscriptions/0/deliveryType",
        "/spec/subscriptions/1/eventType",
        "/spec/subscriptions/1/callback",
    ):
        assert pointer in ended.err


@pytest.mark.usefixtures("platform")
async def test_a_second_platform_in_the_same_home_is_refused(platform_home: Path) -> None:
    ended = await meridian(platform_home, "up", "--detach")
    assert ended.code == 1
    assert "runs in" in ended.err


async def test_a_command_without_a_platform_says_how_to_start_one(tmp_path: Path) -> None:
    for arguments in (("status",), ("token", "a--b--c"), ("publish", "a.b.v1", "--data", "1")):
        ended = await meridian(tmp_path, *arguments)
        assert ended.code == 1
        assert "meridian up" in ended.err


@pytest.mark.usefixtures("platform")
async def test_killed_services_are_started_again_and_nothing_is_lost(
    platform_home: Path, tmp_path: Path
) -> None:
    async with subscriber() as inbox:
        event_type = await apply_rover(platform_home, tmp_path, port=inbox.port)
        before = endpoints.read(platform_home).pids
        for name in ("multiplexer", "delivery"):
            os.kill(before[name], signal.SIGKILL)
        await publish(platform_home, event_type, '"meanwhile"')
        assert (await inbox.next()).event["data"] == "meanwhile"
    after = endpoints.read(platform_home).pids
    assert after["producer"] == before["producer"]
    assert after["multiplexer"] != before["multiplexer"]
    assert after["delivery"] != before["delivery"]


async def until_ready(home: Path) -> None:
    """Waits until every part of a platform is ready."""
    deadline_s = time.monotonic() + COMMAND_S_MAX
    while set((await asyncio.to_thread(launch.status, home)).values()) != {"ready"}:
        assert time.monotonic() < deadline_s
        await asyncio.to_thread(process.pause)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("platform")
async def test_a_second_platform_keeps_its_state_over_a_crash_and_a_stop(tmp_path: Path) -> None:
    home = tmp_path / "home"
    at = free_ports(*programs.SERVICE_NAMES)
    await asyncio.to_thread(launch.start, home, at, say=print)
    try:
        async with subscriber() as inbox:
            event_type = await apply_rover(home, tmp_path, port=inbox.port)
            os.kill(endpoints.read(home).pids["supervisor"], signal.SIGKILL)
            assert await asyncio.to_thread(wait_until_free, home, wait_s=COMMAND_S_MAX)
            await asyncio.to_thread(launch.start, home, at, say=print)
            await publish(home, event_type, '"after the crash"')
            assert (await inbox.next()).event["data"] == "after the crash"
            await asyncio.to_thread(launch.stop, home)
            await asyncio.to_thread(launch.start, home, at, say=print)
            await until_ready(home)
            await publish(home, event_type, '"after the stop"')
            assert (await inbox.next()).event["data"] == "after the stop"
    finally:
        await asyncio.to_thread(launch.stop, home)
