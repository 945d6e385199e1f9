"""What one callback attempt means for its event. Pure.

Success, retry and rejection by HTTP status; the schedule min(100 ms · 2^(n-1), 60 s); `Retry-After`
honoured between 1 and 8 times the planned delay. The numbers are Horizon's.
"""

from dataclasses import dataclass
from typing import Final, assert_never

import msgspec

SUCCESS_STATUSES: Final = frozenset({200, 201, 202, 204})
RETRYABLE_STATUSES: Final = frozenset({401, 429, 502, 503, 504})
RETRY_AFTER_STATUSES: Final = frozenset({429, 503})
RETRY_AFTER_FACTOR_MAX: Final = 8.0


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How a subscription's attempts are judged and repeated; times in seconds."""

    attempts_max: int = 11
    timeout_s: float = 30.0
    delay_s_min: float = 0.1
    delay_s_max: float = 60.0
    retryable_statuses: frozenset[int] = RETRYABLE_STATUSES
    retries_server_errors: bool = False


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The subscriber answered; `retry_after_s` is its wish, if it has one."""

    status: int
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """No complete answer: connection, TLS, name resolution, time, reset, truncated answer."""

    error_type: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No request was made, and none will be: the address is not permitted or there is none."""

    error_type: str
    message: str


Answer = Answered | Unanswered | Refused


@dataclass(frozen=True, slots=True)
class Delivered:
    """The subscriber has the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Try again after `delay_s`; `slows_lane` holds the whole lane back for as long."""

    delay_s: float
    error_type: str
    message: str
    slows_lane: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Do not try again."""

    error_type: str
    message: str


Verdict = Delivered | Retry | Reject


def classify(answer: Answer, policy: Policy, *, attempt: int) -> Verdict:
    """What to do after attempt number `attempt` (from 1)."""
    match answer:
        case Answered():
            return _by_status(answer, policy, attempt=attempt)
        case Unanswered():
            return _retry(
                policy, attempt=attempt, error_type=answer.error_type, message=answer.message
            )
        case Refused():
            return Reject(error_type=answer.error_type, message=answer.message)
        case _:
            assert_never(answer)


def _by_status(answer: Answered, policy: Policy, *, attempt: int) -> Verdict:
    status = answer.status
    if status in SUCCESS_STATUSES:
        return Delivered()
    message = f"the callback answered {status}"
    if _is_retryable(status, policy):
        wish_s = answer.retry_after_s if status in RETRY_AFTER_STATUSES else None
        return _retry(
            policy, attempt=attempt, error_type="http_status", message=message, wish_s=wish_s
        )
    if 300 <= status < 400:
        return Reject(
            error_type="redirect_not_followed", message=f"{message}; redirects are not followed"
        )
    return Reject(error_type="rejected", message=message)


def _is_retryable(status: int, policy: Policy) -> bool:
    if status in policy.retryable_statuses:
        return True
    return policy.retries_server_errors and status >= 500


def _retry(
    policy: Policy, *, attempt: int, error_type: str, message: str, wish_s: float | None = None
) -> Retry | Reject:
    if attempt >= policy.attempts_max:
        return Reject(
            error_type="attempts_exhausted",
            message=f"{message}; attempt {attempt} of {policy.attempts_max} was the last",
        )
    planned_s = delay_s(attempt, policy)
    if wish_s is None:
        return Retry(delay_s=planned_s, error_type=error_type, message=message)
    wished_s = min(max(wish_s, planned_s), RETRY_AFTER_FACTOR_MAX * planned_s)
    return Retry(delay_s=wished_s, error_type=error_type, message=message, slows_lane=True)


def delay_s(attempt: int, policy: Policy) -> float:
    """Seconds between attempt number `attempt` (from 1) and the next."""
    return min(policy.delay_s_min * 2.0 ** min(attempt - 1, 60), policy.delay_s_max)


def is_expired(
    *, now_s: float, timeout_s: float, published_at_s: float, retention_s: float
) -> bool:
    """True when an attempt that starts now might end after the event's retention."""
    return now_s + timeout_s >= published_at_s + retention_s
