"""Decides token requests (RFC 6749, client credentials). Pure."""

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus

TOKEN_LIFETIME_S: Final = 3_600
AUDIENCE: Final = "account"
"""What Keycloak puts there when a realm says nothing else."""

FIELDS_MAX: Final = 20
CLIENT_ID_CHARACTERS_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer in OAuth's terms."""

    status: int
    error: str
    description: str


def decide(*, authorization: str | None, form: Mapping[str, str], secret: str) -> str | Refusal:
    """The client id that may have a token, or why not. Credentials: HTTP basic, else the form."""
    grant = form.get("grant_type", "")
    if grant != "client_credentials":
        return Refusal(
            400,
            "unsupported_grant_type" if grant else "invalid_request",
            f"grant_type has to be client_credentials, not '{grant}'",
        )
    credentials = basic_credentials(authorization) or (
        form.get("client_id", ""),
        form.get("client_secret", ""),
    )
    client_id, given = credentials
    if not 0 < len(client_id) <= CLIENT_ID_CHARACTERS_MAX or not client_id.isprintable():
        return Refusal(401, "invalid_client", "client_id is missing or no client id")
    if not hmac.compare_digest(given.encode(), secret.encode()):
        return Refusal(401, "invalid_client", "wrong client secret")
    return client_id


def basic_credentials(authorization: str | None) -> tuple[str, str] | None:
    """Client id and secret of an HTTP basic header; None when there is no readable one."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    client_id, colon, secret = text.partition(":")
    return (unquote_plus(client_id), unquote_plus(secret)) if colon else None


def read_form(body: bytes) -> dict[str, str]:
    """Fields of a URL-encoded form; empty for what is none."""
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError:
        return {}


def claims(*, issuer: str, client_id: str, token_id: str, now_s: int) -> dict[str, Any]:
    """What a token says, as Keycloak says it for a client's own account."""
    return {
        "iss": issuer,
        "sub": client_id,
        "aud": AUDIENCE,
        "azp": client_id,
        "clientId": client_id,
        "iat": now_s,
        "exp": now_s + TOKEN_LIFETIME_S,
        "jti": token_id,
        "typ": "Bearer",
    }
