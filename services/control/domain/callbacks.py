"""Callback URLs: their form, and whether the addresses behind their hosts are permitted.

The same rules hold again when a callback is made; here they spare the user a subscription that
could never be delivered.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from libs.common import addresses
from libs.common.settings import IpNetwork
from services.control.domain.faults import Fault, Place

_PRINTABLE: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")


@dataclass(frozen=True, slots=True)
class Callback:
    """A callback URL at its place in the document."""

    place: Place
    url: str


@dataclass(frozen=True, slots=True)
class Policy:
    """What the platform permits."""

    allow_http: bool
    allowed_networks: Sequence[IpNetwork]


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A host whose addresses could not be found, and why."""

    reason: str


Resolution = tuple[str, ...] | Unresolved
"""The addresses behind a host."""


def hosts(callbacks: Iterable[Callback], policy: Policy) -> set[str]:
    """The hosts to be resolved: those of the URLs whose form is right."""
    return {
        host_of(callback.url) for callback in callbacks if url_fault(callback.url, policy) is None
    }


def host_of(url: str) -> str:
    """The host of a URL whose form is right, in lower case, IPv6 addresses without brackets."""
    return urlsplit(url).hostname or ""


def faults(
    callbacks: Iterable[Callback], resolved: Mapping[str, Resolution], policy: Policy
) -> Iterator[Fault]:
    """What is wrong with each callback; `resolved` has the hosts that `hosts` gave."""
    for callback in callbacks:
        wrong = url_fault(callback.url, policy)
        if wrong is None:
            host = host_of(callback.url)
            wrong = host_fault(host, resolved[host], policy)
        if wrong is not None:
            yield Fault(callback.place, wrong)


def url_fault(url: str, policy: Policy) -> str | None:
    """What is wrong with the form of a URL; None when nothing is."""
    if not _PRINTABLE.fullmatch(url) or "\\" in url:
        return "has to be a URL of printable ASCII characters without spaces and backslashes"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"is not a URL: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "has to be an absolute URL: https://<host>/<path>"
    if parts.scheme == "http" and not policy.allow_http:
        return "has to begin with https://; http is not allowed on this platform"
    if port == 0:
        return "names port 0"
    return _authority_fault(parts)


def _authority_fault(parts: SplitResult) -> str | None:
    host = parts.hostname or ""
    if "@" in parts.netloc:
        return "has to be without user name and password"
    if parts.fragment:
        return "has to be without a fragment (#...)"
    if "%" in host or not (addresses.is_ip_literal(host) or _NAME.fullmatch(host)):
        return f"names no valid host: {host}"
    return None


def host_fault(host: str, resolution: Resolution, policy: Policy) -> str | None:
    """Why events may not go to a host; None when every address behind it is permitted."""
    if isinstance(resolution, Unresolved):
        return f"names host {host}, which cannot be resolved: {resolution.reason}"
    if not resolution:
        return f"names host {host}, which has no address"
    for address in resolution:
        refused = addresses.refusal(address, policy.allowed_networks)
        if refused is not None:
            return f"names host {host}, which is not permitted: {refused}"
    return None
