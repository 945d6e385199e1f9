"""How the supervisor sees that a process is ready. Each probe takes at most two seconds."""

import json
import socket
import urllib.error
import urllib.request
from typing import Final

from deploy.local.ports import HOST

PROBE_S_MAX: Final = 2.0
BODY_BYTES_MAX: Final = 65_536

_direct: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Never by way of a proxy: everything asked here is on this machine."""


def http_missing(url: str) -> str | None:
    """None when a GET answers 2xx, otherwise why not; failed `checks` of /readyz by name."""
    try:
        with _direct.open(url, timeout=PROBE_S_MAX):
            return None
    except urllib.error.HTTPError as error:
        with error:
            return failed_checks(error.read(BODY_BYTES_MAX)) or f"{url} answers {error.code}"
    except (OSError, ValueError) as error:
        return f"{url}: {getattr(error, 'reason', error)}"


def failed_checks(body: bytes) -> str:
    """`name: what is missing` for the checks of a readiness document that are not ok."""
    try:
        checks = json.loads(body)["checks"]
        return ", ".join(f"{name}: {line}" for name, line in checks.items() if line != "ok")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def redis_missing(port: int) -> str | None:
    """None when Redis answers a PING, otherwise why not (it may still load its data)."""
    try:
        with socket.create_connection((HOST, port), timeout=PROBE_S_MAX) as connection:
            connection.sendall(b"PING\r\n")
            answer = connection.recv(64)
    except OSError as error:
        return str(error)
    return None if answer.startswith(b"+PONG") else answer.decode(errors="replace").strip()


def is_open(port: int) -> bool:
    """Whether something accepts connections on the port."""
    try:
        socket.create_connection((HOST, port), timeout=PROBE_S_MAX).close()
    except OSError:
        return False
    return True
