"""Circuits and subscriptions to start from."""

from typing import Any

from libs.common.records import Circuit, CircuitStatus, Probe
from libs.common.resources import Placement, Subscription, SubscriptionSpec

ENVIRONMENT = "integration"
NOW = "2026-11-20T10:00:00.000Z"
URL = "https://billing.example/in"


def circuit(subscription_id: str, **fields: Any) -> Circuit:
    given: dict[str, Any] = {
        "lane_id": subscription_id,
        "subscription_id": subscription_id,
        "environment": ENVIRONMENT,
        "event_type": "orders.v1",
        "status": CircuitStatus.OPEN,
        "epoch": 1,
        "last_modified": NOW,
        "last_opened": NOW,
    }
    return Circuit(**{**given, **fields})


def probe(at: str = NOW, *, url: str = URL, method: str = "HEAD", status: int = 503) -> Probe:
    return Probe(at=at, method=method, url=url, status=status)


def subscription(subscription_id: str, subscriber: str) -> Subscription:
    return Subscription(
        id=subscription_id,
        environment=ENVIRONMENT,
        version=1,
        incarnation=1,
        placements=(Placement(after=-1),),
        spec=SubscriptionSpec(
            subscription_id=subscription_id,
            subscriber_id=subscriber,
            publisher_id="eni--orders--shop",
            type="orders.v1",
            delivery_type="callback",
            callback=URL,
        ),
    )
