"""The traffic of a demo, all in this process.

Publishes events at a steady pace, receives them at a callback, and reads them from a stream.
"""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import httpx

from deploy.local.ports import HOST
from libs.cli import output, receiver, stream_client
from libs.cli.course import SHOWN, Course
from libs.cli.errors import CommandFailed
from libs.cli.event_stream import StreamEvent
from libs.cli.stream_client import Ending, StreamAddress, Unreachable
from libs.common import http_server

PUBLISHED_PER_S: Final = 50.0
IN_FLIGHT_MAX: Final = 16
PUBLISH_TIMEOUT_S: Final = 30.0
ARRIVAL_S_MAX: Final = 60.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the events go and come out."""

    publish_url: str
    token: str
    """Of the publisher."""
    callback_port: int
    stream: StreamAddress


async def send_through(events: Sequence[dict[str, object]], places: Places, *, say: Say) -> Course:
    """Receives, reads and publishes; returns when all arrived, or after ARRIVAL_S_MAX."""
    course = Course(expected=len(events))
    stop, is_open = asyncio.Event(), asyncio.Event()

    def called(received: receiver.Received) -> None:
        course.called(str(received.event.get("id")), at_s=time.monotonic())

    app = receiver.create(receiver.Behaviour(), called)
    serving = http_server.serve(app, host=HOST, port=places.callback_port, stop=stop, drain_s=5)
    async with asyncio.TaskGroup() as group:
        group.create_task(serving, name="callback")
        group.create_task(read(places.stream, course, is_open, stop, say=say), name="stream")
        try:
            await is_open.wait()
            await publish_all(events, course, url=places.publish_url, token=places.token)
            async with asyncio.timeout(ARRIVAL_S_MAX):
                await course.all_arrived.wait()
        except TimeoutError:
            course.refusals.append(f"Not all arrived within {ARRIVAL_S_MAX:.0f} s.")
        finally:
            course.load = os.getloadavg()[0]
            stop.set()
    return course


async def read(
    address: StreamAddress,
    course: Course,
    is_open: asyncio.Event,
    stop: asyncio.Event,
    *,
    say: Say,
) -> None:
    """Reads the stream until the stop, and shows the first events; what goes wrong is noted."""
    try:
        async with (
            stream_client.client() as http,
            Ending(http, address, stop).around(),
            stream_client.opened(http, address) as connection,
            contextlib.aclosing(connection.events()) as events,
        ):
            is_open.set()
            async for event in events:
                arrived(event, course, say=say)
    except (CommandFailed, Unreachable) as error:
        course.refusals.append(str(error))
    finally:
        is_open.set()


def arrived(event: StreamEvent, course: Course, *, say: Say) -> None:
    """Notes an event of the stream, and shows it if it is one of the first."""
    document: dict[str, Any] = json.loads(event.data)
    if not course.streamed(str(document.get("id")), at_s=time.monotonic()):
        return
    number = len(course.streamed_at_s)
    if number <= SHOWN:
        now = datetime.now().astimezone().time().isoformat(timespec="milliseconds")
        say(f"   {output.received(document, {}, clock=now)}")
    elif number == SHOWN + 1:
        say("   ... and so on")


async def publish_all(
    events: Sequence[dict[str, object]], course: Course, *, url: str, token: str
) -> None:
    """Posts the events, PUBLISHED_PER_S a second whatever the answers take, within a bound."""
    room = asyncio.Semaphore(IN_FLIGHT_MAX)
    started_s = time.monotonic()
    async with (
        httpx.AsyncClient(
            headers={"Authorization": f"Bearer {token}"},
            timeout=PUBLISH_TIMEOUT_S,
            trust_env=False,
        ) as client,
        asyncio.TaskGroup() as group,
    ):
        for number, event in enumerate(events):
            await asyncio.sleep(started_s + number / PUBLISHED_PER_S - time.monotonic())
            await room.acquire()
            posting = group.create_task(publish_one(client, url, event, course))
            posting.add_done_callback(lambda _: room.release())


async def publish_one(
    client: httpx.AsyncClient, url: str, event: dict[str, object], course: Course
) -> None:
    """Posts one event and notes what came of it."""
    event_id = str(event["id"])
    course.sent_at_s[event_id] = time.monotonic()
    try:
        answer = await client.post(url, json=event)
    except httpx.HTTPError as error:
        course.refusals.append(f"The producer did not answer: {error or type(error).__name__}.")
        return
    if answer.status_code == 201:
        course.stored.add(event_id)
    else:
        course.refusals.append(f"The producer answered {answer.status_code}: {answer.text[:300]}")
