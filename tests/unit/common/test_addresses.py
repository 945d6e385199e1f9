"""Which addresses a callback may go to."""

from ipaddress import ip_network

import pytest

from libs.common.addresses import is_ip_literal, refusal

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "100.128.0.1",
        "172.32.0.1",
        "2606:4700:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ],
)
def test_public_addresses_are_permitted(address: str) -> None:
    assert refusal(address, ()) is None


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "169.254.169.254",
        "168.63.129.16",
        "100.64.0.1",
        "100.127.255.254",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",
        "::127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001::1",
        "2001:db8::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
    ],
)
def test_whatever_is_not_public_is_refused_with_a_reason(address: str) -> None:
    reason = refusal(address, ())
    assert reason is not None
    assert "is not a public address" in reason


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1"]
)
def test_listed_networks_are_permitted(address: str) -> None:
    assert refusal(address, LOOPBACK) is None


@pytest.mark.parametrize("address", ["10.0.0.1", "fe80::1", "::ffff:10.0.0.1", "::2"])
def test_a_listed_network_permits_nothing_beside_it(address: str) -> None:
    assert refusal(address, LOOPBACK) is not None


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "2130706433", "0x7f000001", "8.8.8"])
def test_what_is_no_address_is_refused(text: str) -> None:
    assert refusal(text, LOOPBACK) == f"{text} is not an IP address"


@pytest.mark.parametrize(
    ("host", "is_literal"),
    [("10.0.0.1", True), ("::1", True), ("fe80::1%eth0", True), ("shop.example", False)],
)
def test_addresses_and_names_are_told_apart(host: str, is_literal: bool) -> None:
    assert is_ip_literal(host) is is_literal
