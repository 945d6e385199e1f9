"""Every process of a platform is killed under load: nothing is lost, and little is repeated.

Receivers are callbacks, each a path of one endpoint, and a stream whose events count there too.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from deploy.local import endpoints as endpoints_file
from deploy.local import programs
from deploy.local.endpoints import Endpoints
from libs.common.kafka import config, reader
from libs.common.records import PublishedEvent, decoder, head_decoder
from libs.common.settings import KafkaSettings
from libs.common.topics import PUBLISHED, topic_specs
from tests.e2e import account
from tests.e2e.account import Blow, Run
from tests.e2e.persistent import PersistentPublisher
from tests.e2e.streaming import reading
from tests.e2e.test_main_job import set_up, until
from tests.e2e.traffic import Arrival, Platform, Receiver, client, events
from tests.results import Results

SUBSCRIBERS = ["one", "two"]
STREAM = "stream"
RECEIVERS = [*SUBSCRIBERS, STREAM]
SILENCE_S_MAX = 8.0
"""Longest stop of a partition after a kill of the multiplexer, its restart included."""
RECOVERED_S_MAX = 120.0
CALM_S = 2
"""So long events flow before the next blow falls."""

MAY_REPEAT = frozenset({"delivery", "delivery stopped", "sse", "kafka"})
"""A blow to anything else never makes a subscriber get an event again."""
STALLED = "delivery stopped"
CONTROL_PLANE = frozenset({"control", "circuit_breaker"})
"""Not on an event's way."""


@dataclass(slots=True)
class Battle:
    """A platform under load, and what is done to it."""

    home: Path
    platform: Platform
    publisher: PersistentPublisher
    receiver: Receiver
    blows: list[Blow] = field(default_factory=list)

    @property
    def arrivals(self) -> Mapping[str, Sequence[Arrival]]:
        """What each receiver has got until now."""
        return {name: self.receiver.arrivals.get(f"/{name}", []) for name in RECEIVERS}

    async def some_of(self, number: int) -> None:
        """Lets so many events be published in all; returns once load is steady."""
        self.publisher.allow(number)
        steady = len(self.publisher.acknowledged) + self.publisher.rate_per_s * CALM_S
        await self.publisher.until(lambda: len(self.publisher.acknowledged) >= steady)

    async def strike(self, name: str) -> None:
        """One blow while events are published; returns once everything flows again."""
        if name == STALLED:
            await self._stall()
        else:
            await self._kill(name)
        await self.everything_arrived()

    async def _kill(self, name: str) -> None:
        pid = self._pid(name)
        assert pid is not None
        self._begin(name)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: self._pid(name) not in (None, pid))

    async def _stall(self) -> None:
        """Stops delivery until its session is over, then lets it go on."""
        pid = self._pid("delivery")
        assert pid is not None
        self._begin(STALLED)
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.to_thread(session_over, self.platform.endpoints.kafka, "delivery")
        finally:
            os.kill(pid, signal.SIGCONT)

    def _begin(self, name: str) -> None:
        self.blows.append(Blow(name, time.monotonic(), self.receiver.in_flight))

    def _pid(self, name: str) -> int | None:
        return endpoints_file.read(self.home).pids.get(name)

    async def everything_arrived(self) -> None:
        """Returns once all events that may be published have arrived at every receiver."""
        async with asyncio.timeout(RECOVERED_S_MAX):
            await self.publisher.until(lambda: self.publisher.is_done)
        paths = [f"/{name}" for name in RECEIVERS]
        await self.receiver.has(paths, self.publisher.acknowledged, within_s=RECOVERED_S_MAX)


def session_over(bootstrap_servers: str, group: str) -> None:
    """Returns once the group has no member any more."""
    kafka = KafkaSettings(bootstrap_servers=bootstrap_servers)
    admin = AdminClient(config.silent(kafka, client_id="test-groups"))
    deadline_s = time.monotonic() + RECOVERED_S_MAX
    while admin.describe_consumer_groups([group])[group].result().members:
        assert time.monotonic() < deadline_s, f"group {group} still has members"
        time.sleep(0.1)


@asynccontextmanager
async def battle(
    endpoints: Endpoints, home: Path, *, name: str, number: int, rate_per_s: float
) -> AsyncIterator[Battle]:
    """A platform with a publisher at work, and a subscription for each receiver."""
    async with Receiver().serving() as receiver, client(endpoints) as platform:
        receiver.slow_s = 0.5
        client_id, event_type = await set_up(platform, receiver, name, subscribers=SUBSCRIBERS)
        publisher = PersistentPublisher(platform, events(number), rate_per_s=rate_per_s)
        async with (
            reading(platform, receiver, name=STREAM, event_type=event_type),
            asyncio.TaskGroup() as group,
        ):
            group.create_task(publisher.run(client_id, event_type))
            yield Battle(home, platform, publisher, receiver)


async def fight(found: Battle, blows: Sequence[str], *, number: int) -> Run:
    """One blow in each part of the events, a last part in peace; then the account."""
    for part, name in enumerate(blows, 1):
        await found.some_of(number * part // (len(blows) + 1))
        await found.strike(name)
    found.publisher.allow(number)
    await found.everything_arrived()
    return Run(
        sent={event.id for event in found.publisher.acknowledged},
        repeated_by_publisher=found.publisher.repeated,
        partitions=await asyncio.to_thread(partitions, found.platform.endpoints.kafka),
        arrivals=found.arrivals,
        blows=found.blows,
    )


def partitions(bootstrap_servers: str) -> dict[str, int]:
    """Partition of `published` of every event there, by event id."""
    kafka = KafkaSettings(bootstrap_servers=bootstrap_servers)
    numbers = {spec.name: spec.partitions for spec in topic_specs(embedded=True)}[PUBLISHED]
    found = reader.read_to_end(kafka, PUBLISHED, range(numbers), client_id="test-partitions")
    events_there = [(decoder(PublishedEvent).decode(r.value or b""), r.partition) for r in found]
    return {head_decoder.decode(event.event).id: at.number for event, at in events_there}


def judge(run: Run) -> dict[str, Any]:
    """Prints the account and fails where it breaks a promise."""
    figures = account.as_figures(run)
    print(json.dumps(figures, indent=2))
    assert account.lost(run) == {}
    assert account.stored_twice(run) <= run.repeated_by_publisher
    for effect in account.effects(run):
        allowed = effect.repeats_max if effect.name in MAY_REPEAT else 0
        assert effect.repeats <= allowed, effect
        if effect.name == "multiplexer":
            assert effect.silence_s_max <= SILENCE_S_MAX, effect
    return figures


@pytest.mark.timeout(240)
async def test_kills_of_the_pipeline_and_of_kafka_lose_nothing(
    platform: Endpoints, platform_home: Path
) -> None:
    number = 1_500
    async with battle(platform, platform_home, name="kills", number=number, rate_per_s=60) as found:
        run = await fight(found, ["multiplexer", "delivery", "sse", "kafka"], number=number)
    judge(run)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_ten_thousand_events_through_a_kill_of_every_process(
    platform: Endpoints, platform_home: Path, results: Results
) -> None:
    number = 10_000
    killed = [name for name in programs.SERVICE_NAMES if name not in CONTROL_PLANE]
    async with battle(
        platform, platform_home, name="all-kills", number=number, rate_per_s=80
    ) as found:
        run = await fight(found, [*killed, "redis", "kafka", STALLED], number=number)
    results.write("kills", judge(run))
