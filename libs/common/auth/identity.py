"""Who a token speaks for, and whether it belongs to an environment. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from libs.common.errors import NotFound, RealmMismatch, Unauthenticated
from libs.common.ids import ClientId

REALM_DEFAULT = "default"
ENVIRONMENT: Final = re.compile(r"[a-z0-9-]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A verified caller."""

    client_id: ClientId
    realm: str
    issuer: str
    expires_at_s: float


def identity_of(claims: Mapping[str, Any]) -> Identity:
    """The caller in verified claims: `clientId`, else `azp`; raises Unauthenticated without."""
    client_id = claims.get("clientId") or claims.get("azp")
    if not isinstance(client_id, str) or not client_id:
        raise Unauthenticated("The token names no client: claim clientId or azp is missing.")
    issuer = str(claims["iss"])
    return Identity(
        client_id=ClientId(client_id),
        realm=realm_of(issuer),
        issuer=issuer,
        expires_at_s=float(claims["exp"]),
    )


def realm_of(issuer: str) -> str:
    """The path segment after `/realms/`, any scheme; `default` for an issuer without one."""
    segments = urlsplit(issuer).path.split("/")
    if "realms" in segments[:-1]:
        realm = segments[segments.index("realms") + 1]
        return realm or REALM_DEFAULT
    return REALM_DEFAULT


def environment_of(identity: Identity, *, default_environment: str) -> str:
    """The environment that the realm names; realm `default` names the default one."""
    return default_environment if identity.realm == REALM_DEFAULT else identity.realm


def check_environment(name: str) -> None:
    """Raises NotFound for a text that cannot be the name of an environment."""
    if not ENVIRONMENT.fullmatch(name):
        raise NotFound(
            f"{name!r} cannot be an environment: these have 1 to 63 lower-case letters, "
            "digits and dashes."
        )


def check_realm(identity: Identity, *, environment: str, default_environment: str) -> None:
    """Raises RealmMismatch unless the realm is the environment's.

    The default environment accepts its own name and `default`.
    """
    accepted = {environment}
    if environment == default_environment:
        accepted.add(REALM_DEFAULT)
    if identity.realm not in accepted:
        raise RealmMismatch(
            f"The token was issued by realm {identity.realm}, but environment {environment} takes "
            f"tokens of realm {' or '.join(sorted(accepted))}. Get a token from that realm, or use "
            f"the path of environment {identity.realm}."
        )


def bearer_token(authorization: str | None) -> str:
    """The token in an Authorization header; raises Unauthenticated when there is none."""
    if authorization is None:
        raise Unauthenticated("Header Authorization: Bearer <token> is missing.")
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("Header Authorization has to be `Bearer <token>`.")
    return token.strip()
