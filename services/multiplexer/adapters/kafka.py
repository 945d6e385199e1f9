"""The multiplexer's records on Kafka, and the end of the process when one cannot be written."""

import os
import sys
from functools import partial
from typing import NoReturn

from libs.common import log
from libs.common.errors import PlatformError
from libs.common.kafka.producer import RecordProducer, Stored
from services.multiplexer.domain.routing import Output
from services.multiplexer.ports import Abort, Headers, OnStored

logger = log.get(__name__)

EXIT_CODE = 70


def abort(reason: str) -> NoReturn:
    """Ends the process at once; records that are queued are not sent any more."""
    logger.error("process.aborted", reason=reason)
    sys.stdout.flush()
    os._exit(EXIT_CODE)


class KafkaRecordLog:
    """A `RecordLog` on a gapless producer."""

    def __init__(self, producer: RecordProducer, *, topic_prefix: str, abort: Abort) -> None:
        self._producer = producer
        self._prefix = topic_prefix
        self._abort = abort

    def write(
        self, output: Output, *, on_stored: OnStored, headers: Headers = (), timestamp_ms: int = 0
    ) -> None:
        """As the port says."""
        self._producer.produce(
            self._prefix + output.topic,
            key=output.key,
            value=output.value,
            on_ack=partial(self._acknowledged, output.topic, on_stored),
            headers=headers,
            timestamp_ms=timestamp_ms,
        )

    def _acknowledged(
        self, topic: str, on_stored: OnStored, result: Stored | PlatformError
    ) -> None:
        if isinstance(result, PlatformError):
            self._abort(f"a record for {topic} was not stored: {result}")
        on_stored()
