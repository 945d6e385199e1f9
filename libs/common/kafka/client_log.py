"""The lines that librdkafka logs, as records of the standard `logging`, repetitions held back.

Without it they go to standard error in a form of their own, some sixty a second for each consumer
while no broker answers.
"""

import logging
import re
import time
from collections.abc import Callable
from typing import Final

NAME: Final = "librdkafka"
INTERVAL_S: Final = 10.0
TEXTS_MAX: Final = 200

_VARYING: Final = re.compile(r"\d+(?=ms\b| identical error)")


class RepetitionFilter(logging.Filter):
    """Lets one record of a text pass in every interval; it remembers at most `TEXTS_MAX` texts.

    Durations and counts do not make a text another one. More texts than that at once cost the
    oldest its place, which may then pass again earlier.
    """

    def __init__(self, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock_s = clock_s
        self._passed_at_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be logged."""
        text = _VARYING.sub("", record.getMessage())
        now_s = self._clock_s()
        passed_at_s = self._passed_at_s.get(text)
        if passed_at_s is not None and now_s - passed_at_s < INTERVAL_S:
            return False
        self._passed_at_s.pop(text, None)
        if len(self._passed_at_s) >= TEXTS_MAX:
            del self._passed_at_s[next(iter(self._passed_at_s))]
        self._passed_at_s[text] = now_s
        return True


def logger() -> logging.Logger:
    """The logger to give to a client as its property `logger`: one for the whole process.

    A client hands its lines over while it is polled, so give it only to clients that are.
    """
    found = logging.getLogger(NAME)
    if not any(isinstance(each, RepetitionFilter) for each in found.filters):
        found.addFilter(RepetitionFilter())
    return found
