"""What an attempt means, by status and by error."""

import pytest

from services.delivery.domain.outcome import (
    Answered,
    Delivered,
    Policy,
    Refused,
    Reject,
    Retry,
    Unanswered,
    classify,
    delay_s,
    is_expired,
)

POLICY = Policy()


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_success(status: int) -> None:
    assert classify(Answered(status=status), POLICY, attempt=1) == Delivered()


@pytest.mark.parametrize("status", [401, 429, 502, 503, 504])
def test_statuses_that_are_tried_again(status: int) -> None:
    verdict = classify(Answered(status=status), POLICY, attempt=1)
    assert isinstance(verdict, Retry)
    assert verdict.delay_s == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("status", "error_type"),
    [
        (301, "redirect_not_followed"),
        (304, "redirect_not_followed"),
        (203, "rejected"),
        (206, "rejected"),
        (400, "rejected"),
        (403, "rejected"),
        (404, "rejected"),
        (409, "rejected"),
        (500, "rejected"),
        (501, "rejected"),
        (599, "rejected"),
    ],
)
def test_statuses_that_end_the_event(status: int, error_type: str) -> None:
    verdict = classify(Answered(status=status), POLICY, attempt=1)
    assert isinstance(verdict, Reject)
    assert verdict.error_type == error_type
    assert str(status) in verdict.message


def test_server_errors_are_tried_again_when_the_subscription_says_so() -> None:
    policy = Policy(retries_server_errors=True)
    assert isinstance(classify(Answered(status=500), policy, attempt=1), Retry)
    assert isinstance(classify(Answered(status=400), policy, attempt=1), Reject)


def test_a_subscription_s_own_statuses_replace_the_list() -> None:
    policy = Policy(retryable_statuses=frozenset({418}))
    assert isinstance(classify(Answered(status=418), policy, attempt=1), Retry)
    assert isinstance(classify(Answered(status=503), policy, attempt=1), Reject)


def test_no_answer_is_tried_again_with_its_reason() -> None:
    answer = Unanswered(error_type="connect", message="refused")
    assert classify(answer, POLICY, attempt=3) == Retry(
        delay_s=0.4, error_type="connect", message="refused"
    )


def test_a_refused_address_ends_the_event_at_once() -> None:
    verdict = classify(Refused(error_type="address_refused", message="m"), POLICY, attempt=1)
    assert verdict == Reject(error_type="address_refused", message="m")


def test_the_schedule_doubles_from_100_ms_to_a_minute_and_lasts_102_seconds() -> None:
    delays = [delay_s(attempt, POLICY) for attempt in range(1, 11)]
    assert delays[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert delays[-1] == pytest.approx(51.2)
    assert sum(delays) == pytest.approx(102.3)
    assert delay_s(1_000_000, POLICY) == 60.0


def test_the_last_attempt_ends_the_event_and_says_so() -> None:
    verdict = classify(Answered(status=503), POLICY, attempt=11)
    assert isinstance(verdict, Reject)
    assert verdict.error_type == "attempts_exhausted"
    assert "503" in verdict.message


@pytest.mark.parametrize(
    ("wish_s", "status", "expected_s", "slows"),
    [
        (0.5, 429, 0.5, True),
        (0.001, 429, 0.1, True),
        (3600, 503, 0.8, True),
        (3600, 502, 0.1, False),
        (None, 503, 0.1, False),
    ],
    ids=["honoured", "not sooner than planned", "at most 8 times", "not on 502", "absent"],
)
def test_retry_after(wish_s: float | None, status: int, expected_s: float, slows: bool) -> None:
    verdict = classify(Answered(status=status, retry_after_s=wish_s), POLICY, attempt=1)
    assert isinstance(verdict, Retry)
    assert verdict.delay_s == pytest.approx(expected_s)
    assert verdict.slows_lane is slows


@pytest.mark.parametrize(("now_s", "expired"), [(69.9, False), (70.0, True), (200.0, True)])
def test_no_attempt_starts_that_could_end_after_the_retention(now_s: float, expired: bool) -> None:
    found = is_expired(now_s=now_s, timeout_s=30, published_at_s=0, retention_s=100)
    assert found is expired
