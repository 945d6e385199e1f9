"""The live processes, as the table `instances` has them."""

import asyncio
import contextlib
from collections.abc import Mapping

from libs.common import clock
from libs.common.clock import Clock
from libs.common.errors import NotAppliedYet
from libs.common.instances import is_live
from libs.common.kafka.table import CompactedTable
from libs.common.records import Instance
from services.control.adapters.leadership import LEADER_SERVICE

LOOK_AGAIN_S = 1.0
NAMED_MAX = 10


class KafkaFleet:
    """Answers from the table; nothing is asked of the processes themselves."""

    def __init__(
        self,
        table: CompactedTable[Instance],
        *,
        timeout_s: float,
        now: Clock = clock.utc_now,
    ) -> None:
        self._table = table
        self._timeout_s = timeout_s
        self._now = now

    def leader_address(self) -> str | None:
        """URL of the replica that said last that it leads; None when none is live."""
        leaders = self._live(f"{LEADER_SERVICE}/").values()
        newest = max(leaders, key=lambda instance: instance.at, default=None)
        return None if newest is None else newest.address

    def readiness(self) -> str | None:
        """None when the table has caught up and a replica leads."""
        missing = self._table.readiness()
        if missing is None and self.leader_address() is None:
            return "no replica leads"
        return missing

    async def applied(self, offset: int) -> None:
        """See the port."""
        try:
            async with asyncio.timeout(self._timeout_s):
                while self._laggards(offset):
                    await self._moved()
        except TimeoutError:
            lagging = self._laggards(offset)
            raise NotAppliedYet(
                f"The change is stored, but {len(lagging)} processes have not applied it within "
                f"{self._timeout_s:g} s: {', '.join(lagging[:NAMED_MAX])}. It takes effect there "
                "as soon as they do."
            ) from None

    async def _moved(self) -> None:
        """Returns at the next line, or after a moment: a process may have fallen silent."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN_S):
                await self._table.moved()

    def _laggards(self, offset: int) -> list[str]:
        """Processes by their own lines; that of a leader that died would stand still."""
        return sorted(
            key
            for key, instance in self._live("").items()
            if instance.resources_offset < offset and not key.startswith(f"{LEADER_SERVICE}/")
        )

    def _live(self, prefix: str) -> Mapping[str, Instance]:
        now = self._now()
        return {
            key: instance
            for key, instance in self._table.rows.items()
            if key.startswith(prefix) and is_live(instance, now)
        }
