"""All streams of this process: who may open one, and what they have to be told."""

import asyncio
import contextlib
from collections import defaultdict

from libs.common import log
from libs.common.errors import (
    NotAStream,
    NotReady,
    NotTheSubscriber,
    Overloaded,
    UnknownSubscription,
)
from libs.common.ids import LaneId, SubscriptionId
from libs.common.records import DeliveryType, StreamRecord
from libs.common.resources import Subscription
from services.sse import metrics
from services.sse.domain.places import places_of
from services.sse.ports import Outlet
from services.sse.service.queue import Budget
from services.sse.service.stream import Ending, Outside, Stream, Wishes
from services.sse.settings import SseSettings

logger = log.get(__name__)

RETRY_S = 5.0


class Streams:
    """The streams that are open here. All state belongs to the event loop."""

    def __init__(self, settings: SseSettings, outside: Outside) -> None:
        self._settings = settings
        self._outside = outside
        self._budget = Budget(settings.queued_bytes_max)
        self._open: dict[LaneId, set[Stream]] = defaultdict(set)
        self._number = 0
        self._is_stopping = False
        self._closed = asyncio.Event()

    def subscription(
        self, subscription_id: SubscriptionId, *, environment: str, client_id: str
    ) -> Subscription:
        """The subscription if the client may read its stream.

        Raises UnknownSubscription, NotTheSubscriber, NotAStream.
        """
        found = self._outside.subscriptions.get(subscription_id)
        if found is None or found.environment != environment:
            raise UnknownSubscription(subscription_id=subscription_id, environment=environment)
        if found.spec.subscriber_id != client_id:
            raise NotTheSubscriber(client_id=client_id, subscription_id=subscription_id)
        if found.delivery_type is not DeliveryType.SERVER_SENT_EVENT:
            raise NotAStream(subscription_id=subscription_id)
        return found

    async def run(
        self, subscription: Subscription, wishes: Wishes, outlet: Outlet, *, connection_id: str
    ) -> Ending:
        """Streams to one consumer until something ends it.

        Raises Overloaded, NotReady, KafkaUnavailable before anything is sent.
        """
        stream = self._admitted(subscription, wishes, connection_id)
        self._open[stream.lane_id].add(stream)
        self._count(1)
        outlet.on_gone(lambda: stream.end(Ending.DISCONNECTED))
        try:
            ending = await stream.run(outlet)
        finally:
            self._open[stream.lane_id].discard(stream)
            if not self._open[stream.lane_id]:
                del self._open[stream.lane_id]
            self._count(-1)
            self._closed.set()
        metrics.ended.labels(ending).inc()
        return ending

    async def terminate(self, subscription: Subscription) -> None:
        """Ends the stream of a subscription, in whatever process. Raises KafkaUnavailable."""
        places = places_of(subscription, partitions=self._outside.partitions)
        await self._outside.log.claim(next(iter(places)), connection_id=None)

    def claim_read(self, key: str, record: StreamRecord | None, offset: int) -> None:
        """A record of the topic `streams`."""
        try:
            lane_id = self._outside.claims.apply(key, record, offset)
        except ValueError:
            logger.warning("streams.key_broken", key=key)
            return
        for stream in tuple(self._open.get(lane_id, ())):
            stream.claims_changed()

    def subscription_read(self, subscription_id: str) -> None:
        """A subscription was written or deleted."""
        for stream in tuple(self._open.get(LaneId(subscription_id), ())):
            stream.subscription_changed()

    async def checkpoint_forever(self) -> None:
        """Notes how far the streams have come, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.checkpoint_interval_s)
            for streams in tuple(self._open.values()):
                for stream in streams:
                    # A full queue towards Kafka takes the next checkpoint.
                    with contextlib.suppress(Overloaded):
                        stream.checkpoint()

    async def drain(self) -> None:
        """Ends all streams and waits until each has left its last word."""
        self._is_stopping = True
        for streams in tuple(self._open.values()):
            for stream in streams:
                stream.end(Ending.STOPPING)
        while self._number:
            self._closed.clear()
            await self._closed.wait()

    def _admitted(self, subscription: Subscription, wishes: Wishes, connection_id: str) -> Stream:
        if self._is_stopping:
            raise NotReady("This process shuts down; connect again.")
        if self._number >= self._settings.streams_max:
            raise Overloaded(
                f"There are {self._number} streams already, which is the most.", delay_s=RETRY_S
            )
        return Stream(
            subscription,
            wishes,
            connection_id=connection_id,
            outside=self._outside,
            settings=self._settings,
            budget=self._budget,
        )

    def _count(self, number: int) -> None:
        self._number += number
        metrics.open_streams.set(self._number)
