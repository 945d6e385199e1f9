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


_OWN: Final = (
    "x-event-id",
    "x-event-type",
    "x-pubsub-publisher-id",
    "x-pubsub-subscriber-id",
    "x-subscription-id",
    "x-meridian-uuid",
)
_NOT_TAKEN: Final = NOT_PROPAGATED | FIXED.keys() | set(_OWN)


def headers(event: SubscriptionEvent, head: EventHead) -> list[tuple[str, str]]:
    """The request's headers; a header with several values is repeated."""
    own = (
        head.id,
        head.type,
        event.publisher_id,
        event.subscriber_id,
        event.subscription_id,
        event.uuid,
    )
    propagated = [
        (name, value)
        for name, values in event.http_headers.items()
        if name not in _NOT_TAKEN
        for value in values
    ]
    return [*propagated, *FIXED.items(), *zip(_OWN, own, strict=True)]
