"""A process: workers, attendants, one stop event, a bounded drain."""

import asyncio
import os
import signal
from collections.abc import Mapping

import pytest

from libs.common import runtime
from libs.common.errors import PlatformError
from libs.common.runtime import (
    Attendant,
    DrainExceeded,
    RootTaskEnded,
    Worker,
    exit_code,
    unless_stopped,
)

DRAIN_S = 5.0


class Fault(PlatformError):
    """What goes wrong in these tests."""


class Recorder:
    """Workers and attendants that write down what happens to them."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.running = asyncio.Event()

    async def worker(self, stop: asyncio.Event) -> None:
        self.running.set()
        try:
            await stop.wait()
            await asyncio.sleep(0)
            self.events.append("worker finished")
        except asyncio.CancelledError:
            self.events.append("worker cancelled")
            raise

    async def attendant(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.events.append("attendant cancelled")
            raise


@pytest.fixture
async def recorder() -> Recorder:
    return Recorder()


async def run(
    workers: Mapping[str, Worker],
    attendants: Mapping[str, Attendant],
    *,
    stop: asyncio.Event | None = None,
    drain_s: float = DRAIN_S,
) -> None:
    async with asyncio.timeout(DRAIN_S):
        await runtime.run(
            workers, attendants=attendants, drain_s=drain_s, stop=stop or asyncio.Event()
        )


async def test_after_the_stop_workers_finish_before_their_attendants_go(
    recorder: Recorder,
) -> None:
    stop = asyncio.Event()
    stop.set()
    await run({"w": recorder.worker}, {"a": recorder.attendant}, stop=stop)
    assert recorder.events == ["worker finished", "attendant cancelled"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_sets_the_stop_event_and_nothing_else(
    recorder: Recorder, number: signal.Signals
) -> None:
    async def signalled(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), number)
        await recorder.worker(stop)

    await run({"w": signalled}, {"a": recorder.attendant})
    assert recorder.events == ["worker finished", "attendant cancelled"]


async def test_a_failing_worker_ends_the_process(recorder: Recorder) -> None:
    async def failing(_: asyncio.Event) -> None:
        await recorder.running.wait()
        raise Fault("broken")

    with pytest.RaisesGroup(pytest.RaisesExc(Fault, match="broken")):
        await run({"w": recorder.worker, "bad": failing}, {"a": recorder.attendant})
    assert sorted(recorder.events) == ["attendant cancelled", "worker cancelled"]


async def test_a_failing_attendant_ends_the_process(recorder: Recorder) -> None:
    async def failing() -> None:
        await recorder.running.wait()
        raise Fault("broken")

    with pytest.RaisesGroup(pytest.RaisesExc(Fault, match="broken")):
        await run({"w": recorder.worker}, {"bad": failing})
    assert recorder.events == ["worker cancelled"]


async def test_an_attendant_that_fails_while_workers_finish_ends_the_process() -> None:
    draining = asyncio.Event()

    async def slow(stop: asyncio.Event) -> None:
        await stop.wait()
        draining.set()
        await asyncio.Event().wait()

    async def failing() -> None:
        await draining.wait()
        raise Fault("broken")

    stop = asyncio.Event()
    stop.set()
    with pytest.RaisesGroup(pytest.RaisesExc(Fault, match="broken")):
        await run({"slow": slow}, {"bad": failing}, stop=stop)


async def test_a_worker_that_returns_early_ends_the_process_by_name(recorder: Recorder) -> None:
    async def early(_: asyncio.Event) -> None:
        await recorder.running.wait()

    with pytest.RaisesGroup(pytest.RaisesExc(RootTaskEnded, match="early")):
        await run({"w": recorder.worker, "early": early}, {})


async def test_an_attendant_that_returns_early_ends_the_process_by_name(
    recorder: Recorder,
) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(RootTaskEnded, match="early")):
        await run({"w": recorder.worker}, {"early": recorder.running.wait})  # type: ignore[dict-item]


async def test_a_worker_that_does_not_finish_in_time_is_cancelled_and_named(
    recorder: Recorder,
) -> None:
    async def late(_: asyncio.Event) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            recorder.events.append("late cancelled")
            raise

    stop = asyncio.Event()
    stop.set()
    with pytest.RaisesGroup(pytest.RaisesExc(DrainExceeded, match="^late$")):
        await run(
            {"w": recorder.worker, "late": late},
            {"a": recorder.attendant},
            stop=stop,
            drain_s=0.02,
        )
    assert sorted(recorder.events) == ["attendant cancelled", "late cancelled", "worker finished"]


async def test_waiting_ends_with_what_is_waited_for() -> None:
    stop, awaited = asyncio.Event(), asyncio.Event()
    awaited.set()
    assert await unless_stopped(awaited.wait(), stop) is True


async def test_waiting_ends_with_the_stop_and_gives_up_what_is_waited_for() -> None:
    stop = asyncio.Event()
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    stop.set()
    assert await unless_stopped(waiting, stop) is False
    await asyncio.sleep(0)
    assert waiting.cancelled()


async def test_a_failure_of_what_is_waited_for_is_raised() -> None:
    async def failing() -> None:
        raise Fault("broken")

    with pytest.raises(Fault, match="broken"):
        await unless_stopped(failing(), asyncio.Event())


@pytest.mark.parametrize(
    "error",
    [Fault("x"), ExceptionGroup("g", [Fault("x"), ValueError("y")]), asyncio.CancelledError()],
)
def test_a_failed_process_exits_with_1(error: BaseException) -> None:
    assert exit_code(error) == 1
