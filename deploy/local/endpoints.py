"""`<home>/endpoints.json`: where a running platform is.

Written when the platform is ready, removed by its orderly stop, readable by its owner only (it
holds the client secret).
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from deploy.local import invocation
from deploy.local.errors import NotRunning

FILE_NAME: Final = "endpoints.json"


class Endpoints(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Addresses of a running platform; a service that this platform lacks has no field."""

    publish: str
    """Base URL of the producer, without a slash at its end; so for the other URLs."""
    control: str
    sse: str | None = None
    circuit_breaker: str | None = None
    issuer: str
    """The issuer as it stands in tokens of the default realm."""
    token_endpoint: str
    kafka: str
    """Bootstrap address, `host:port`."""
    redis: str
    client_secret: str
    """Any client id is accepted with it."""
    realm: str
    environment: str
    port_base: int
    pids: dict[str, int]

    def token_endpoint_of(self, realm: str) -> str:
        """Where tokens of any realm are had."""
        return self.token_endpoint.replace(f"/realms/{self.realm}/", f"/realms/{realm}/")


def read(home: Path) -> Endpoints:
    """The endpoints of the platform in a home; NotRunning when there are none to be read."""
    try:
        return msgspec.json.decode((home / FILE_NAME).read_bytes(), type=Endpoints)
    except (FileNotFoundError, NotADirectoryError) as error:
        up = invocation.command("up", home=home)
        raise NotRunning(
            f"No platform runs in {home}: start one with '{up}', or name the home of another with "
            "--home."
        ) from error
    except (OSError, msgspec.DecodeError) as error:
        down, up = (invocation.command(word, home=home) for word in ("down", "up"))
        raise NotRunning(
            f"{home / FILE_NAME} cannot be read ({error}): stop and start the platform with "
            f"'{down}' and '{up}'."
        ) from error


def write(home: Path, endpoints: Endpoints) -> None:
    """Puts the file in place in one step."""
    write_private(home / FILE_NAME, msgspec.json.format(msgspec.json.encode(endpoints)))


def remove(home: Path) -> None:
    """Takes the file away, if it is there."""
    (home / FILE_NAME).unlink(missing_ok=True)


def write_private(file: Path, content: bytes) -> None:
    """Writes a file that only its owner can read, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    incomplete = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(incomplete, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as output:
        output.write(content)
    incomplete.replace(file)
