"""A process that ends by itself is started again, ever later while it keeps ending."""

from deploy.local import restarts
from deploy.local.restarts import Restarts


def delays_s(*lifetimes_s: float) -> list[float]:
    """How long the process is waited for after each of its lives."""
    now_s, history, delays = 0.0, Restarts(), []
    for lifetime_s in lifetimes_s:
        history = restarts.started(history, now_s=now_s)
        now_s += lifetime_s
        history = restarts.ended(history, now_s=now_s)
        assert history.due_at_s is not None
        delays.append(history.due_at_s - now_s)
        now_s = history.due_at_s
    return delays


def test_the_delay_doubles_while_the_process_keeps_ending() -> None:
    assert delays_s(1, 1, 1, 1) == [0.5, 1, 2, 4]


def test_the_delay_has_an_upper_bound() -> None:
    assert max(delays_s(*[1.0] * 2_000)) == restarts.DELAY_S_MAX


def test_a_process_that_ran_for_a_while_starts_over_with_the_first_delay() -> None:
    assert delays_s(1, 1, restarts.STABLE_S, 1) == [0.5, 1, 0.5, 1]


def test_a_running_process_is_not_due() -> None:
    assert restarts.started(Restarts(failures=3, due_at_s=5), now_s=6).due_at_s is None
