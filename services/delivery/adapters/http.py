"""Callbacks over HTTP: one pool for the process, no redirects, only permitted addresses.

The address that was checked is the address that is connected to: names are resolved by a resolver
that refuses, and what it returns is what the connection uses.
"""

import asyncio
import email.utils
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from multidict import CIMultiDict, istr
from yarl import URL

from libs.common import addresses
from libs.common.settings import IpNetwork
from services.delivery.domain.outcome import Answer, Answered, Refused, Unanswered
from services.delivery.settings import DeliverySettings

ANSWER_BYTES_MAX = 65_536
DNS_TTL_S = 10
URLS_REMEMBERED_MAX = 4_096
TIMEOUTS_REMEMBERED_MAX = 256
KEEP_ALIVE_S = 25.0
"""Below the idle timeout of common proxies."""


class AddressRefused(OSError):
    """The name leads to an address that callbacks may not go to."""


class CheckingResolver(AbstractResolver):
    """Resolves a name and refuses it when one of its addresses is not permitted."""

    def __init__(self, allowed: Sequence[IpNetwork]) -> None:
        self._allowed = allowed
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name; raises AddressRefused."""
        found = await self._resolver.resolve(host, port, family)
        for entry in found:
            reason = addresses.refusal(entry["host"], self._allowed)
            if reason is not None:
                raise AddressRefused(reason)
        return found

    async def close(self) -> None:
        """Nothing is held."""
        await self._resolver.close()


class CallbackRequest(aiohttp.ClientRequest):
    """A request without headers of the client's own choice."""

    DEFAULT_HEADERS: dict[istr, str] = {}  # noqa: RUF012 - as in the class above


class HttpCallbacks:
    """`Callbacks` by aiohttp."""

    def __init__(self, settings: DeliverySettings) -> None:
        self._target = lru_cache(URLS_REMEMBERED_MAX)(
            lambda url: _target(url, settings.allowed_callback_networks)
        )
        self._timeout = lru_cache(TIMEOUTS_REMEMBERED_MAX)(
            lambda total_s: aiohttp.ClientTimeout(
                total=total_s, connect=None, sock_connect=settings.connect_timeout_s
            )
        )
        connector = aiohttp.TCPConnector(
            limit=settings.connections_max,
            limit_per_host=0,
            ttl_dns_cache=DNS_TTL_S,
            keepalive_timeout=KEEP_ALIVE_S,
            resolver=CheckingResolver(settings.allowed_callback_networks),
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            request_class=CallbackRequest,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def post(
        self, url: str, *, body: bytes, headers: Sequence[tuple[str, str]], timeout_s: float
    ) -> Answer:
        """One request; whatever goes wrong is an answer."""
        try:
            target, refusal = self._target(url)
            if refusal is not None:
                return Refused(error_type="address_refused", message=refusal)
            async with self._session.post(
                target,
                data=body,
                headers=CIMultiDict(headers),
                allow_redirects=False,
                timeout=self._timeout(timeout_s),
            ) as response:
                await _read_and_drop(response)
                return Answered(
                    status=response.status,
                    retry_after_s=retry_after_s(response.headers.get("Retry-After")),
                )
        except AddressRefused as error:
            return Refused(error_type="address_refused", message=str(error))
        except aiohttp.InvalidURL as error:
            return Refused(error_type="invalid_callback_url", message=f"not a URL: {error}")
        except aiohttp.ClientConnectorDNSError as error:
            return _resolution_failed(error)
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            return _unanswered(error)


def _target(url: str, allowed: Sequence[IpNetwork]) -> tuple[URL, str | None]:
    """The URL, and why its host may not be called: known at once where that is an address."""
    target = URL(url)
    if target.host is None or not addresses.is_ip_literal(target.host):
        return target, None
    return target, addresses.refusal(target.host, allowed)


async def _read_and_drop(response: aiohttp.ClientResponse) -> None:
    """Reads at most 64 KiB; a longer answer costs its connection."""
    left = ANSWER_BYTES_MAX
    while left > 0:
        chunk = await response.content.read(left)
        if not chunk:
            return
        left -= len(chunk)
    response.close()


def retry_after_s(value: str | None) -> float | None:
    """The header as seconds from now; None without one or for one that cannot be read."""
    if value is None:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((aware - datetime.now(UTC)).total_seconds(), 0.0)


def _resolution_failed(error: aiohttp.ClientConnectorDNSError) -> Answer:
    if isinstance(error.os_error, AddressRefused):
        return Refused(error_type="address_refused", message=str(error.os_error))
    return Unanswered(error_type="name_not_resolved", message=str(error))


def _unanswered(error: Exception) -> Unanswered:
    """Why there was no complete answer, in the words of the status record."""
    kinds: list[tuple[type[BaseException], str]] = [
        (asyncio.TimeoutError, "timeout"),
        (aiohttp.ClientSSLError, "tls"),
        (ssl.SSLError, "tls"),
        (aiohttp.ClientConnectorError, "connect"),
        (aiohttp.ServerDisconnectedError, "disconnected"),
        (aiohttp.ClientPayloadError, "truncated_answer"),
    ]
    kind = next((name for cls, name in kinds if isinstance(error, cls)), "no_answer")
    return Unanswered(error_type=kind, message=str(error) or type(error).__name__)
