"""Verifies tokens by the keys of their issuers and remembers the verified ones.

Checking an RS256 signature costs about 170 µs, so a token that was verified is looked up by its
text until it expires. Keys come from the issuer's discovery document and are fetched again when
they are old, or at once (but not more often than every 10 s) for a key id nobody has seen. An
issuer that cannot be reached is asked once a second, however many wait for it.
"""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import jwt

from libs.common import log
from libs.common.auth.identity import Identity, identity_of
from libs.common.errors import IssuerUnavailable, Unauthenticated
from libs.common.settings import AuthSettings

logger = log.get(__name__)

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "PS256")
REFRESH_S_MIN: Final = 10.0
RETRY_S_MIN: Final = 1.0
"""Between two attempts to get the first keys of an issuer."""
FETCH_TIMEOUT_S: Final = 5.0
ISSUERS_MAX: Final = 256
TOKEN_BYTES_MAX: Final = 16_384

_REALM: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._~-]+")
"""What `*` stands for: one path segment that no client normalises to something else."""


@dataclass(slots=True)
class _IssuerKeys:
    keys: dict[str | None, jwt.PyJWK] = field(default_factory=dict)
    fetched_at_s: float = float("-inf")
    tried_at_s: float = float("-inf")
    is_unknown: bool = False
    """Its host answered that there is no such issuer."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class TokenVerifier:
    """Checks bearer tokens: signature, expiry, issuer, audience."""

    def __init__(
        self,
        settings: AuthSettings,
        client: httpx.AsyncClient,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._exact = {entry for entry in settings.issuers() if not entry.endswith("/*")}
        self._prefixes = [entry[:-1] for entry in settings.issuers() if entry.endswith("/*")]
        self._client = client
        self._now_s = now_s
        self._issuers: OrderedDict[str, _IssuerKeys] = OrderedDict()
        self._verified: OrderedDict[str, Identity] = OrderedDict()

    async def verify(self, token: str) -> Identity:
        """Who the token speaks for. Raises Unauthenticated, or IssuerUnavailable (try again)."""
        known = self._verified.get(token)
        if known is not None:
            if known.expires_at_s > self._now_s():
                return known
            del self._verified[token]
        identity = identity_of(await self._claims(token))
        self._remember(token, identity)
        return identity

    def _remember(self, token: str, identity: Identity) -> None:
        if self._settings.tokens_cached_max == 0:
            return
        if len(self._verified) >= self._settings.tokens_cached_max:
            self._verified.popitem(last=False)
        self._verified[token] = identity

    async def _claims(self, token: str) -> dict[str, Any]:
        if len(token) > TOKEN_BYTES_MAX:
            raise Unauthenticated(f"The token is longer than {TOKEN_BYTES_MAX} bytes.")
        try:
            unverified = jwt.decode_complete(token, options={"verify_signature": False})
            issuer = unverified["payload"].get("iss")
            header = unverified["header"]
        except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
            raise Unauthenticated("The token is not a JSON Web Token.") from error
        if not isinstance(issuer, str) or not self.is_trusted(issuer):
            raise Unauthenticated(
                f"The token's issuer {issuer} is not trusted here. Get a token from one of: "
                f"{', '.join(self._settings.issuers())}."
            )
        key = await self._key(issuer, header.get("kid"))
        return self._checked(token, issuer, key)

    def is_trusted(self, issuer: str) -> bool:
        """True for a listed issuer, and for one realm below an entry that ends in `/*`."""
        if issuer in self._exact:
            return True
        return any(
            issuer.startswith(prefix) and _REALM.fullmatch(issuer[len(prefix) :]) is not None
            for prefix in self._prefixes
        )

    def _checked(self, token: str, issuer: str, key: jwt.PyJWK) -> dict[str, Any]:
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                issuer=issuer,
                audience=self._settings.audience,
                leeway=self._settings.leeway_s,
                options={
                    "require": ["exp", "iss"],
                    "verify_aud": self._settings.audience is not None,
                },
            )
        except jwt.ExpiredSignatureError as error:
            raise Unauthenticated("The token has expired. Get a new one.") from error
        except jwt.InvalidAudienceError as error:
            raise Unauthenticated(
                f"The token is not for audience {self._settings.audience}."
            ) from error
        except (jwt.InvalidTokenError, ValueError, TypeError) as error:
            raise Unauthenticated(f"The token is not valid: {error}.") from error
        return claims

    async def _key(self, issuer: str, key_id: str | None) -> jwt.PyJWK:
        entry = self._entry(issuer)
        if self._is_due(entry, key_id) or not entry.keys:
            async with entry.lock:
                if self._is_due(entry, key_id):
                    await self._refresh(issuer, entry)
        if not entry.keys and entry.is_unknown:
            raise Unauthenticated(f"The token's issuer {issuer} does not exist.")
        if not entry.keys:
            raise IssuerUnavailable(
                f"The keys of issuer {issuer} cannot be fetched now.", delay_s=RETRY_S_MIN
            )
        if key_id is None and len(entry.keys) == 1:
            return next(iter(entry.keys.values()))
        try:
            return entry.keys[key_id]
        except KeyError:
            raise Unauthenticated(
                "The token is signed with a key that its issuer does not publish."
            ) from None

    def _entry(self, issuer: str) -> _IssuerKeys:
        entry = self._issuers.get(issuer)
        if entry is None:
            if len(self._issuers) >= ISSUERS_MAX:
                del self._issuers[self._least_needed()]
            entry = self._issuers[issuer] = _IssuerKeys()
        return entry

    def _least_needed(self) -> str:
        """The oldest issuer without keys (anybody can invent a realm), else the oldest."""
        oldest = next(iter(self._issuers))
        return next((name for name, entry in self._issuers.items() if not entry.keys), oldest)

    def _is_due(self, entry: _IssuerKeys, key_id: str | None) -> bool:
        now = self._now_s()
        if now - entry.tried_at_s < (REFRESH_S_MIN if entry.keys else RETRY_S_MIN):
            return False
        is_old = now - entry.fetched_at_s > self._settings.keys_ttl_s
        return is_old or (key_id is not None and key_id not in entry.keys)

    async def _refresh(self, issuer: str, entry: _IssuerKeys) -> None:
        """Fetches the keys, or keeps those that are there."""
        entry.tried_at_s = self._now_s()
        try:
            discovery = await self._fetch(f"{issuer}/.well-known/openid-configuration")
            published = await self._fetch(str(discovery["jwks_uri"]))
            entry.keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(published).keys}
            entry.fetched_at_s = self._now_s()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, jwt.PyJWTError) as error:
            logger.warning("issuer.keys_not_fetched", issuer=issuer, error=repr(error))
            entry.is_unknown = _says_unknown(error)
        finally:
            entry.tried_at_s = self._now_s()

    async def _fetch(self, url: str) -> dict[str, Any]:
        response = await self._client.get(url, timeout=FETCH_TIMEOUT_S)
        response.raise_for_status()
        found = response.json()
        if not isinstance(found, dict):
            raise ValueError(f"{url} did not answer with a JSON object")  # noqa: TRY004 - as json's
        return found


def _says_unknown(error: Exception) -> bool:
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code == 404
