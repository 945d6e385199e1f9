"""The development issuer answers as Keycloak does, and only those who know the secret."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import jwt
import pytest

from deploy.local.issuer import app, keys, tokens

BASE_URL = "http://127.0.0.1:8089"
TOKEN_PATH = "/auth/realms/integration/protocol/openid-connect/token"
SECRET = "s3cret"


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> keys.SigningKey:
    return keys.load_key(tmp_path_factory.mktemp("issuer"))


@pytest.fixture
async def http(key: keys.SigningKey) -> AsyncIterator[httpx.AsyncClient]:
    issuer = app.create(key=key, secret=SECRET, base_url=BASE_URL)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(issuer), base_url=BASE_URL
    ) as client:
        yield client


def form(**fields: str) -> dict[str, str]:
    return {
        "grant_type": "client_credentials",
        "client_id": "eni--demo--shop",
        "client_secret": SECRET,
        **fields,
    }


async def test_a_token_verifies_by_the_published_key(http: httpx.AsyncClient) -> None:
    token = (await http.post(TOKEN_PATH, data=form())).json()["access_token"]
    published = (await http.get("/auth/realms/integration/protocol/openid-connect/certs")).json()
    signing_key = jwt.PyJWKSet.from_dict(published)[jwt.get_unverified_header(token)["kid"]]
    claims = jwt.decode(token, signing_key, ["RS256"], audience=tokens.AUDIENCE)
    assert claims["iss"] == f"{BASE_URL}/auth/realms/integration"
    assert claims["clientId"] == claims["azp"] == claims["sub"] == "eni--demo--shop"
    assert claims["exp"] - claims["iat"] == tokens.TOKEN_LIFETIME_S


async def test_client_and_secret_may_come_by_http_basic(http: httpx.AsyncClient) -> None:
    answer = await http.post(
        TOKEN_PATH, data={"grant_type": "client_credentials"}, auth=("some-client", SECRET)
    )
    assert answer.status_code == 200


async def test_a_wrong_secret_is_invalid_client(http: httpx.AsyncClient) -> None:
    answer = await http.post(TOKEN_PATH, data=form(client_secret="guess"))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_another_grant_is_unsupported(http: httpx.AsyncClient) -> None:
    answer = await http.post(TOKEN_PATH, data=form(grant_type="password"))
    assert (answer.status_code, answer.json()["error"]) == (400, "unsupported_grant_type")


async def test_discovery_names_issuer_token_endpoint_and_keys(http: httpx.AsyncClient) -> None:
    found = (await http.get("/auth/realms/playground/.well-known/openid-configuration")).json()
    assert found["issuer"] == f"{BASE_URL}/auth/realms/playground"
    assert found["token_endpoint"].startswith(found["issuer"])
    assert found["jwks_uri"].startswith(found["issuer"])


async def test_a_realm_that_cannot_be_a_name_does_not_exist(http: httpx.AsyncClient) -> None:
    path = "/auth/realms/Not_A_Realm/protocol/openid-connect/certs"
    assert (await http.get(path)).status_code == 404


async def test_a_form_without_bound_is_refused(http: httpx.AsyncClient) -> None:
    answer = await http.post(TOKEN_PATH, content=b"a" * (app.FORM_BYTES_MAX + 1))
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "authorization", ["Basic", "Basic !", "Bearer x", f"Basic {base64.b64encode(b'x').decode()}"]
)
def test_an_unreadable_basic_header_is_as_none(authorization: str) -> None:
    assert tokens.basic_credentials(authorization) is None


def test_a_form_that_is_none_has_no_fields() -> None:
    assert tokens.read_form(b"\xff\xfe") == {}
    assert tokens.read_form(b"&".join([b"a=1"] * (tokens.FIELDS_MAX + 1))) == {}


def test_key_and_secret_outlive_a_restart(tmp_path: Path) -> None:
    assert keys.load_secret(tmp_path) == keys.load_secret(tmp_path)
    assert keys.load_key(tmp_path).public_set() == keys.load_key(tmp_path).public_set()


def test_the_published_set_holds_nothing_private(key: keys.SigningKey) -> None:
    (published,) = key.public_set()["keys"]
    assert set(published) == {"kty", "n", "e", "kid", "use", "alg"}
