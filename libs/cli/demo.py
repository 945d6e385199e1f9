"""The whole way of an event on a platform of its own: publish, multiplex, callback.

Starts a platform, applies `examples/quickstart.yaml`, receives callbacks in this process, publishes
events with real tokens at a steady pace, and reports how many arrived and how fast.
"""

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx

from deploy.local import invocation, launch, paths
from deploy.local.ports import HOST, Ports, can_listen
from libs.cli import envelope, receiver, rover
from libs.cli.client import Platform
from libs.cli.errors import CommandFailed
from libs.common import http_server

EXAMPLE: Final = paths.ROOT / "examples" / "quickstart.yaml"
EXAMPLE_RECEIVER: Final = f"{HOST}:9000"
"""Where the example's subscriber listens; the demo puts its own receiver in that place."""

RECEIVER_OFFSET: Final = 20
PUBLISHED_PER_S: Final = 50.0
IN_FLIGHT_MAX: Final = 16
PUBLISH_TIMEOUT_S: Final = 30.0
ARRIVAL_S_MAX: Final = 60.0
START_EXPECTED: Final = "usually 10 to 40 seconds"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the demo is to do."""

    home: Path
    ports: Ports
    events: int
    keep: bool
    """Leave the platform running."""

    @property
    def receiver_port(self) -> int:
        """Where the demo's own receiver listens."""
        return self.ports.base + RECEIVER_OFFSET


@dataclass(slots=True)
class Course:
    """What has happened to the events so far, by their ids; times are monotonic seconds."""

    expected: int
    sent_at_s: dict[str, float] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    arrived_at_s: dict[str, float] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    load: float = 0.0
    """Processes that were running or waiting for a processor, on average over the last minute."""
    all_arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def arrived(self, received: receiver.Received) -> None:
        """Notes the first arrival of an event of this run; others are left aside."""
        event_id = str(received.event.get("id"))
        if event_id in self.sent_at_s:
            self.arrived_at_s.setdefault(event_id, time.monotonic())
        if len(self.arrived_at_s) == self.expected:
            self.all_arrived.set()

    def latencies_ms(self) -> list[float]:
        """From just before the publish request to the callback, ascending."""
        return sorted(
            (arrived_s - self.sent_at_s[event_id]) * 1_000
            for event_id, arrived_s in self.arrived_at_s.items()
        )


def run(plan: Plan, *, say: Say) -> None:
    """Carries the demo out; CommandFailed when an event did not arrive, LocalError for the rest."""
    if not can_listen(plan.receiver_port):
        raise CommandFailed(
            f"Port {plan.receiver_port} is taken: choose another range with --port-base."
        )
    say(f"1. Start Kafka, Redis, issuer and services; {START_EXPECTED}.")
    platform = Platform(launch.start(plan.home, plan.ports, say=lambda line: say(f"   {line}")))
    succeeded = False
    try:
        course = show(plan, platform, say=say)
        succeeded = True
    finally:
        if not (plan.keep and succeeded):
            say("4. Stop the platform.")
            launch.stop(plan.home)
    for line in report(course, plan):
        say(line)
    if len(course.arrived_at_s) < plan.events:
        raise CommandFailed(
            f"{plan.events - len(course.arrived_at_s)} events did not arrive; the logs are in "
            f"{plan.home / 'logs'}. {' '.join(course.refusals[:1])}"
        )


def show(plan: Plan, platform: Platform, *, say: Say) -> Course:
    """Applies the example and sends the events through."""
    say(f"2. Apply {EXAMPLE.relative_to(paths.ROOT)}: who publishes, who receives.")
    answers = [
        platform.apply(
            rover.Rover(
                name=each.name,
                body=each.body.replace(
                    EXAMPLE_RECEIVER.encode(), f"{HOST}:{plan.receiver_port}".encode()
                ),
            )
        )
        for each in rover.read(EXAMPLE)
    ]
    exposing = next(answer for answer in answers if answer["exposures"])
    event_type, publisher = exposing["exposures"][0]["eventType"], exposing["clientId"]
    say(f"3. {publisher} publishes {plan.events} events of type {event_type}.")
    token = platform.token(publisher, realm=platform.endpoints.realm)
    events = [new_event(event_type, number) for number in range(plan.events)]
    return asyncio.run(
        send_through(events, url=publish_url(platform), token=token, port=plan.receiver_port)
    )


def new_event(event_type: str, number: int) -> dict[str, object]:
    """The event of one order."""
    return envelope.event(
        event_type,
        {"order": {"number": number, "state": "CREATED"}},
        event_id=str(uuid.uuid4()),
        source="quickstart",
        now=datetime.now(UTC),
    )


def publish_url(platform: Platform) -> str:
    """Where events are posted."""
    return f"{platform.endpoints.publish}/v1/{platform.endpoints.environment}/events"


async def send_through(
    events: Sequence[dict[str, object]], *, url: str, token: str, port: int
) -> Course:
    """Receives and publishes at once; returns when all arrived, or after ARRIVAL_S_MAX."""
    course = Course(expected=len(events))
    stop = asyncio.Event()
    app = receiver.create(receiver.Behaviour(), course.arrived)
    async with asyncio.TaskGroup() as group:
        group.create_task(
            http_server.serve(app, host=HOST, port=port, stop=stop, drain_s=5), name="receiver"
        )
        try:
            await publish_all(events, course, url=url, token=token)
            async with asyncio.timeout(ARRIVAL_S_MAX):
                await course.all_arrived.wait()
        except TimeoutError:
            course.refusals.append(f"Not all arrived within {ARRIVAL_S_MAX:.0f} s.")
        finally:
            course.load = os.getloadavg()[0]
            stop.set()
    return course


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


def report(course: Course, plan: Plan) -> list[str]:
    """What came of it, for a person."""
    latencies_ms = course.latencies_ms()
    lines = ["", f"Published and stored on Kafka:  {len(course.stored)} of {plan.events}"]
    lines.append(f"Delivered to the callback:      {len(latencies_ms)} of {plan.events}")
    if latencies_ms:
        p50, p95 = percentile(latencies_ms, 50), percentile(latencies_ms, 95)
        lines.append(f"From publish to callback:       p50 {p50:.1f} ms, p95 {p95:.1f} ms")
        lines += busy(load=course.load, cores=os.cpu_count() or 1)
    if plan.keep:
        status, down = (invocation.command(word, home=plan.home) for word in ("status", "down"))
        lines.append(f"The platform still runs: '{status}'; stop it with '{down}'.")
    else:
        lines.append(f"The platform is stopped; its state and logs are in {plan.home}.")
    lines.append("Go on with these, each in a terminal of its own:")
    lines += [f"  {step}" for step in (invocation.command("up"), *first_steps(None))]
    return lines


def busy(*, load: float, cores: int) -> list[str]:
    """A line about a machine that had more to do than it has processors for."""
    if load <= cores:
        return []
    return [f"The machine was busy:           load {load:.1f} on {cores} cores, so these are long"]


def first_steps(home: Path | None) -> tuple[str, str]:
    """Commands that receive at and apply the example, for the platform in a home."""
    example = EXAMPLE.relative_to(paths.ROOT)
    file = example if example.is_file() else EXAMPLE
    return (
        invocation.command("sink", "--port", EXAMPLE_RECEIVER.rpartition(":")[2]),
        invocation.command("apply", "-f", str(file), home=home),
    )


def percentile(ascending: Sequence[float], percent: int) -> float:
    """Nearest-rank percentile of at least one value."""
    return ascending[max(0, -(-len(ascending) * percent // 100) - 1)]
