"""The issuer's signing key and client secret, kept in a folder so that tokens outlive a restart."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from deploy.local.endpoints import write_private

KEY_BITS: Final = 2_048
ALGORITHM: Final = "RS256"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """An RSA key pair with a name that follows from its public part."""

    private: rsa.RSAPrivateKey

    @property
    def key_id(self) -> str:
        """Names the key in tokens and in the published set."""
        public = self.private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        digest = hashes.Hash(hashes.SHA256())
        digest.update(public)
        return digest.finalize().hex()[:16]

    def sign(self, claims: dict[str, Any]) -> str:
        """A signed token with these claims."""
        return jwt.encode(claims, self.private, ALGORITHM, headers={"kid": self.key_id})

    def public_set(self) -> dict[str, Any]:
        """The public key as a JSON Web Key Set (RFC 7517)."""
        public = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        key = {**public, "kid": self.key_id, "use": "sig", "alg": ALGORITHM}
        return {"keys": [{name: value for name, value in key.items() if name != "key_ops"}]}


def load_key(folder: Path) -> SigningKey:
    """The key of the folder; made on first use, readable by its owner only."""
    file = folder / "signing-key.pem"
    if not file.exists():
        write_private(file, _pem(rsa.generate_private_key(65_537, KEY_BITS)))
    private = serialization.load_pem_private_key(file.read_bytes(), password=None)
    if not isinstance(private, rsa.RSAPrivateKey):
        raise TypeError(f"{file} holds no RSA key: remove it, and a new one is made")
    return SigningKey(private)


def load_secret(folder: Path) -> str:
    """The client secret of the folder; made on first use, readable by its owner only."""
    file = folder / "client-secret"
    if not file.exists():
        write_private(file, secrets.token_urlsafe(24).encode())
    return file.read_text().strip()


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
