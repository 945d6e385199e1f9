"""Bearer tokens: issued by one of several OIDC issuers, checked against their published keys."""

from libs.common.auth.identity import Identity, bearer_token, check_realm
from libs.common.auth.verifier import TokenVerifier

__all__ = ["Identity", "TokenVerifier", "bearer_token", "check_realm"]
