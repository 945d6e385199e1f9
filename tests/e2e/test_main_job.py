"""Publish, multiplex and call back through every process of a platform."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from deploy.local import endpoints as endpoints_file
from deploy.local import programs
from deploy.local.endpoints import Endpoints
from tests.e2e.traffic import (
    Event,
    Platform,
    Receiver,
    client,
    events,
    publisher_rover,
    subscriber_rover,
)

STOP_S_MAX = 25.0


async def set_up(
    platform: Platform, receiver: Receiver, name: str, *, subscribers: list[str]
) -> tuple[str, str]:
    """A publisher and subscribers of a new type; the publisher's client id and the type."""
    event_type = f"tests.{name}.v1"
    await platform.apply(name, publisher_rover(name, event_type))
    for subscriber in subscribers:
        callback = f"{receiver.url}/{subscriber}"
        await platform.apply(
            f"{name}-{subscriber}", subscriber_rover(f"{name}-{subscriber}", event_type, callback)
        )
    return f"eni--tests--{name}", event_type


@pytest.mark.timeout(240)
async def test_ten_thousand_events_arrive_once_at_each_of_two_callbacks(
    platform: Endpoints,
) -> None:
    wanted = events(10_000)
    async with Receiver().serving() as receiver, client(platform) as publisher:
        client_id, event_type = await set_up(
            publisher, receiver, "bulk", subscribers=["one", "two"]
        )
        await publisher.publish(client_id, event_type, wanted)
        await receiver.has(["/one", "/two"], wanted, within_s=120)
        receiver.check("/one", wanted)
        receiver.check("/two", wanted)


@pytest.mark.timeout(240)
async def test_sigterm_of_every_service_under_load_loses_and_repeats_nothing(
    platform: Endpoints, platform_home: Path
) -> None:
    log = platform_home / "logs" / "platform.log"
    published: list[Event] = []
    async with Receiver().serving() as receiver, client(platform) as publisher:
        receiver.slow_s = 4.0
        client_id, event_type = await set_up(publisher, receiver, "stops", subscribers=["three"])
        stop = asyncio.Event()

        async def publish_until_stopped() -> None:
            while not stop.is_set():
                some = events(20)
                await publisher.publish(client_id, event_type, some)
                published.extend(some)
                await asyncio.sleep(0.1)

        async with asyncio.TaskGroup() as group:
            group.create_task(publish_until_stopped())
            for name in programs.SERVICE_NAMES:
                await until(partial(more_than, published, len(published) + 100))
                took_s = await stop_and_see_restart(platform_home, name)
                assert took_s < STOP_S_MAX
            stop.set()
        await receiver.has(["/three"], published, within_s=60)
        receiver.check("/three", published)
    endings = re.findall(r"(\w+) ended with exit code (-?\d+)", log.read_text())
    assert [(name, "0") for name in programs.SERVICE_NAMES] == [
        ending for ending in endings if ending[0] in programs.SERVICE_NAMES
    ][-len(programs.SERVICE_NAMES) :]


def more_than(found: list[Event], number: int) -> bool:
    return len(found) > number


async def stop_and_see_restart(home: Path, name: str) -> float:
    """Ends a service by SIGTERM; returns how long it took to end, once it runs again."""
    pid = endpoints_file.read(home).pids[name]
    os.kill(pid, signal.SIGTERM)
    began_s = time.monotonic()
    await until(lambda: not Path(f"/proc/{pid}").exists())
    took_s = time.monotonic() - began_s
    await until(lambda: endpoints_file.read(home).pids.get(name) not in (None, pid))
    return took_s


async def until(condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
    """Returns once a condition about other processes is true; fails after a bounded time."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "the condition did not come true in time"
        await asyncio.sleep(0.02)
