"""Host names to addresses, by the system's resolver, in threads of its own and in bounded time."""

import asyncio
import socket
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from libs.common.addresses import is_ip_literal
from services.control.domain.callbacks import Resolution, Unresolved

THREADS = 8
HOST_S = 3.0
ALL_S = 10.0


class SystemNameService:
    """Looks names up as every program on this machine does."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="names")
        self._free = asyncio.Semaphore(THREADS)

    async def resolve(self, hosts: Iterable[str]) -> Mapping[str, Resolution]:
        """See the port."""
        found: dict[str, Resolution] = {}
        asked = set(hosts)
        try:
            async with asyncio.timeout(ALL_S), asyncio.TaskGroup() as group:
                for host in asked:
                    group.create_task(self._resolve_into(found, host), name=f"resolve {host}")
        except TimeoutError:
            pass
        late = Unresolved(f"the name service did not answer within {ALL_S:g} s")
        return {host: found.get(host, late) for host in asked}

    def close(self) -> None:
        """Ends the threads; a lookup under way is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _resolve_into(self, found: dict[str, Resolution], host: str) -> None:
        if is_ip_literal(host):
            found[host] = (host,)
            return
        async with self._free:
            found[host] = await self._look_up(host)

    async def _look_up(self, host: str) -> Resolution:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(HOST_S):
                return await loop.run_in_executor(self._threads, _addresses, host)
        except TimeoutError:
            return Unresolved(f"the name service did not answer within {HOST_S:g} s")
        except (OSError, UnicodeError) as error:
            return Unresolved(getattr(error, "strerror", None) or "not a valid name")


def _addresses(host: str) -> tuple[str, ...]:
    answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(sorted({str(address[0]) for *_, address in answers}))
