"""librdkafka properties of every client, and where they come from.

Figures: a reader takes one record by `poll`, then what is there by `consume(n, 0)`; a producer that
somebody waits for does not linger, and batches what comes while its one request is in flight; see
docs/decisions/0003-kafka-clients.md.
"""

from typing import Any

from confluent_kafka import KafkaError

from libs.common import log
from libs.common.kafka import client_log
from libs.common.settings import KafkaSettings
from libs.common.topics import RECORD_BYTES_MAX

logger = log.get(__name__)

SESSION_TIMEOUT_MS = 6_000
TRANSACTION_TIMEOUT_MS = 5_000

UNREACHABLE = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
"""Told again at every attempt to connect; librdkafka's log says it too, repetitions held back."""


def log_error(error: KafkaError) -> None:
    """Logs an error that a client tells of; one of connecting only for debugging."""
    level = logger.debug if error.code() in UNREACHABLE else logger.warning
    level("kafka.error", code=error.name(), detail=error.str())


def common(kafka: KafkaSettings, *, client_id: str) -> dict[str, Any]:
    """A client that is polled all its life: it logs its errors with those of the process."""
    return {
        **silent(kafka, client_id=client_id),
        "log_level": 3,
        "logger": client_log.logger(),
        "error_cb": log_error,
        **kafka.properties,
    }


def silent(kafka: KafkaSettings, *, client_id: str) -> dict[str, Any]:
    """A client that is not always polled, such as an admin client: its calls raise what is wrong.

    It logs nothing, since that would go to standard error, or pile up until the next poll.
    """
    return {
        "bootstrap.servers": kafka.bootstrap_servers,
        "client.id": client_id,
        "socket.nagle.disable": True,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1_000,
        "log_level": 0,
        **kafka.properties,
    }


def producer(kafka: KafkaSettings, *, client_id: str, linger_ms: float = 0.0) -> dict[str, Any]:
    """An idempotent producer whose records all replicas acknowledge; to be polled."""
    return {
        **common(kafka, client_id=client_id),
        **_durable(linger_ms),
        "max.in.flight": 1,
    }


def _durable(linger_ms: float) -> dict[str, Any]:
    return {
        "enable.idempotence": True,
        "acks": "all",
        "partitioner": "murmur2_random",
        "linger.ms": linger_ms,
        "message.max.bytes": RECORD_BYTES_MAX,
        "queue.buffering.max.messages": 100_000,
        "queue.buffering.max.kbytes": 262_144,
        "topic.metadata.propagation.max.ms": 5_000,
    }


def gapless_producer(kafka: KafkaSettings, *, client_id: str) -> dict[str, Any]:
    """A producer that never leaves a hole: it writes in order, or it fails for good."""
    return {
        **producer(kafka, client_id=client_id),
        "max.in.flight": 1,
        "enable.gapless.guarantee": True,
        "message.timeout.ms": 0,
        "topic.metadata.propagation.max.ms": 3_600_000,
    }


def transactional_producer(kafka: KafkaSettings, *, transactional_id: str) -> dict[str, Any]:
    """A producer for `TransactionalWriter`."""
    return {
        **silent(kafka, client_id=transactional_id),
        **_durable(linger_ms=0),
        "transactional.id": transactional_id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "retry.backoff.ms": 2,
    }


def reader(kafka: KafkaSettings, *, client_id: str) -> dict[str, Any]:
    """A consumer that assigns partitions itself and sees committed records only."""
    return {
        **common(kafka, client_id=client_id),
        "group.id": f"{client_id}-unused",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 100,
        "fetch.queue.backoff.ms": 2,
        "queued.max.messages.kbytes": 16_384,
    }


def group_consumer(kafka: KafkaSettings, *, group: str, instance: str) -> dict[str, Any]:
    """A static member of a consumer group; its owner commits offsets itself."""
    return {
        **reader(kafka, client_id=instance),
        "group.id": group,
        "group.instance.id": instance,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": 1_500,
        "enable.partition.eof": False,
        "queued.max.messages.kbytes": 65_536,
    }
