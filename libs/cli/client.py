"""Speaks to a running platform: tokens, resources, events. All errors are one clear sentence."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from deploy.local import invocation
from deploy.local.endpoints import Endpoints
from deploy.local.programs import ADMIN_CLIENT
from libs.cli import output
from libs.cli.errors import CommandFailed
from libs.cli.rover import Rover

TIMEOUT_S: Final = 30.0
APPLY_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the producer said to an event that it stored."""

    status: int
    """201, or 202 when nobody is subscribed."""
    body: bytes


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
        environment = self.endpoints.environment
        answer = self._send(
            self.http.build_request(
                "GET",
                f"{self.endpoints.control}/v1/{environment}/exposures/{quote(event_type, safe='')}",
                headers=self._authorized(ADMIN_CLIENT),
            )
        )
        if answer.status_code == 404:
            raise CommandFailed(
                f"Nobody exposes {event_type} in {environment}: check its spelling, apply a Rover "
                f"file that exposes it ('{self.command('apply', '-f', 'FILE')}'), or say with --as "
                "which client publishes."
            )
        if not answer.is_success:
            raise CommandFailed(output.problem(answer.status_code, answer.content))
        return str(answer.json()["spec"]["publisherId"])

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
