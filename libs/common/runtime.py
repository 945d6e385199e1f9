"""One process: named root tasks, one stop event, a bounded drain.

A process has *workers*, which on SIGTERM finish what they hold and return, and *attendants*
(health endpoint, tables, heartbeat), which the workers need until they are done and which are
cancelled afterwards. Whatever fails first ends the process.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping

from libs.common import log
from libs.common.errors import PermanentError, PlatformError

Worker = Callable[[asyncio.Event], Awaitable[None]]
"""Runs until the stop event is set, then finishes what it holds and returns."""

Attendant = Callable[[], Awaitable[None]]
"""Runs until it is cancelled."""

logger = log.get(__name__)


class RootTaskEnded(PermanentError):
    """A root task returned although nobody asked it to stop."""


class DrainExceeded(PermanentError):
    """A worker did not finish in time after the stop was asked for."""


async def run(
    workers: Mapping[str, Worker],
    *,
    attendants: Mapping[str, Attendant],
    drain_s: float,
    stop: asyncio.Event,
) -> None:
    """Runs everything until SIGTERM or SIGINT, or until one task ends by itself.

    A signal only sets `stop`. Workers that need longer than `drain_s` are cancelled, and
    DrainExceeded is raised. The first failure cancels the rest and is raised in a group.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as group:
        attending = [
            group.create_task(_attend(name, attendant), name=name)
            for name, attendant in attendants.items()
        ]
        working = [
            group.create_task(_work(name, worker, stop), name=name)
            for name, worker in workers.items()
        ]
        await stop.wait()
        logger.info("process.stopping")
        _, late = await asyncio.wait(working, timeout=drain_s)
        if late:
            raise DrainExceeded(", ".join(task.get_name() for task in late))
        for task in attending:
            task.cancel()
    logger.info("process.stopped")


async def _work(name: str, worker: Worker, stop: asyncio.Event) -> None:
    await worker(stop)
    if not stop.is_set():
        raise RootTaskEnded(name)


async def _attend(name: str, attendant: Attendant) -> None:
    await attendant()
    raise RootTaskEnded(name)


async def unless_stopped(awaited: Awaitable[object], stop: asyncio.Event) -> bool:
    """Waits for something or for the stop, whichever comes first; False when it was the stop."""
    waiting = asyncio.ensure_future(awaited)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return False
        await waiting
        return True
    finally:
        waiting.cancel()
        stopping.cancel()


def exit_code(error: BaseException) -> int:
    """Logs why a process ends and gives its exit code."""
    for cause in _causes(error):
        if isinstance(cause, PlatformError):
            logger.error("process.failed", error=type(cause).__name__, detail=str(cause))
        else:
            logger.error("process.failed", error=type(cause).__name__, exc_info=cause)
    return 1


def _causes(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [cause for part in error.exceptions for cause in _causes(part)]
    return [error]
