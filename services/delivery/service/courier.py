"""Makes callbacks: attempt, judge, record, repeat or settle.

An event is settled once its final status is on Kafka. What waits for its next attempt occupies no
connection and no place among the lane's concurrent attempts.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import assert_never

from libs.common import clock, log, topics
from libs.common.ids import LaneId
from libs.common.records import Status
from libs.common.resources import Subscription
from services.delivery import metrics
from services.delivery.domain import outcome, request
from services.delivery.domain.lane import Job, Lane
from services.delivery.domain.outcome import (
    Answer,
    Answered,
    Delivered,
    Policy,
    Refused,
    Reject,
    Retry,
)
from services.delivery.domain.policy import policy_of
from services.delivery.domain.status import Attempt, Reason, attempt_of, status_change
from services.delivery.ports import Callbacks, StatusLog, Subscriptions
from services.delivery.service.owned import Owned
from services.delivery.settings import DeliverySettings

logger = log.get(__name__)

NO_ATTEMPT = Attempt()

STATUS_S_MAX = 3.0

OnSettled = Callable[[], None]


class Courier:
    """Delivers the events of all lanes of this process."""

    def __init__(
        self,
        settings: DeliverySettings,
        *,
        callbacks: Callbacks,
        status_log: StatusLog,
        subscriptions: Subscriptions,
        on_settled: OnSettled,
    ) -> None:
        self._settings = settings
        self._callbacks = callbacks
        self._status_log = status_log
        self._subscriptions = subscriptions
        self._on_settled = on_settled
        self._tasks: asyncio.TaskGroup | None = None
        self._default = Policy(
            attempts_max=settings.attempts_max,
            timeout_s=settings.timeout_s,
            delay_s_min=settings.retry_delay_s_min,
            delay_s_max=settings.retry_delay_s_max,
        )
        self.unsettled_bytes = 0
        self._posting = 0
        metrics.unsettled_bytes.set_function(lambda: self.unsettled_bytes)
        metrics.in_flight.set_function(lambda: self._posting)
        self.is_held = False
        """No attempt begins: what it brings about could not be saved now."""

    async def run(self) -> None:
        """Carries the attempts until cancelled; an unforeseen failure of one ends the process."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            await asyncio.Event().wait()

    def has_room(self, owned: Owned, lane_id: LaneId) -> bool:
        """True while the lane and the process are below their bounds."""
        lane = owned.lanes.get(lane_id)
        is_lane_full = lane is not None and lane.unsettled >= self._settings.lane_records_max
        return not is_lane_full and self.unsettled_bytes < self._settings.unsettled_bytes_max

    def submit(self, owned: Owned, job: Job) -> None:
        """Takes over an event; `has_room` was asked before."""
        lane = owned.lanes.get(job.lane_id)
        if lane is None:
            lane = owned.lanes[job.lane_id] = Lane(job.lane_id)
            metrics.lanes.inc()
        lane.add(job)
        self.unsettled_bytes += job.size_bytes
        self._pump(owned, lane)

    def go_on(self, owned: Iterable[Owned]) -> None:
        """Ends a hold."""
        self.is_held = False
        for one in owned:
            for lane in list(one.lanes.values()):
                self._pump(one, lane)

    async def release(self, owned: Iterable[Owned], *, wait_s: float) -> None:
        """Starts nothing more in the partitions and waits for what is in flight.

        What does not end in `wait_s` is aborted. Returns when final statuses are on Kafka, or after
        a bounded wait for that.
        """
        partitions = list(owned)
        for one in partitions:
            one.is_closing = True
            for timer in one.timers.values():
                timer.cancel()
        attempts = [task for one in partitions for task in one.attempts]
        if attempts:
            _, late = await asyncio.wait(attempts, timeout=wait_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for one in partitions:
            await self._statuses_stored(one)
            self._forget(one)

    def abandon(self, owned: Owned) -> None:
        """Aborts everything at once: the partition may belong to another process already."""
        owned.is_closing = True
        for timer in owned.timers.values():
            timer.cancel()
        for task in owned.attempts:
            task.cancel()
        self._forget(owned)

    def _forget(self, owned: Owned) -> None:
        unsettled = [job for lane in owned.lanes.values() for job in lane.ready]
        self.unsettled_bytes -= sum(job.size_bytes for job in (*unsettled, *owned.timers))
        metrics.lanes.dec(len(owned.lanes))
        owned.timers.clear()
        owned.lanes.clear()

    @staticmethod
    async def _statuses_stored(owned: Owned) -> None:
        deadline_s = time.monotonic() + STATUS_S_MAX
        while owned.unstored and (left_s := deadline_s - time.monotonic()) > 0:
            owned.calm.clear()
            try:
                await asyncio.wait_for(owned.calm.wait(), left_s)
            except TimeoutError:
                return

    def _pump(self, owned: Owned, lane: Lane) -> None:
        """Starts as many attempts of the lane as may be under way."""
        if owned.is_closing or self.is_held or self._tasks is None or not lane.ready:
            return
        concurrency = self._concurrency(lane.ready[0].event.subscription_id)
        while (job := lane.take(concurrency=concurrency, now_s=time.monotonic())) is not None:
            task = self._tasks.create_task(self._attempt(owned, lane, job), name="attempt")
            owned.attempts.add(task)
            task.add_done_callback(owned.attempts.discard)

    def _concurrency(self, subscription_id: str) -> int:
        subscription = self._subscriptions.get(subscription_id)
        wished = subscription.spec.delivery.concurrency if subscription else None
        return wished or self._settings.concurrency

    async def _attempt(self, owned: Owned, lane: Lane, job: Job) -> None:
        """Makes one attempt, carries out what it means and starts what may follow."""
        try:
            await self._attempt_once(owned, lane, job)
        except asyncio.CancelledError:
            self.unsettled_bytes -= job.size_bytes
            raise
        lane.in_flight -= 1
        self._pump(owned, lane)

    async def _attempt_once(self, owned: Owned, lane: Lane, job: Job) -> None:
        subscription = await self._subscription(job)
        if subscription is None:
            gone = Reason("subscription_deleted", "the subscription does not exist any more")
            self._finish(owned, job, Status.FAILED, NO_ATTEMPT, gone)
            return
        policy = policy_of(subscription, self._default)
        if self._is_expired(job, policy):
            late = Reason("expired", "its retention would end before the attempt does")
            self._finish(owned, job, Status.EXPIRED, NO_ATTEMPT, late)
            return
        job.attempts += 1
        began_s = time.monotonic()
        answer = await self._post(job, subscription, policy)
        attempt = attempt_of(answer, number=job.attempts, duration_s=time.monotonic() - began_s)
        verdict = outcome.classify(answer, policy, attempt=job.attempts)
        self._carry_out(owned, lane, job, attempt, verdict)

    async def _subscription(self, job: Job) -> Subscription | None:
        """The subscription that the event was written for, as it is now."""
        version = job.event.subscription_version
        found = self._subscriptions.get(job.event.subscription_id)
        if found is None or found.incarnation < version:
            await self._subscriptions.known_since(version)
            found = self._subscriptions.get(job.event.subscription_id)
        return found if found is not None and found.incarnation == version else None

    @staticmethod
    def _is_expired(job: Job, policy: Policy) -> bool:
        return outcome.is_expired(
            now_s=time.time(),
            timeout_s=policy.timeout_s,
            published_at_s=job.published_at_s,
            retention_s=topics.RETENTION_S[job.event.event_retention_time],
        )

    async def _post(self, job: Job, subscription: Subscription, policy: Policy) -> Answer:
        url = subscription.spec.callback
        if not url:
            return Refused(error_type="no_callback_url", message="the subscription has no callback")
        self._posting += 1
        try:
            answer = await self._callbacks.post(
                url,
                body=bytes(job.event.event),
                headers=request.headers(job.event, job.head),
                timeout_s=policy.timeout_s,
            )
        finally:
            self._posting -= 1
        metrics.callbacks_of(str(answer.status) if isinstance(answer, Answered) else "none").inc()
        return answer

    def _carry_out(
        self, owned: Owned, lane: Lane, job: Job, attempt: Attempt, verdict: outcome.Verdict
    ) -> None:
        match verdict:
            case Delivered():
                metrics.end_to_end_seconds.observe(max(time.time() - job.published_at_s, 0.0))
                self._finish(owned, job, Status.DELIVERED, attempt)
            case Reject():
                reason = Reason(verdict.error_type, verdict.message)
                self._finish(owned, job, Status.FAILED, attempt, reason)
            case Retry():
                self._retry_later(owned, lane, job, attempt, verdict)
            case _:
                assert_never(verdict)

    def _retry_later(
        self, owned: Owned, lane: Lane, job: Job, attempt: Attempt, verdict: Retry
    ) -> None:
        metrics.retries.inc()
        if job.attempts == 1:
            reason = Reason(verdict.error_type, verdict.message)
            self._record(job, Status.DELIVERING, attempt, reason, on_stored=_nothing)
        if verdict.slows_lane:
            lane.slow_down(time.monotonic() + verdict.delay_s)
        if owned.is_closing:
            self.unsettled_bytes -= job.size_bytes
            return
        loop = asyncio.get_running_loop()
        owned.timers[job] = loop.call_later(verdict.delay_s, self._retry_due, owned, lane, job)

    def _retry_due(self, owned: Owned, lane: Lane, job: Job) -> None:
        del owned.timers[job]
        lane.ready.append(job)
        wait_s = lane.not_before_s - time.monotonic()
        if wait_s > 0:
            asyncio.get_running_loop().call_later(wait_s, self._pump, owned, lane)
        self._pump(owned, lane)

    def _finish(
        self, owned: Owned, job: Job, status: Status, attempt: Attempt, reason: Reason | None = None
    ) -> None:
        """Records a final status; the event is settled once that is stored."""
        owned.unstored += 1
        metrics.settled_of(status).inc()
        if reason is not None:
            logger.info(
                "event.not_delivered",
                status=status,
                uuid=job.event.uuid,
                event_id=job.head.id,
                subscription=job.event.subscription_id,
                attempt=attempt.number,
                error_type=reason.error_type,
                detail=reason.message,
            )
        self._record(job, status, attempt, reason, on_stored=partial(self._settled, owned, job))

    def _record(
        self,
        job: Job,
        status: Status,
        attempt: Attempt,
        reason: Reason | None,
        *,
        on_stored: Callable[[], None],
    ) -> None:
        change = status_change(
            job,
            status=status,
            at=clock.to_text(clock.utc_now()),
            attempt=attempt,
            reason=reason,
        )
        self._status_log.record(change, on_stored=on_stored)

    def _settled(self, owned: Owned, job: Job) -> None:
        owned.unstored -= 1
        owned.progress.settle(job.coordinates.offset)
        self.unsettled_bytes -= job.size_bytes
        lane = owned.lanes.get(job.lane_id)
        if lane is not None:
            lane.unsettled -= 1
            if lane.unsettled == 0:
                del owned.lanes[job.lane_id]
                metrics.lanes.dec()
        owned.calm.set()
        self._on_settled()


def _nothing() -> None:
    """A status that is not final settles nothing."""
