"""A real single-node Kafka (KRaft) as a child process, listening on loopback.

Broker and controller are one process. The first start formats the data folder; later ones find
their data again, after a crash as well.
"""

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final

from deploy.local import jars, java, paths, probes
from deploy.local.errors import StartFailed
from deploy.local.ports import HOST
from deploy.local.process import ManagedProcess, Program, log_tail
from libs.common.topics import RECORD_BYTES_MAX

FORMAT_S_MAX: Final = 60.0
# One broker beside its clients on a small machine: fewer threads of the collector and of the broker
# are fewer wake-ups for the same work.
JVM_OPTIONS: Final = (
    *("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC"),
    f"-Dlog4j2.configurationFile={paths.HERE / 'log4j2.properties'}",
    "-Djava.awt.headless=true",
)
STARTED: Final = b"Kafka Server started"
"""Logged once the broker takes part; its port is open a little earlier."""

_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
message.max.bytes={record_bytes}
default.replication.factor=1
min.insync.replicas=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=6000
log.cleaner.dedupe.buffer.size=33554432
num.network.threads=1
num.io.threads=2
"""


def new_cluster_id() -> str:
    """A random id in Kafka's form; never with a leading dash, which would read as an option."""
    random = bytearray(uuid.uuid4().bytes)
    random[0] &= 0x7F
    return urlsafe_b64encode(random).rstrip(b"=").decode()


class KafkaProcess(ManagedProcess):
    """Kafka with its data in `<home>/kafka`, on `port` and, for its controller, `port + 1`."""

    def __init__(self, home: Path, port: int) -> None:
        found = java.find(environ=os.environ, site_packages=paths.site_packages())
        jar_folder = jars.folder(paths.cache())
        if found is None or not jar_folder.is_dir():
            raise StartFailed("Kafka is not installed: run 'make setup'.")
        self.folder = home / "kafka"
        self.port = port
        self._java = (
            *(str(found.executable), *JVM_OPTIONS),
            *("-cp", str(jar_folder / "*")),
        )
        super().__init__(
            Program(
                name="kafka",
                command=(*self._java, "kafka.Kafka", str(self.folder / "server.properties")),
                log=home / "logs" / "kafka.log",
                ready=self._missing,
                start_s_max=180.0,
            )
        )

    @property
    def bootstrap_servers(self) -> str:
        """Where clients reach it."""
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """Formats the data folder when it is new, and starts Kafka; StartFailed when it cannot."""
        data = self.folder / "data"
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        properties.write_text(
            _PROPERTIES.format(
                host=HOST,
                port=self.port,
                controller=self.port + 1,
                data=data,
                record_bytes=RECORD_BYTES_MAX,
            )
        )
        if not (data / "meta.properties").exists():
            self._format(properties)
        super().start()

    def _format(self, properties: Path) -> None:
        log = self.program.log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            formatted = subprocess.run(
                [
                    *(*self._java, "kafka.tools.StorageTool", "format", "--ignore-formatted"),
                    *("-t", new_cluster_id(), "-c", str(properties)),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=FORMAT_S_MAX,
                check=False,
            )
        if formatted.returncode != 0:
            raise StartFailed(f"Kafka's data folder cannot be formatted:\n{log_tail(log)}")

    def _missing(self) -> str | None:
        if not probes.is_open(self.port):
            return "its port is not open"
        with self.program.log.open("rb") as log:
            log.seek(self.log_position)
            return None if STARTED in log.read() else "it does not take part yet"
