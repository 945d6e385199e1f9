"""Passes a change on to the replica that leads, as the caller sent it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpx

from libs.common.errors import AckTimeout, NotReady
from services.control import metrics
from services.control.adapters.fleet import KafkaFleet

FORWARDED: Final = "x-meridian-forwarded"
"""Says that a replica has passed the request on; such a request is not passed on again."""

CONNECT_S: Final = 2.0
ANSWER_S: Final = 60.0

_SENT: Final = ("authorization", "content-type", "if-match", "accept")
_RETURNED: Final = ("content-type", "etag", "retry-after", "www-authenticate", "location")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the leader answered; `headers` are those that belong to the caller."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Forwarder:
    """Knows the leader's address and asks it."""

    def __init__(self, client: httpx.AsyncClient, fleet: KafkaFleet, *, own_address: str) -> None:
        self._client = client
        self._fleet = fleet
        self._own_address = own_address

    async def forward(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """Asks the leader; `target` is path and query, `headers` have names in lower case.

        Raises NotReady when nobody leads (nothing was stored), AckTimeout when the leader did not
        answer after the request was sent.
        """
        leader = self._fleet.leader_address()
        if leader is None or leader == self._own_address or FORWARDED in headers:
            raise NotReady(
                "No replica leads at the moment, so nothing was stored; one takes over within "
                "seconds.",
                delay_s=2.0,
            )
        sent = {name: headers[name] for name in _SENT if name in headers}
        metrics.FORWARDED.inc()
        try:
            response = await self._client.request(
                method,
                leader + target,
                content=body,
                headers={**sent, FORWARDED: self._own_address},
                timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotReady(
                "The leading replica cannot be reached; nothing was stored.", delay_s=2.0
            ) from error
        except httpx.HTTPError as error:
            raise AckTimeout(
                "The leading replica did not answer; the change may be stored. Send it again."
            ) from error
        returned = {name: response.headers[name] for name in _RETURNED if name in response.headers}
        return Answer(status=response.status_code, headers=returned, body=response.content)
