"""A consumer of a stream that connects again whenever its stream ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp

from libs.common import ids
from tests.e2e.traffic import Platform, Receiver, subscriber_rover

RETRY_S = 0.1
NO_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=60.0)


@contextlib.asynccontextmanager
async def reading(
    platform: Platform, receiver: Receiver, *, name: str, event_type: str
) -> AsyncIterator[None]:
    """Subscribes `name` to a type and reads its stream, which counts at the receiver's `/name`."""
    application = f"{event_type.split('.')[1]}-{name}"
    await platform.apply(application, subscriber_rover(application, event_type))
    client_id = f"eni--tests--{application}"
    subscription = ids.subscription_id(
        environment=platform.endpoints.environment, event_type=event_type, subscriber_id=client_id
    )
    url = f"{platform.endpoints.sse}/v1/{platform.endpoints.environment}/sse/{subscription}"
    headers = {
        "Authorization": f"Bearer {await platform.token(client_id)}",
        "Accept": "text/event-stream",
    }

    async def read_forever() -> None:
        async with aiohttp.ClientSession(timeout=NO_TIMEOUT) as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    await read(session)
                await asyncio.sleep(RETRY_S)

    async def read(session: aiohttp.ClientSession) -> None:
        async with session.get(url, headers=headers) as answer:
            uuid = ""
            async for line in answer.content:
                if line.startswith(b"id: "):
                    uuid = line[4:].strip().decode()
                elif line.startswith(b"data: "):
                    receiver.note(f"/{name}", line[6:], uuid)

    reader = asyncio.ensure_future(read_forever())
    try:
        yield
    finally:
        reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reader
