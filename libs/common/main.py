"""The start of every service: settings, logging, run, exit code."""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable

import uvloop

from libs.common import log, runtime, settings
from libs.common.errors import SettingsError

GARBAGE_OBJECTS = 10_000
"""New objects, less those that are gone, after which the collector looks for cycles. What comes and
goes with an event has none: with Python's own 700 it looks often, and for nothing."""

SWITCH_S = 0.0005
"""How long a thread waits for another that computes; Python's own is 5 ms. Kafka's threads have to
hand over what came while the event loop is busy: 1,000 events a second, on their way through three
processes, took 11 ms instead of 17 (p95)."""


def main(
    service: str,
    settings_class: type[settings.S],
    run: Callable[[settings.S], Awaitable[None]],
) -> None:
    """Runs a service and ends the process.

    Exit codes: 0 after an orderly stop, 2 for settings that cannot work, 1 for anything else.
    """
    try:
        loaded = settings.load(settings_class)
    except SettingsError as error:
        sys.stderr.write(f"{service}: {error}\n")
        sys.exit(2)
    log.configure(service=service, instance=loaded.instance, level=loaded.log_level)
    # What was imported stays: the collector need not look at it again and again.
    gc.freeze()
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(GARBAGE_OBJECTS, *gc.get_threshold()[1:])
    try:
        uvloop.run(_until_done(run, loaded))
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the last resort
        sys.exit(runtime.exit_code(error))


async def _until_done(run: Callable[[settings.S], Awaitable[None]], loaded: settings.S) -> None:
    await run(loaded)
