"""Who leads: a member of the consumer group follows the topic's only partition.

Whoever holds it takes over the writing, and does the leader's duties for as long as it leads; one
of them is the line `control-leader/<instance>` in the table `instances`, by which others find it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from libs.common import log
from libs.common.errors import TemporaryError
from libs.common.partitions import CommittedOffset, Partition
from services.control.adapters.ledger import KafkaLedger

logger = log.get(__name__)

LEADER_SERVICE = "control-leader"
RETRY_S = 1.0


Duty = Callable[[], Awaitable[None]]
"""Runs until cancelled."""


class Leadership:
    """Listens to the group and lets the ledger lead or not; the duties run while it leads."""

    def __init__(self, ledger: KafkaLedger, duties: Mapping[str, Duty]) -> None:
        self._ledger = ledger
        self._duties = dict(duties)
        self._assigned = asyncio.Event()
        self._gone = asyncio.Event()

    async def assigned(
        self, partitions: Mapping[Partition, CommittedOffset]
    ) -> Mapping[Partition, int]:
        """Begins to lead, in `run`; the records themselves are read by the table."""
        self._gone.clear()
        self._assigned.set()
        known = self._ledger.position
        return {partition: max(found.low, known) for partition, found in partitions.items()}

    async def revoked(self, partitions: Sequence[Partition]) -> None:
        """Returns once nothing is written here any longer."""
        await self._stop(partitions)

    async def lost(self, partitions: Sequence[Partition]) -> None:
        """As `revoked`; whatever is under way is refused by Kafka once another member leads."""
        await self._stop(partitions)

    async def run(self) -> None:
        """Leads whenever the partition is here, until cancelled."""
        while True:
            await self._assigned.wait()
            try:
                await self._ledger.take_over()
            except TemporaryError as error:
                logger.warning("leadership.not_taken", detail=str(error))
                await asyncio.sleep(RETRY_S)
                continue
            if not self._assigned.is_set():
                await self._ledger.step_down()
            elif self._ledger.leads:
                await self._do_duties()

    async def _stop(self, partitions: Sequence[Partition]) -> None:
        if partitions:
            self._assigned.clear()
            self._gone.set()
            await self._ledger.step_down()

    async def _do_duties(self) -> None:
        """Runs the duties until the partition is gone."""
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(_forever(duty), name=name) for name, duty in self._duties.items()
            ]
            await self._gone.wait()
            for task in running:
                task.cancel()


async def _forever(duty: Duty) -> None:
    await duty()
