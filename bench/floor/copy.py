"""Floor of multiplexing: copies each record to a second topic, pipelined and without holes.

One thread: read what is there, produce it, never wait for an ack, and commit what is acknowledged
every 100 ms. All copies have one key, as all events of one subscription have. Acks come in the
order of production, so the last one of a source partition says what may be committed of it.
"""

import argparse
import signal
import threading
import time
from functools import partial
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from bench.floor import topics
from libs.common.kafka import config
from libs.common.settings import KafkaSettings

COMMIT_S: Final = 0.1
POLL_S: Final = 0.05
BATCH_MAX: Final = 500
NAME: Final = "bench-floor-copy"
KEY: Final = b"subscription"


class Copy:
    """The step; the thread that runs it owns all of it."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._consumer = Consumer(
            {
                **config.group_consumer(kafka, group=NAME, instance=NAME),
                "auto.offset.reset": "earliest",
            }
        )
        self._producer = Producer(config.gapless_producer(kafka, client_id=NAME))
        self._finished: dict[int, int] = {}

    def run(self, stop: threading.Event) -> None:
        """Copies until the stop."""
        self._consumer.subscribe([topics.PUBLISHED], on_assign=_say_ready)
        commit_at_s = time.monotonic() + COMMIT_S
        while not stop.is_set():
            first = self._consumer.poll(POLL_S)
            if first is not None:
                for message in (first, *self._consumer.consume(BATCH_MAX - 1, 0)):
                    self._copy(message)
            self._producer.poll(0)
            if time.monotonic() > commit_at_s:
                self._commit()
                commit_at_s = time.monotonic() + COMMIT_S
        self._producer.flush(5.0)
        self._consumer.close()

    def _copy(self, message: Message) -> None:
        if (error := message.error()) is not None:
            raise KafkaException(error)
        place = (message.partition() or 0, message.offset() or 0)
        self._producer.produce(
            topics.COPIED, message.value(), KEY, on_delivery=partial(self._acknowledged, place)
        )

    def _acknowledged(self, place: tuple[int, int], error: KafkaError | None, _: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        partition, offset = place
        self._finished[partition] = offset + 1

    def _commit(self) -> None:
        offsets = [
            TopicPartition(topics.PUBLISHED, partition, offset)
            for partition, offset in self._finished.items()
        ]
        self._finished.clear()
        if offsets:
            self._consumer.commit(offsets=offsets, asynchronous=True)


def _say_ready(_: Consumer, __: list[TopicPartition]) -> None:
    print(topics.READY, flush=True)


def main() -> None:
    """Reads the arguments and copies until SIGTERM."""
    parser = argparse.ArgumentParser(prog="copy", description=__doc__)
    parser.add_argument("--kafka", required=True)
    arguments = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _, __: stop.set())
    Copy(KafkaSettings(bootstrap_servers=arguments.kafka)).run(stop)


if __name__ == "__main__":
    main()
