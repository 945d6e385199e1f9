"""HTTP of the development issuer: token, discovery and key endpoints of every realm."""

import re
import time
import uuid
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from deploy.local.issuer import tokens
from deploy.local.issuer.keys import ALGORITHM, SigningKey

FORM_BYTES_MAX: Final = 8_192
PATH: Final = "/auth/realms"
NEVER_STORED: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}

_REALM: Final = re.compile(r"[a-z0-9-]+")


def create(*, key: SigningKey, secret: str, base_url: str) -> Starlette:
    """The issuer's app; `base_url` is how clients reach it, without a slash at its end."""

    def issuer_of(request: Request) -> str:
        realm = request.path_params["realm"]
        if not _REALM.fullmatch(realm):
            raise HTTPException(404, "a realm is made of a-z, 0-9 and -")
        return f"{base_url}{PATH}/{realm}"

    async def token(request: Request) -> Response:
        issuer = issuer_of(request)
        decided = tokens.decide(
            authorization=request.headers.get("Authorization"),
            form=tokens.read_form(await bounded_body(request)),
            secret=secret,
        )
        return refused(decided) if isinstance(decided, tokens.Refusal) else granted(issuer, decided)

    def granted(issuer: str, client_id: str) -> Response:
        claims = tokens.claims(
            issuer=issuer, client_id=client_id, token_id=str(uuid.uuid4()), now_s=int(time.time())
        )
        answer = {
            "access_token": key.sign(claims),
            "expires_in": tokens.TOKEN_LIFETIME_S,
            "token_type": "Bearer",
        }
        return JSONResponse(answer, headers=NEVER_STORED)

    async def discovery(request: Request) -> Response:
        return JSONResponse(discovery_document(issuer_of(request)))

    async def certs(request: Request) -> Response:
        issuer_of(request)
        return JSONResponse(key.public_set())

    async def livez(_: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    realm = f"{PATH}/{{realm}}"
    protocol = f"{realm}/protocol/openid-connect"
    return Starlette(
        routes=[
            Route("/livez", livez),
            Route(f"{protocol}/token", token, methods=["POST"]),
            Route(f"{protocol}/certs", certs),
            Route(f"{realm}/.well-known/openid-configuration", discovery),
        ]
    )


def refused(refusal: tokens.Refusal) -> Response:
    """An error answer as RFC 6749, 5.2 has it."""
    body = {"error": refusal.error, "error_description": refusal.description}
    challenge = {"WWW-Authenticate": "Basic"} if refusal.status == 401 else {}
    return JSONResponse(body, refusal.status, headers={**NEVER_STORED, **challenge})


async def bounded_body(request: Request) -> bytes:
    """The body; 413 for one over `FORM_BYTES_MAX`."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES_MAX:
            raise HTTPException(413, "the form is too large")
    return body


def discovery_document(issuer: str) -> dict[str, object]:
    """What OpenID Connect discovery says about a realm."""
    protocol = f"{issuer}/protocol/openid-connect"
    return {
        "issuer": issuer,
        "token_endpoint": f"{protocol}/token",
        "jwks_uri": f"{protocol}/certs",
        "grant_types_supported": ["client_credentials"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
        "response_types_supported": [],
        "subject_types_supported": ["public"],
    }
