"""The whole way of an event on a platform of its own: publish, multiplex, callback and stream.

Starts a platform, applies `examples/quickstart.yaml`, receives callbacks and reads the stream in
this process, publishes events with real tokens at a steady pace, and reports how many arrived and
how fast.
"""

import asyncio
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from deploy.local import invocation, launch, paths
from deploy.local.ports import HOST, Ports, can_listen
from libs.cli import course, demo_traffic, envelope, rover
from libs.cli.client import Platform
from libs.cli.course import Course
from libs.cli.demo_traffic import Places
from libs.cli.errors import CommandFailed
from libs.cli.stream_client import StreamAddress

EXAMPLE: Final = paths.ROOT / "examples" / "quickstart.yaml"
EXAMPLE_RECEIVER: Final = f"{HOST}:9000"
"""Where the example's subscriber listens; the demo puts its own receiver in that place."""

EXAMPLE_TYPE: Final = "orders.created.v1"

RECEIVER_OFFSET: Final = 20
START_EXPECTED: Final = "usually 10 to 40 seconds"

Say = Callable[[str], None]
Answer = Mapping[str, Any]
"""What control said to one Rover."""


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
        run_through = show(plan, platform, say=say)
        succeeded = True
    finally:
        if not (plan.keep and succeeded):
            say("4. Stop the platform.")
            launch.stop(plan.home)
    for line in report(run_through, plan):
        say(line)
    failure = run_through.failure()
    if failure is not None:
        reasons = " ".join(run_through.refusals[:1])
        raise CommandFailed(f"{failure} The logs are in {plan.home / 'logs'}. {reasons}".rstrip())


def show(plan: Plan, platform: Platform, *, say: Say) -> Course:
    """Applies the example and sends the events through."""
    say(f"2. Apply {EXAMPLE.relative_to(paths.ROOT)}: who publishes, who receives.")
    answers = [platform.apply(each) for each in rovers(plan.receiver_port)]
    exposing = next(answer for answer in answers if answer["exposures"])
    event_type, publisher = exposing["exposures"][0]["eventType"], exposing["clientId"]
    reader, path = stream_in(answers)
    realm = platform.endpoints.realm
    places = Places(
        publish_url=f"{platform.endpoints.publish}/v1/{platform.endpoints.environment}/events",
        token=platform.token(publisher, realm=realm),
        callback_port=plan.receiver_port,
        stream=StreamAddress(
            f"{platform.streams_url()}{path}", platform.token(reader, realm=realm)
        ),
    )
    say(f"3. {publisher} publishes {plan.events} events of type {event_type}.")
    say(f"   {reader} reads its stream:")
    events = [new_event(event_type, number) for number in range(plan.events)]
    return asyncio.run(demo_traffic.send_through(events, places, say=say))


def rovers(receiver_port: int) -> list[rover.Rover]:
    """The example, with the demo's own receiver as callback."""
    mine = f"{HOST}:{receiver_port}".encode()
    return [
        rover.Rover(name=each.name, body=each.body.replace(EXAMPLE_RECEIVER.encode(), mine))
        for each in rover.read(EXAMPLE)
    ]


def stream_in(answers: Sequence[Answer]) -> tuple[str, str]:
    """The client that reads a stream, and the path of the stream."""
    return next(
        (answer["clientId"], entry["stream"])
        for answer in answers
        for entry in answer["subscriptions"]
        if "stream" in entry
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


def report(run_through: Course, plan: Plan) -> list[str]:
    """What came of it and how to go on, for a person."""
    lines = ["", *course.report(run_through, cores=os.cpu_count() or 1)]
    if plan.keep:
        status, down = (invocation.command(word, home=plan.home) for word in ("status", "down"))
        lines.append(f"The platform still runs: '{status}'; stop it with '{down}'.")
    else:
        lines.append(f"The platform is stopped; its state and logs are in {plan.home}.")
    lines.append("Go on with these, each in a terminal of its own:")
    lines += [f"  {step}" for step in (invocation.command("up"), *first_steps(None))]
    return lines


def first_steps(home: Path | None) -> tuple[str, str, str]:
    """Commands that receive at, apply and listen to the example, for the platform in a home."""
    example = EXAMPLE.relative_to(paths.ROOT)
    file = example if example.is_file() else EXAMPLE
    return (
        invocation.command("sink", "--port", EXAMPLE_RECEIVER.rpartition(":")[2]),
        invocation.command("apply", "-f", str(file), home=home),
        invocation.command("listen", EXAMPLE_TYPE, home=home),
    )
