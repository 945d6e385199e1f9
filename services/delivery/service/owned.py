"""A partition that this process owns, and what is under way in it."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from libs.common.ids import LaneId
from libs.common.partitions import ConsumedRecord, Partition
from services.delivery.domain.lane import Job, Lane
from services.delivery.domain.progress import Progress


@dataclass(slots=True, eq=False)
class Owned:
    """All state belongs to the event loop and is dropped with the partition."""

    partition: Partition
    topic: str
    """Without prefix."""
    progress: Progress
    lanes: dict[LaneId, Lane] = field(default_factory=dict)
    backlog: deque[ConsumedRecord] = field(default_factory=deque)
    """Records read but not admitted, because a lane or the process is full."""
    attempts: set[asyncio.Task[None]] = field(default_factory=set)
    timers: dict[Job, asyncio.TimerHandle] = field(default_factory=dict)
    """Events that wait for their next attempt."""
    unstored: int = 0
    """Final statuses that Kafka has not acknowledged."""
    is_paused: bool = False
    is_closing: bool = False
    """Nothing new begins."""
    calm: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever a final status was stored."""
