"""The callback request of one subscription event. Pure.

Header names are Horizon's. What the publisher sent travels along, except headers that concern one
connection only and those that the platform sets itself.
"""

from typing import Final

from libs.common.records import EventHead, SubscriptionEvent

FIXED: Final = {
    "content-type": "application/json",
    "accept": "application/json",
    "accept-charset": "utf-8",
    "user-agent": "meridian",
}

NOT_PROPAGATED: Final = frozenset(
    {
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def headers(event: SubscriptionEvent, head: EventHead) -> list[tuple[str, str]]:
    """The request's headers; a header with several values is repeated."""
    own = {
        **FIXED,
        "x-event-id": head.id,
        "x-event-type": head.type,
        "x-pubsub-publisher-id": event.publisher_id,
        "x-pubsub-subscriber-id": event.subscriber_id,
        "x-subscription-id": event.subscription_id,
        "x-meridian-uuid": event.uuid,
    }
    propagated = [
        (name, value)
        for name, values in event.http_headers.items()
        for value in values
        if name not in NOT_PROPAGATED and name not in own
    ]
    return [*propagated, *own.items()]
