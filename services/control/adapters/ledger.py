"""The table `resources` on Kafka, with one writer.

The leader is the member of the group that holds the topic's only partition. It takes over the one
transactional id, which ends whatever a former leader left open and fences it, reads the table to
its end, and then stores one change after the other.
"""

import asyncio
import contextlib
from collections.abc import Mapping

from libs.common import clock, log, topics
from libs.common.errors import AckTimeout, FencedOut, NotReady, Overloaded
from libs.common.kafka.admin import TopicEnds
from libs.common.kafka.table import CompactedTable
from libs.common.kafka.transactions import OffsetMoved, OutRecord, TransactionalWriter
from libs.common.records import encode
from libs.common.resources import Resource
from libs.common.settings import KafkaSettings
from services.control import metrics
from services.control.domain.draft import Draft, Snapshot
from services.control.ports import Decide

logger = log.get(__name__)

TRANSACTIONAL_ID = "control-writer"
WAITING_MAX = 64
ATTEMPTS = 6
SETTLING_S = 0.02
VISIBLE_S = 10.0
TAKE_OVER_S = 30.0


class KafkaLedger:
    """Reads always, writes while it leads."""

    def __init__(
        self, kafka: KafkaSettings, table: CompactedTable[Resource], *, client_id: str
    ) -> None:
        self._kafka = kafka
        self._table = table
        self._ends = TopicEnds(kafka, client_id=client_id)
        self._writer: TransactionalWriter | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._written = 0
        self._fenced: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def rows(self) -> Mapping[str, Resource]:
        """The table as this replica knows it."""
        return self._table.rows

    @property
    def leads(self) -> bool:
        """True while this replica may write."""
        return self._writer is not None

    @property
    def position(self) -> int:
        """Everything below this offset is in `rows`."""
        return self._table.position

    def readiness(self) -> str | None:
        """None once the table has caught up."""
        return self._table.readiness()

    async def watch(self) -> None:
        """Runs until another replica has taken over the writing; raises FencedOut then."""
        await asyncio.shield(self._fenced)

    async def take_over(self) -> None:
        """Becomes the writer. Raises TemporaryError when that has to be tried again."""
        async with self._turn:
            writer = TransactionalWriter(self._kafka, transactional_id=TRANSACTIONAL_ID)
            try:
                await writer.start()
                await self._read_to_end()
            except BaseException:
                await writer.close()
                raise
            self._writer = writer
        metrics.LEADS.set(1)
        logger.info("leadership.taken", position=self._table.position)

    async def _read_to_end(self) -> None:
        try:
            async with asyncio.timeout(TAKE_OVER_S):
                await self._table.reached(await self._ends.of(topics.RESOURCES, 0))
        except TimeoutError:
            raise NotReady("the table was not read to its end in time") from None

    async def step_down(self) -> None:
        """Stops writing, after the change under way."""
        async with self._turn:
            writer, self._writer = self._writer, None
        metrics.LEADS.set(0)
        if writer is not None:
            await writer.close()
            logger.info("leadership.given_up")

    async def change(self, decide: Decide) -> Draft:
        """See the port."""
        if self._waiting >= WAITING_MAX:
            raise Overloaded(f"{WAITING_MAX} changes wait already; nothing was stored.")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._change(decide)
        except FencedOut as error:
            if not self._fenced.done():
                self._fenced.set_exception(error)
            raise
        finally:
            self._waiting -= 1

    async def _change(self, decide: Decide) -> Draft:
        for attempt in range(ATTEMPTS):
            if self._writer is None:
                raise NotReady("This replica does not lead; nothing was stored.", delay_s=1.0)
            if not await self._sees(self._written):
                raise NotReady("The table lags behind; nothing was stored.", delay_s=1.0)
            snapshot = Snapshot(
                rows=self._table.rows,
                next_offset=await self._ends.of(topics.RESOURCES, 0),
                now=clock.utc_now(),
            )
            draft = decide(snapshot)
            if not draft.writes:
                return draft
            if await self._stored(self._writer, draft):
                return draft
            # The marker that ends a transaction is written a little after its abort was answered.
            await asyncio.sleep(SETTLING_S * 2**attempt)
        raise NotReady("The table's end moves; nothing was stored.", delay_s=1.0)

    async def _stored(self, writer: TransactionalWriter, draft: Draft) -> bool:
        """False when the end had moved, so that the versions in the draft would be wrong."""
        records = [
            OutRecord(
                topics.RESOURCES,
                key.encode(),
                None if resource is None else encode(resource),
                0,
            )
            for key, resource in draft.writes.items()
        ]
        with metrics.STORE_SECONDS.time():
            try:
                await writer.commit(records, first_offset=draft.snapshot.next_offset)
            except OffsetMoved as error:
                logger.warning("change.moved", detail=str(error))
                return False
            self._written = draft.end
            if not await self._sees(draft.end):
                raise AckTimeout("The change is stored but cannot be read back yet; send it again.")
        logger.info("change.stored", records=len(records), position=draft.end)
        return True

    async def _sees(self, position: int) -> bool:
        """Waits until the table has everything below the position; False after too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(VISIBLE_S):
                while self._table.position < position:
                    await self._table.moved()
        return self._table.position >= position
