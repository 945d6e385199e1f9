"""The course of a demo: what counts as arrived, and what is said in the end."""

import pytest

from libs.cli.course import Course, percentile, report


def course(*, callback: int = 0, stream: int = 0, expected: int = 2, load: float = 0.0) -> Course:
    """A course whose events take 10 ms to the callback and 20 ms to the stream."""
    found = Course(expected=expected, load=load)
    for number in range(expected):
        found.sent_at_s[str(number)] = 100.0
        found.stored.add(str(number))
    for number in range(callback):
        found.called(str(number), at_s=100.010)
    for number in range(stream):
        found.streamed(str(number), at_s=100.020)
    return found


def test_everything_has_arrived_when_both_have_every_event() -> None:
    assert course(callback=2, stream=2).all_arrived.is_set()
    assert course(callback=2, stream=2).failure() is None


@pytest.mark.parametrize(
    ("callback", "stream", "said"),
    [
        (2, 1, "Events did not arrive: 1 on the stream."),
        (0, 2, "Events did not arrive: 2 at the callback."),
        (1, 0, "Events did not arrive: 1 at the callback and 2 on the stream."),
    ],
)
def test_what_is_missing_at_either_is_a_failure(callback: int, stream: int, said: str) -> None:
    found = course(callback=callback, stream=stream)
    assert not found.all_arrived.is_set()
    assert found.failure() == said


def test_repeats_and_events_of_another_run_do_not_count() -> None:
    found = course(callback=1)
    assert not found.called("0", at_s=101.0)
    assert not found.streamed("foreign", at_s=101.0)
    assert found.called_at_s == {"0": 100.010}
    assert found.missing() == (1, 2)


def test_the_report_has_a_line_for_each_place_with_its_times() -> None:
    assert list(report(course(callback=2, stream=1), cores=2)) == [
        "Published and stored on Kafka:  2 of 2",
        "Delivered to the callback:      2 of 2, p50 10.0 ms, p95 10.0 ms after publishing",
        "Read from the stream:           1 of 2, p50 20.0 ms, p95 20.0 ms after publishing",
    ]


def test_a_busy_machine_is_named_beside_the_times() -> None:
    *_, line = report(course(callback=1, stream=1, load=4.24), cores=2)
    assert "load 4.2 on 2 cores" in line


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 95)) == (50.0, 95.0)
    assert percentile([7.0], 95) == 7.0
