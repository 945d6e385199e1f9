"""The command `meridian` as a process, for tests on a whole platform."""

import asyncio
import os
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

COMMAND_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


async def meridian(home: Path, *arguments: str) -> Ended:
    """Runs the command against the platform in a home."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "libs.cli", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "MERIDIAN_HOME": str(home)},
    )
    async with asyncio.timeout(COMMAND_S_MAX):
        out, err = await running.communicate()
    assert "Traceback" not in err.decode()
    return Ended(running.returncode or 0, out.decode(), err.decode())


async def publish(home: Path, event_type: str, data: str) -> str:
    """Publishes an event; its id."""
    event_id = str(uuid.uuid4())
    published = await meridian(home, "publish", event_type, "--data", data, "--id", event_id)
    assert (published.code, published.err) == (0, "")
    assert f"meridian event {event_id}" in published.out
    return event_id
