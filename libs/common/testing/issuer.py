"""A token issuer in memory: real keys and signatures, its documents served without a network."""

import time
from typing import Any

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from libs.common.settings import AuthSettings

HOST = "http://issuer.test"
KEY_ID = "test-key"
DISCOVERY = "/.well-known/openid-configuration"


class MemoryIssuer:
    """Issues tokens of any realm. `is_reachable` decides whether its keys can be fetched."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        self.is_reachable = True
        self.settings = AuthSettings(trusted_issuers=f"{HOST}/auth/realms/*")

    def token(self, client_id: str, *, realm: str = "integration", **claims: Any) -> str:
        """A signed token, valid for five minutes; `claims` replace, None removes one."""
        now_s = int(time.time())
        issuer = f"{HOST}/auth/realms/{realm}"
        given = {"iss": issuer, "exp": now_s + 300, "iat": now_s, "clientId": client_id, **claims}
        found = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(found, self._key, algorithm="RS256", headers={"kid": KEY_ID})

    def client(self) -> httpx.AsyncClient:
        """A client that reaches this issuer and nothing else."""
        return httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The issuer as an ASGI application, to be served on a port."""
        url = str(Request(scope).url)
        await JSONResponse(self._document(url))(scope, receive, send)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if not self.is_reachable:
            raise httpx.ConnectError("the issuer is down", request=request)
        return httpx.Response(200, json=self._document(str(request.url)))

    def _document(self, url: str) -> dict[str, Any]:
        if url.endswith(DISCOVERY):
            issuer = url.removesuffix(DISCOVERY)
            return {"issuer": issuer, "jwks_uri": f"{issuer}/certs"}
        public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": KEY_ID, "alg": "RS256"}]}
