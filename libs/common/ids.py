"""Identifiers: distinct types for distinct ids, and the functions that make them."""

import hashlib
import secrets
import time
import uuid
from typing import NewType

SubscriptionId = NewType("SubscriptionId", str)
LaneId = NewType("LaneId", str)
ClientId = NewType("ClientId", str)


def subscription_id(*, environment: str, event_type: str, subscriber_id: str) -> SubscriptionId:
    """SHA-1 hex of `environment--eventType--subscriberId`, as Horizon's control plane has it."""
    name = f"{environment}--{event_type}--{subscriber_id}"
    return SubscriptionId(hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest())


def subscription_event_uuid(published_uuid: str, subscription: str) -> str:
    """UUID version 5 of published uuid and subscription id: a repeated step gives the same uuid."""
    return str(uuid.uuid5(uuid.UUID(published_uuid), subscription))


def uuid7() -> str:
    """A new time-ordered UUID, version 7 (RFC 9562)."""
    moment_ms = time.time_ns() // 1_000_000
    value = (moment_ms & 0xFFFF_FFFF_FFFF) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))
