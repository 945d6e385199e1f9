"""The publish service's event log in memory."""

import asyncio

from libs.common.errors import TooLarge
from libs.common.topics import RECORD_BYTES_MAX


class MemoryEventLog:
    """Keeps what is appended; can be told to fail, or to hold its acknowledgements back."""

    def __init__(self) -> None:
        self.records: list[tuple[str, bytes]] = []
        self.failure: Exception | None = None
        self.acknowledging = asyncio.Event()
        self.acknowledging.set()
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        """The keys of all appends, at their begin."""

    async def append(self, key: str, record: bytes) -> None:
        """Stores the record once `acknowledging` is set; raises `failure` when there is one."""
        if self.failure is not None:
            raise self.failure
        if len(record) > RECORD_BYTES_MAX:
            raise TooLarge(f"the record has {len(record)} bytes")
        self.begun.put_nowait(key)
        await self.acknowledging.wait()
        self.records.append((key, record))
