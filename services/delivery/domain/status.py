"""Status records of subscription events. Pure."""

from dataclasses import dataclass

import msgspec

from libs.common.records import DeliveryType, Status, StatusChange
from services.delivery.domain.lane import Job
from services.delivery.domain.outcome import Answer, Answered


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt that led to a status; number 0 means that none was made."""

    number: int = 0
    http_status: int | None = None
    duration_ms: int | None = None


def attempt_of(answer: Answer, *, number: int, duration_s: float) -> Attempt:
    """The attempt as a status records it."""
    status = answer.status if isinstance(answer, Answered) else None
    return Attempt(number=number, http_status=status, duration_ms=round(duration_s * 1000))


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an event stands where it stands."""

    error_type: str
    message: str


def status_change(
    job: Job,
    *,
    status: Status,
    at: str,
    attempt: Attempt,
    reason: Reason | None = None,
) -> StatusChange:
    """One step in the life of the event."""
    event = job.event
    return StatusChange(
        uuid=event.uuid,
        subscription_id=event.subscription_id,
        subscriber_id=event.subscriber_id,
        publisher_id=event.publisher_id,
        environment=event.environment,
        multiplexed_from=event.multiplexed_from,
        event=job.head,
        delivery_type=DeliveryType.CALLBACK,
        status=status,
        at=at,
        published_at=event.published_at,
        attempt=attempt.number,
        coordinates=job.coordinates,
        http_status=attempt.http_status,
        duration_ms=attempt.duration_ms,
        error_type=reason.error_type if reason else None,
        error_message=reason.message if reason else None,
    )
