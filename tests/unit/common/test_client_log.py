"""What librdkafka logs comes out as records of `logging`, and does not flood the log."""

import logging

from libs.common.kafka import client_log
from libs.common.kafka.client_log import INTERVAL_S, TEXTS_MAX, RepetitionFilter


class Clock:
    """Monotonic seconds that stand still until they are set."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def record(text: str) -> logging.LogRecord:
    """A record in the form in which the client makes them."""
    arguments = ("FAIL", "rdkafka#consumer-1", text)
    return logging.LogRecord("librdkafka", logging.ERROR, "", 0, "%s [%s] %s", arguments, None)


def test_a_repeated_line_passes_once_in_every_interval() -> None:
    clock = Clock()
    repetition = RepetitionFilter(clock_s=clock)
    assert repetition.filter(record("refused"))
    clock.now_s += INTERVAL_S - 0.1
    assert not repetition.filter(record("refused"))
    clock.now_s += 0.2
    assert repetition.filter(record("refused"))


def test_durations_and_counts_do_not_make_a_line_another_one() -> None:
    repetition = RepetitionFilter(clock_s=Clock())
    assert repetition.filter(record("refused (after 0ms, 3 identical error(s) suppressed)"))
    assert not repetition.filter(record("refused (after 12ms, 30 identical error(s) suppressed)"))


def test_lines_about_different_brokers_all_pass() -> None:
    repetition = RepetitionFilter(clock_s=Clock())
    assert repetition.filter(record("127.0.0.1:9092: refused"))
    assert repetition.filter(record("127.0.0.1:9093: refused"))


def test_what_is_remembered_is_bounded() -> None:
    clock = Clock()
    repetition = RepetitionFilter(clock_s=clock)
    for number in range(TEXTS_MAX + 1):
        repetition.filter(record(f"line {number}"))
    assert repetition.filter(record("line 0"))
    assert not repetition.filter(record(f"line {TEXTS_MAX}"))


def test_the_logger_filters_however_often_it_is_asked_for() -> None:
    found = client_log.logger()
    assert client_log.logger() is found
    assert len([each for each in found.filters if isinstance(each, RepetitionFilter)]) == 1
