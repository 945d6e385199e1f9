"""An open-loop schedule: what is due when, and how a generator that is late is found out."""

from hypothesis import given
from hypothesis import strategies as st

from bench import schedule

START = 5_000_000_000
MS = 1_000_000


def sent_in_time(count: int, *, rate: float, late_ns: int = 0) -> list[int]:
    return [
        schedule.intended_ns(number, rate=rate, start_ns=START) + late_ns for number in range(count)
    ]


def test_requests_are_spread_evenly_from_the_start() -> None:
    assert sent_in_time(3, rate=200.0) == [START, START + 5 * MS, START + 10 * MS]


def test_nothing_is_due_before_the_start() -> None:
    assert schedule.due(START - 1, rate=200.0, start_ns=START, total=10) == 0
    assert schedule.due(START, rate=200.0, start_ns=START, total=10) == 1


def test_after_a_pause_everything_that_was_missed_is_due_at_once() -> None:
    assert schedule.due(START + 50 * MS, rate=200.0, start_ns=START, total=1_000) == 11


def test_never_more_is_due_than_there_is() -> None:
    assert schedule.due(START + 3_600_000 * MS, rate=200.0, start_ns=START, total=10) == 10


@given(
    rate=st.floats(min_value=1, max_value=10_000), number=st.integers(min_value=0, max_value=9_999)
)
def test_a_request_is_due_within_a_microsecond_of_its_intended_moment(
    rate: float, number: int
) -> None:
    moment_ns = schedule.intended_ns(number, rate=rate, start_ns=START)
    assert schedule.due(moment_ns + 1_000, rate=rate, start_ns=START, total=10_000) > number
    assert schedule.due(moment_ns - 1_000, rate=rate, start_ns=START, total=10_000) <= number


def test_a_generator_that_kept_its_schedule_has_not_fallen_behind() -> None:
    sent = sent_in_time(1_000, rate=200.0, late_ns=2 * MS)
    assert schedule.fell_behind(sent, rate=200.0, start_ns=START) is None


def test_a_generator_that_is_late_all_the_time_has_fallen_behind() -> None:
    sent = sent_in_time(1_000, rate=200.0, late_ns=11 * MS)
    found = schedule.fell_behind(sent, rate=200.0, start_ns=START)
    assert found is not None
    assert "11.0 ms late" in found


def test_a_generator_that_is_too_slow_has_fallen_behind() -> None:
    sent = sent_in_time(1_000, rate=150.0)
    found = schedule.fell_behind(sent, rate=200.0, start_ns=START)
    assert found is not None
    assert "150 requests/s instead of 200" in found


def test_a_generator_that_sent_nothing_has_fallen_behind() -> None:
    assert schedule.fell_behind([], rate=200.0, start_ns=START) is not None
