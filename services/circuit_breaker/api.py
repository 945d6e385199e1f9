"""The HTTP API: circuits, probes and running redeliveries, at golaris' paths, with tokens.

The paths name no environment: a token's realm says which one is meant. Errors are problem
documents; `libs.common.web` makes them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from fastapi import Depends, FastAPI, Path, Request, Response

from libs.common import web
from libs.common.auth import TokenVerifier, bearer_token
from libs.common.auth.identity import environment_of
from libs.common.errors import NotReady
from services.circuit_breaker.service import Caller, CircuitBreaker
from services.circuit_breaker.settings import CircuitBreakerSettings

SubscriptionId = Annotated[str, Path(alias="subscriptionId", min_length=1, max_length=253)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the API is made of."""

    breaker: CircuitBreaker
    verifier: TokenVerifier
    not_ready: Callable[[], str | None]
    """None once the tables are known, else what is missing."""


def build(parts: Parts, settings: CircuitBreakerSettings) -> FastAPI:
    """The ASGI app."""
    app = FastAPI(title="Meridian circuit breaker", version="1", redoc_url=None, docs_url=None)

    async def who(request: Request) -> Caller:
        return await _caller(request, parts, settings)

    _serve(app, parts.breaker, Depends(who))
    web.install(app)
    return app


def _serve(app: FastAPI, breaker: CircuitBreaker, caller: Any) -> None:
    @app.get("/api/v1/circuit-breakers", summary="Circuits that are not closed")
    async def circuits(by: Caller = caller) -> Response:
        return _json(breaker.circuits(by))

    @app.get("/api/v1/circuit-breakers/{subscriptionId}", summary="The circuit of a subscription")
    async def circuit(subscription_id: SubscriptionId, by: Caller = caller) -> Response:
        return _json(breaker.circuit(subscription_id, by))

    @app.put("/api/v1/circuit-breakers/close/{subscriptionId}", summary="Not available yet")
    async def close(subscription_id: SubscriptionId, by: Caller = caller) -> None:
        breaker.close(subscription_id, by)

    @app.get("/api/v1/health-checks", summary="What probes of callbacks found last")
    async def health_checks(by: Caller = caller) -> Response:
        return _json(breaker.health_checks(by))

    @app.get("/api/v1/republishing-entries", summary="Subscriptions that are caught up with")
    async def republishing(by: Caller = caller) -> Response:
        return _json(breaker.republishing(by))


async def _caller(request: Request, parts: Parts, settings: CircuitBreakerSettings) -> Caller:
    """Who asks; raises NotReady, Unauthenticated, or IssuerUnavailable."""
    missing = parts.not_ready()
    if missing is not None:
        raise NotReady(f"The circuits are not known: {missing}.")
    identity = await parts.verifier.verify(bearer_token(request.headers.get("authorization")))
    return Caller(
        client_id=identity.client_id,
        environment=environment_of(identity, default_environment=settings.default_environment),
        is_admin=identity.client_id in settings.admin_clients,
    )


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
