"""Bearer tokens: whose are accepted, how often keys are fetched, what is remembered."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from datetime import datetime, tzinfo
from typing import Any, Self

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from libs.common.auth import TokenVerifier
from libs.common.auth.verifier import ISSUERS_MAX, REFRESH_S_MIN, RETRY_S_MIN, TOKEN_BYTES_MAX
from libs.common.errors import IssuerUnavailable, Unauthenticated
from libs.common.settings import AuthSettings

HOST = "http://issuer.test/auth/realms"
ISSUER = f"{HOST}/integration"
NOW_S = 1_795_168_800.0
KEYS = {name: rsa.generate_private_key(public_exponent=65_537, key_size=2_048) for name in "ab"}


class StoppedClock(datetime):
    """What the library that checks `exp` takes for the system's clock."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromtimestamp(NOW_S, tz)


@pytest.fixture(autouse=True)
def _stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jwt.api_jwt.datetime", StoppedClock)


class Issuer:
    """Serves discovery documents and keys of every realm, and counts what is asked for."""

    def __init__(self) -> None:
        self.published = ["a"]
        self.status = 200
        self.is_down = False
        self.asked: list[str] = []
        self.answers: dict[str, Any] = {}
        self.on_asked: Callable[[], None] = lambda: None

    async def answer(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        url = str(request.url)
        self.asked.append(url)
        self.on_asked()
        if self.is_down:
            raise httpx.ConnectError("down", request=request)
        for part, body in self.answers.items():
            if part in url:
                return httpx.Response(200, json=body)
        if "openid-configuration" in url:
            return httpx.Response(self.status, json={"jwks_uri": "http://issuer.test/certs"})
        return httpx.Response(self.status, json={"keys": [jwk(name) for name in self.published]})


def jwk(name: str) -> dict[str, Any]:
    public = RSAAlgorithm.to_jwk(KEYS[name].public_key(), as_dict=True)
    return {**public, "kid": name, "alg": "RS256"}


def token(*, key: str = "a", kid: str | None = None, **claims: Any) -> str:
    """A good token; claims replace, None removes one."""
    good = {"iss": ISSUER, "exp": NOW_S + 300, "clientId": "shop", **claims}
    return jwt.encode(
        {name: value for name, value in good.items() if value is not None},
        KEYS[key],
        algorithm="RS256",
        headers={"kid": key if kid is None else kid},
    )


def encoded(document: object) -> bytes:
    text = document if isinstance(document, str) else json.dumps(document)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=")


class Subject:
    """A verifier, its issuer and its clock."""

    def __init__(self, client: httpx.AsyncClient, issuer: Issuer, **settings: Any) -> None:
        self.issuer = issuer
        self.now_s = NOW_S
        given = {"trusted_issuers": f"{HOST}/*", **settings}
        self.verifier = TokenVerifier(AuthSettings(**given), client, now_s=lambda: self.now_s)

    async def client_of(self, text: str) -> str:
        return (await self.verifier.verify(text)).client_id

    async def refused(self, text: str) -> str:
        with pytest.raises(Unauthenticated) as error:
            await self.verifier.verify(text)
        return str(error.value)


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def client(issuer: Issuer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(issuer.answer)) as found:
        yield found


@pytest.fixture
def subject(client: httpx.AsyncClient, issuer: Issuer) -> Subject:
    return Subject(client, issuer)


async def test_a_valid_token_names_its_client_and_realm(subject: Subject) -> None:
    found = await subject.verifier.verify(token())
    assert (found.client_id, found.realm, found.issuer) == ("shop", "integration", ISSUER)
    assert found.expires_at_s == NOW_S + 300


async def test_azp_names_the_client_when_there_is_no_client_id(subject: Subject) -> None:
    assert await subject.client_of(token(clientId=None, azp="till")) == "till"
    assert "names no client" in await subject.refused(token(clientId=None))
    assert "names no client" in await subject.refused(token(clientId=["shop"]))


async def test_an_expired_token_is_refused_after_the_leeway(subject: Subject) -> None:
    assert await subject.client_of(token(exp=NOW_S - 5)) == "shop"
    assert "expired" in await subject.refused(token(exp=NOW_S - 11))


async def test_a_token_that_is_not_valid_yet_is_refused(subject: Subject) -> None:
    assert "not valid" in await subject.refused(token(nbf=NOW_S + 60))


async def test_a_token_without_expiry_is_refused(subject: Subject) -> None:
    assert "exp" in await subject.refused(token(exp=None))


async def test_a_signature_of_another_key_is_refused(subject: Subject) -> None:
    assert "not valid" in await subject.refused(token(key="b", kid="a"))


async def test_a_payload_that_was_changed_is_refused(subject: Subject) -> None:
    head, _, signature = token().split(".")
    claims = {"iss": ISSUER, "exp": NOW_S + 300, "clientId": "admin"}
    assert "not valid" in await subject.refused(f"{head}.{encoded(claims).decode()}.{signature}")


async def test_a_token_without_signature_is_refused(subject: Subject) -> None:
    claims = {"iss": ISSUER, "exp": NOW_S + 300, "clientId": "admin"}
    for algorithm in ("none", "None", "NONE"):
        head = encoded({"alg": algorithm, "typ": "JWT", "kid": "a"})
        assert "not valid" in await subject.refused(f"{(head + b'.' + encoded(claims)).decode()}.")


async def test_the_public_key_is_no_secret_to_sign_with(subject: Subject) -> None:
    public = (
        KEYS["a"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    claims = {"iss": ISSUER, "exp": NOW_S + 300, "clientId": "admin"}
    signed = encoded({"alg": "HS256", "typ": "JWT", "kid": "a"}) + b"." + encoded(claims)
    signature = base64.urlsafe_b64encode(hmac.digest(public, signed, hashlib.sha256)).rstrip(b"=")
    assert "not valid" in await subject.refused((signed + b"." + signature).decode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "a.b.c",
        "ä.ö.ü",
        f"{encoded({'alg': 'RS256'}).decode()}.{encoded('[' * 9_000).decode()}.x",
        f"{encoded('[' * 9_000).decode()}.{encoded({}).decode()}.x",
        f"{encoded({'alg': 'RS256', 'kid': []}).decode()}.{encoded({'iss': ISSUER}).decode()}.x",
        f"{encoded({'alg': 'RS256'}).decode()}.{encoded([]).decode()}.x",
    ],
    ids=["empty", "word", "garbage", "umlauts", "deep claims", "deep head", "odd kid", "list"],
)
async def test_what_is_no_token_is_refused_without_asking_anybody(
    subject: Subject, text: str
) -> None:
    assert "not a JSON Web Token" in await subject.refused(text)
    assert subject.issuer.asked == []


async def test_an_endless_token_is_refused_unread(subject: Subject) -> None:
    assert "longer than" in await subject.refused("x" * (TOKEN_BYTES_MAX + 1))


@pytest.mark.parametrize("audience", ["meridian", ["other", "meridian"]])
async def test_a_token_for_the_configured_audience_is_accepted(
    client: httpx.AsyncClient, issuer: Issuer, audience: object
) -> None:
    subject = Subject(client, issuer, audience="meridian")
    assert await subject.client_of(token(aud=audience)) == "shop"


@pytest.mark.parametrize("audience", [None, "other", ["other"]])
async def test_a_token_for_somebody_else_is_refused(
    client: httpx.AsyncClient, issuer: Issuer, audience: object
) -> None:
    subject = Subject(client, issuer, audience="meridian")
    said = await subject.refused(token(aud=audience))
    assert "aud" in said


async def test_without_a_configured_audience_any_is_accepted(subject: Subject) -> None:
    assert await subject.client_of(token(aud="whatever")) == "shop"


@pytest.mark.parametrize(
    "name",
    [
        "http://issuer.test/auth/realms/a/b",
        "http://issuer.test/auth/realms/",
        "http://issuer.test/auth/realms",
        "http://issuer.test/auth/realms/..",
        "http://issuer.test/auth/realms/.",
        "http://issuer.test/auth/realms/%2e%2e",
        "http://issuer.test/auth/realms/a%2fb",
        "http://issuer.test/auth/realms/a\\b",
        "http://issuer.test/auth/realms/a?b",
        "http://issuer.test/auth/realms/a#b",
        "http://issuer.test/auth/realms/a b",
        "http://issuer.test/auth/realms/a\n",
        "http://issuer.test/other/a",
        "http://issuer.test.evil/auth/realms/a",
        "http://evil/auth/realms/a",
        "http://evil@issuer.test/auth/realms/a",
        "https://issuer.test/auth/realms/a",
        "",
    ],
)
async def test_a_wildcard_trusts_one_segment_on_its_own_host_only(
    subject: Subject, name: str
) -> None:
    assert not subject.verifier.is_trusted(name)
    assert "not trusted" in await subject.refused(token(iss=name))
    assert subject.issuer.asked == []


@pytest.mark.parametrize("realm", ["integration", "a", "team-1.prod_x~"])
def test_a_wildcard_trusts_every_realm_of_its_host(subject: Subject, realm: str) -> None:
    assert subject.verifier.is_trusted(f"{HOST}/{realm}")


async def test_an_issuer_without_wildcard_is_trusted_to_the_letter(
    client: httpx.AsyncClient, issuer: Issuer
) -> None:
    verifier = Subject(client, issuer, trusted_issuers=f"{ISSUER}, http://b.test").verifier
    assert verifier.is_trusted(ISSUER)
    assert verifier.is_trusted("http://b.test")
    assert not verifier.is_trusted(ISSUER + "/")
    assert not verifier.is_trusted(f"{HOST}/other")


@pytest.mark.parametrize("issuer_claim", [None, 7, ["x"]])
async def test_a_token_without_a_proper_issuer_is_refused(
    subject: Subject, issuer_claim: object
) -> None:
    head, _, signature = token().split(".")
    claims = encoded({"iss": issuer_claim, "exp": NOW_S + 300}).decode()
    assert "issuer" in await subject.refused(f"{head}.{claims}.{signature}")


async def test_keys_are_fetched_once_for_many_tokens_at_once(subject: Subject) -> None:
    tokens = [token(clientId=f"c{number}") for number in range(20)]
    names = await asyncio.gather(*(subject.client_of(one) for one in tokens))
    assert names == [f"c{number}" for number in range(20)]
    assert len(subject.issuer.asked) == 2


async def test_old_keys_are_used_while_new_ones_are_on_their_way(subject: Subject) -> None:
    await subject.client_of(token())
    subject.now_s += 301
    asking = asyncio.Event()
    subject.issuer.on_asked = asking.set
    fetching = asyncio.ensure_future(subject.client_of(token(clientId="x", exp=NOW_S + 900)))
    await asking.wait()
    assert await subject.client_of(token(clientId="y", exp=NOW_S + 900)) == "y"
    assert not fetching.done()
    assert await fetching == "x"


async def test_keys_are_fetched_again_when_they_are_old(subject: Subject) -> None:
    await subject.client_of(token())
    subject.now_s += 301
    await subject.client_of(token(clientId="other", exp=NOW_S + 900))
    assert len(subject.issuer.asked) == 4


async def test_a_new_key_is_found_at_once_and_the_search_is_bounded(subject: Subject) -> None:
    await subject.client_of(token())
    subject.now_s += REFRESH_S_MIN
    subject.issuer.published = ["a", "b"]
    assert await subject.client_of(token(key="b")) == "shop"
    assert len(subject.issuer.asked) == 4
    for number in range(20):
        said = await subject.refused(token(kid=f"unknown-{number}"))
        assert "does not publish" in said
    assert len(subject.issuer.asked) == 4
    subject.now_s += REFRESH_S_MIN
    for number in range(20):
        await subject.refused(token(kid=f"unknown-{number}"))
    assert len(subject.issuer.asked) == 6


async def test_a_key_that_is_published_no_longer_is_trusted_no_longer(subject: Subject) -> None:
    subject.issuer.published = ["a", "b"]
    await subject.client_of(token(key="b"))
    subject.issuer.published = ["a"]
    subject.now_s += 301
    await subject.refused(token(key="b", clientId="other", exp=NOW_S + 900))


async def test_while_the_issuer_is_down_nobody_new_can_be_checked(subject: Subject) -> None:
    subject.issuer.is_down = True
    with pytest.raises(IssuerUnavailable) as error:
        await subject.verifier.verify(token())
    assert error.value.delay_s is not None
    subject.issuer.is_down = False
    subject.now_s += error.value.delay_s
    assert await subject.client_of(token()) == "shop"


async def test_an_issuer_that_is_down_is_asked_once_for_all_who_wait(subject: Subject) -> None:
    def time_out() -> None:
        subject.now_s += 5

    subject.issuer.is_down = True
    subject.issuer.on_asked = time_out
    tokens = [token(clientId=f"c{number}") for number in range(20)]
    found = await asyncio.gather(
        *(subject.verifier.verify(one) for one in tokens), return_exceptions=True
    )
    assert {type(one) for one in found} == {IssuerUnavailable}
    assert len(subject.issuer.asked) == 1
    subject.now_s += RETRY_S_MIN
    with pytest.raises(IssuerUnavailable):
        await subject.verifier.verify(tokens[0])
    assert len(subject.issuer.asked) == 2


async def test_old_keys_are_used_while_the_issuer_is_down(subject: Subject) -> None:
    await subject.client_of(token())
    subject.issuer.is_down = True
    subject.now_s += 301
    assert await subject.client_of(token(clientId="other", exp=NOW_S + 900)) == "other"


async def test_a_realm_that_its_issuer_does_not_know_is_not_trusted(subject: Subject) -> None:
    subject.issuer.status = 404
    for _ in range(2):
        assert "does not exist" in await subject.refused(token())
    assert len(subject.issuer.asked) == 1


@pytest.mark.parametrize(
    "answers",
    [
        {"openid-configuration": []},
        {"openid-configuration": {}},
        {"openid-configuration": {"jwks_uri": None}},
        {"certs": []},
        {"certs": {}},
        {"certs": {"keys": []}},
        {"certs": {"keys": "x"}},
        {"certs": {"keys": [{"kty": "RSA"}]}},
        {"certs": {"keys": ["x"]}},
    ],
)
async def test_an_issuer_that_answers_nonsense_counts_as_down(
    subject: Subject, answers: dict[str, Any]
) -> None:
    subject.issuer.answers = answers
    with pytest.raises(IssuerUnavailable):
        await subject.verifier.verify(token())


async def test_realms_that_do_not_exist_do_not_push_out_the_keys_of_those_that_do(
    subject: Subject,
) -> None:
    await subject.client_of(token())
    subject.issuer.is_down = True
    for number in range(ISSUERS_MAX + 10):
        with pytest.raises(IssuerUnavailable):
            await subject.verifier.verify(token(iss=f"{HOST}/invented-{number}"))
    assert await subject.client_of(token(clientId="other")) == "other"


async def test_a_verified_token_is_not_checked_again_until_it_expires(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = token()
    first = await subject.verifier.verify(text)
    monkeypatch.setattr(jwt, "decode", lambda *_, **__: pytest.fail("checked again"))
    assert await subject.verifier.verify(text) is first


async def test_a_remembered_token_is_checked_again_once_it_has_expired(subject: Subject) -> None:
    text = token(exp=NOW_S + 100)
    first = await subject.verifier.verify(text)
    subject.now_s = NOW_S + 101
    assert await subject.verifier.verify(text) is not first


@pytest.mark.parametrize("kept", [0, 1, 3])
async def test_only_so_many_verified_tokens_are_kept_the_latest_ones(
    client: httpx.AsyncClient, issuer: Issuer, kept: int
) -> None:
    subject = Subject(client, issuer, tokens_cached_max=kept)
    tokens = [token(clientId=f"c{number}") for number in range(5)]
    first = [await subject.verifier.verify(one) for one in tokens]
    again = [await subject.verifier.verify(one) for one in reversed(tokens[5 - kept :])]
    assert all(one in first for one in again)
    assert {id(one) for one in again} <= {id(one) for one in first}
    refreshed = await subject.verifier.verify(tokens[0])
    assert id(refreshed) not in {id(one) for one in first}
