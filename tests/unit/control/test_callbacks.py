"""Callback URLs: only absolute ones, only to hosts that events may go to."""

from ipaddress import ip_network

import pytest

from services.control.domain import callbacks
from services.control.domain.callbacks import Callback, Policy, Resolution, Unresolved

STRICT = Policy(allow_http=False, allowed_networks=())
LOCAL = Policy(allow_http=True, allowed_networks=(ip_network("127.0.0.0/8"),))
PUBLIC = ("93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c")


def fault(url: str, resolution: Resolution = PUBLIC, policy: Policy = STRICT) -> str | None:
    found = [Callback(("callback",), url)]
    resolved = dict.fromkeys(callbacks.hosts(found, policy), resolution)
    faults = list(callbacks.faults(found, resolved, policy))
    return faults[0].detail if faults else None


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example/events",
        "https://shop.example:8443/events?a=b&c=%20",
        "HTTPS://Shop.Example",
        "https://[2606:2800::1]/events",
        "https://93.184.215.14/",
        "https://shop_1.example./x",
    ],
)
def test_absolute_https_urls_of_public_hosts_are_right(url: str) -> None:
    assert fault(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "shop.example/events",
        "/events",
        "//shop.example/events",
        "https:///events",
        "https:shop.example",
        "ftp://shop.example/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://user:secret@shop.example/",
        "https://@shop.example/",
        "https://shop.example/#part",
        "https://shop.example:0/",
        "https://shop.example:99999/",
        "https://shop.example:port/",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://sh op.example/",
        "https://shop.example/\u00e4",
        "https://sh\u00f6p.example/",
        "https://shop.example\\@evil.example/",
        "https://shop.example/\n",
        "https://-shop.example/",
        "https://" + "a" * 254 + "/",
    ],
)
def test_what_is_no_plain_absolute_url_is_refused_before_any_look_up(url: str) -> None:
    assert callbacks.hosts([Callback(("callback",), url)], LOCAL) == set()
    assert fault(url, policy=LOCAL) is not None


def test_http_needs_the_platform_s_permission() -> None:
    assert "https://" in (fault("http://shop.example/") or "")
    assert fault("http://shop.example/", policy=LOCAL) is None


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::",
        "fe80::1",
        "fec0::1",
        "fd00:ec2::254",
        "ff02::1",
    ],
)
def test_one_address_that_is_not_public_is_enough_to_refuse_a_host(address: str) -> None:
    assert "not permitted" in (fault("https://shop.example/", (*PUBLIC, address)) or "")


def test_an_allowed_network_permits_its_addresses_and_no_others() -> None:
    assert fault("http://localhost/", ("127.0.0.1",), LOCAL) is None
    assert fault("http://localhost/", ("::ffff:127.0.0.1",), LOCAL) is None
    assert fault("http://localhost/", ("::1",), LOCAL) is not None
    assert fault("http://inside/", ("10.0.0.1",), LOCAL) is not None


def test_a_host_that_cannot_be_resolved_is_refused_with_the_reason() -> None:
    assert "no such name" in (fault("https://shop.example/", Unresolved("no such name")) or "")
    assert "no address" in (fault("https://shop.example/", ()) or "")


def test_the_spelling_of_a_host_does_not_hide_it() -> None:
    found = [Callback(("a",), "https://SHOP.example:1/"), Callback(("b",), "https://shop.Example/")]
    assert callbacks.hosts(found, STRICT) == {"shop.example"}
