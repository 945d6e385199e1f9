"""Speaks to a running platform: tokens, resources, events. All errors are one clear sentence."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import msgspec

from deploy.local import invocation
from deploy.local.endpoints import Endpoints
from deploy.local.programs import ADMIN_CLIENT
from libs.cli import output, streams
from libs.cli.errors import CommandFailed
from libs.cli.rover import Rover
from libs.cli.streams import Asked, Stream
from libs.common.resources import Resource

TIMEOUT_S: Final = 30.0
APPLY_TIMEOUT_S: Final = 60.0
PAGE: Final = 500
"""Resources that are asked for at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the producer said to an event that it stored."""

    status: int
    """201, or 202 when nobody is subscribed."""
    body: bytes


class _Page(msgspec.Struct):
    """A piece of a list."""

    items: list[Resource]
    next: str | None


@dataclass(frozen=True, slots=True)
class Platform:
    """A running platform. Every method raises CommandFailed when it cannot be done."""

    endpoints: Endpoints
    http: httpx.Client = field(
        default_factory=lambda: httpx.Client(timeout=TIMEOUT_S, trust_env=False)
    )
    home: Path | None = None
    """Where it was found, for hints."""

    def command(self, *words: str) -> str:
        """A command line for this platform that can be typed."""
        return invocation.command(*words, home=self.home)

    def token(self, client_id: str, *, realm: str) -> str:
        """A new access token of a client in a realm."""
        answer = self._send(
            self.http.build_request(
                "POST",
                self.endpoints.token_endpoint_of(realm),
                data={
                    "grant_type": "client_credentials",
                    "client_id": client_id,
                    "client_secret": self.endpoints.client_secret,
                },
            )
        )
        if answer.status_code != 200:
            raise CommandFailed(
                f"The issuer gives no token for {client_id} in realm {realm}: "
                f"{output.problem(answer.status_code, answer.content)}"
            )
        return str(answer.json()["access_token"])

    def apply(self, rover: Rover, *, client_id: str = ADMIN_CLIENT) -> dict[str, Any]:
        """Applies a Rover and waits until every service goes by it; control's answer."""
        environment = self.endpoints.environment
        answer = self._send(
            self.http.build_request(
                "PUT",
                f"{self.endpoints.control}/v1/{environment}/rovers/{quote(rover.name, safe='')}",
                params={"wait": "applied"},
                content=rover.body,
                headers={**self._authorized(client_id), "Content-Type": "application/yaml"},
                timeout=APPLY_TIMEOUT_S,
            )
        )
        if not answer.is_success:
            raise CommandFailed(
                f"{rover.name} was not applied: "
                f"{output.problem(answer.status_code, answer.content)}"
            )
        applied: dict[str, Any] = answer.json()
        return applied

    def publisher_of(self, event_type: str) -> str:
        """The client id that exposes an event type."""
        found = self._resource("exposures", event_type)
        if found is None:
            raise CommandFailed(
                f"Nobody exposes {event_type} in {self.endpoints.environment}: check its spelling, "
                f"apply a Rover file that exposes it ('{self.command('apply', '-f', 'FILE')}'), or "
                "say with --as which client publishes."
            )
        return str(found.spec["publisherId"])

    def find_stream(self, event_type: str, *, client_id: str | None) -> Stream:
        """The stream of an event type, of the client if one is named."""
        asked = Asked(
            event_type=event_type,
            environment=self.endpoints.environment,
            client_id=client_id,
            command=self.command,
        )
        is_exposed = self._resource("exposures", event_type) is not None
        return streams.choose(asked, list(self._subscriptions()), is_exposed=is_exposed)

    def stream(self, subscription_id: str) -> Stream | None:
        """The stream of a subscription as it is now; None for one that does not exist."""
        found = self._resource("subscriptions", subscription_id)
        return None if found is None else streams.stream_of(found)

    def streams_url(self) -> str:
        """Base URL of the stream service."""
        if self.endpoints.sse is None:
            down, up = self.command("down"), self.command("up")
            raise CommandFailed(
                "This platform was started without the service for streams: stop and start it "
                f"again with '{down}' and '{up}'."
            )
        return self.endpoints.sse

    def url_of(self, stream: Stream) -> str:
        """Where a stream is read."""
        return f"{self.streams_url()}{stream.path}"

    def publish(self, event: dict[str, Any], *, client_id: str) -> Answer:
        """Publishes one event in the platform's environment."""
        answer = self._send(
            self.http.build_request(
                "POST",
                f"{self.endpoints.publish}/v1/{self.endpoints.environment}/events",
                json=event,
                headers=self._authorized(client_id),
            )
        )
        if answer.status_code not in (201, 202):
            raise CommandFailed(
                f"The event was not stored: {output.problem(answer.status_code, answer.content)}"
                if answer.status_code != 504
                else "Kafka did not answer in time, so whether the event is stored is unknown: "
                f"publish it again with --id {event['id']}."
            )
        return Answer(status=answer.status_code, body=answer.content)

    def _subscriptions(self) -> Iterator[Resource]:
        """All subscriptions of the environment, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            params = {"limit": str(PAGE), **({"cursor": cursor} if cursor else {})}
            answer = self._get("subscriptions", params)
            if not answer.is_success:
                raise CommandFailed(output.problem(answer.status_code, answer.content))
            page = msgspec.json.decode(answer.content, type=_Page)
            yield from page.items
            cursor = page.next

    def _resource(self, collection: str, resource_id: str) -> Resource | None:
        """One resource; None for one that does not exist."""
        answer = self._get(f"{collection}/{quote(resource_id, safe='')}")
        if answer.status_code == 404:
            return None
        if not answer.is_success:
            raise CommandFailed(output.problem(answer.status_code, answer.content))
        return msgspec.json.decode(answer.content, type=Resource)

    def _get(self, path: str, params: dict[str, str] | None = None) -> httpx.Response:
        return self._send(
            self.http.build_request(
                "GET",
                f"{self.endpoints.control}/v1/{self.endpoints.environment}/{path}",
                params=params,
                headers=self._authorized(ADMIN_CLIENT),
            )
        )

    def _authorized(self, client_id: str) -> dict[str, str]:
        token = self.token(client_id, realm=self.endpoints.realm)
        return {"Authorization": f"Bearer {token}"}

    def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return self.http.send(request)
        except httpx.HTTPError as error:
            raise CommandFailed(
                f"{request.url.copy_with(path='/', query=None)} does not answer "
                f"({error or type(error).__name__}): see '{self.command('status')}', and start the "
                f"platform with '{self.command('up')}'."
            ) from error
