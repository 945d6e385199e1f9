"""A token issuer in memory: real keys and signatures, its documents served without a network."""

import time
from typing import Any

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from libs.common.settings import AuthSettings

HOST = "http://issuer.test"
KEY_ID = "test-key"


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

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if not self.is_reachable:
            raise httpx.ConnectError("the issuer is down", request=request)
        url = str(request.url)
        if url.endswith("/.well-known/openid-configuration"):
            issuer = url.removesuffix("/.well-known/openid-configuration")
            return httpx.Response(200, json={"issuer": issuer, "jwks_uri": f"{issuer}/certs"})
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return httpx.Response(200, json={"keys": [{**public, "kid": KEY_ID, "alg": "RS256"}]})
