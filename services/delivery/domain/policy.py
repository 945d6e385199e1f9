"""A subscription's wishes over the platform's defaults. Pure."""

from libs.common.resources import Subscription
from services.delivery.domain.outcome import Policy


def policy_of(subscription: Subscription, default: Policy) -> Policy:
    """How this subscription's attempts are judged and repeated."""
    spec = subscription.spec
    wishes = spec.delivery
    own = spec.retryable_status_codes
    return Policy(
        attempts_max=wishes.retry.attempts or default.attempts_max,
        delay_s_min=default.delay_s_min,
        delay_s_max=default.delay_s_max,
        timeout_s=wishes.timeout_seconds or default.timeout_s,
        retryable_statuses=default.retryable_statuses if own is None else frozenset(own),
        retries_server_errors=wishes.retry.on5xx,
    )
