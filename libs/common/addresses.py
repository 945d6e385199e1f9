"""Which addresses a callback may go to.

Public addresses are permitted. Private, loopback, link-local (cloud metadata included), multicast,
reserved and unspecified ones are refused unless a listed network contains them.
"""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from libs.common.settings import IpNetwork

HOSTS_REMEMBERED_MAX = 4_096
NAT64 = IPv6Network("64:ff9b::/96")
GLOBAL_UNICAST = IPv6Network("2000::/3")
PLATFORM_SERVICES = (IPv4Address("168.63.129.16"),)
"""Public addresses that a cloud answers from inside, as a metadata service does."""


def refusal(address: str, allowed: Sequence[IpNetwork]) -> str | None:
    """None when the address is permitted, else why not."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return f"{address} is not an IP address"
    if isinstance(found, IPv6Address):
        found = _carried(found)
    if _is_public(found) or any(
        found.version == network.version and found in network for network in allowed
    ):
        return None
    return f"{found} is not a public address, and no allowed network contains it"


@lru_cache(HOSTS_REMEMBERED_MAX)
def is_ip_literal(host: str) -> bool:
    """True when the host of a URL is an address and no name."""
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _carried(address: IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 address stands for (mapped, 6to4, NAT64), else itself."""
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if address.is_multicast or address in PLATFORM_SERVICES:
        return False
    if isinstance(address, IPv6Address) and address not in GLOBAL_UNICAST:
        return False
    return address.is_global
