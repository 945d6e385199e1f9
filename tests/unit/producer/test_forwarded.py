"""Which request headers travel with an event."""

import re

import pytest

from libs.common.errors import InvalidRequest
from services.producer.domain.forwarded import BYTES_MAX, NAMES_MAX, HeaderFilter
from services.producer.settings import DROPPED_HEADERS_DEFAULT


@pytest.mark.parametrize(
    "name",
    [
        "x-spacegate-token",
        "authorization",
        "content-length",
        "host",
        "accept",
        "accept-encoding",
        "x-forwarded-for",
        "cookie",
    ],
)
def test_what_horizon_drops_is_dropped(name: str) -> None:
    assert HeaderFilter(DROPPED_HEADERS_DEFAULT).forwarded({name: ["v"], "x-custom": ["v"]}) == {
        "x-custom": ["v"]
    }


@pytest.mark.parametrize(
    "name",
    [
        "connection",
        "transfer-encoding",
        "expect",
        "content-type",
        "proxy-authorization",
        "ce-id",
        "traceparent",
        "x-b3-traceid",
        "b3",
    ],
)
def test_what_belongs_to_this_one_request_never_travels(name: str) -> None:
    assert HeaderFilter(()).forwarded({name: ["v"]}) == {}


@pytest.mark.parametrize("name", ["x-authorization", "my-host", "user-agent", "tracestate", "ace"])
def test_patterns_match_whole_names(name: str) -> None:
    assert HeaderFilter(DROPPED_HEADERS_DEFAULT).forwarded({name: ["v"]}) == {name: ["v"]}


def test_own_patterns_replace_the_default() -> None:
    headers = {"cookie": ["c"], "x-secret-a": ["s"], "x-b": ["b"]}
    assert HeaderFilter(["x-secret.*"]).forwarded(headers) == {"cookie": ["c"], "x-b": ["b"]}


def test_alternatives_in_a_pattern_stay_inside_it() -> None:
    assert HeaderFilter(["x-a|x-b"]).forwarded({"x-a": ["1"], "x-abc": ["2"]}) == {"x-abc": ["2"]}


def test_several_values_are_kept_in_order_and_equal_ones_once() -> None:
    assert HeaderFilter(DROPPED_HEADERS_DEFAULT).forwarded({"x-a": ["2", "1", "2"]}) == {
        "x-a": ["2", "1"]
    }


def test_a_pattern_that_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(re.error):
        HeaderFilter(["("])


def test_headers_are_bounded_in_number_and_bytes() -> None:
    many = {f"x-{number}": ["v"] for number in range(NAMES_MAX)}
    assert len(HeaderFilter(DROPPED_HEADERS_DEFAULT).forwarded(many)) == NAMES_MAX
    with pytest.raises(InvalidRequest, match="at most 100 headers"):
        HeaderFilter(DROPPED_HEADERS_DEFAULT).forwarded({**many, "x-more": ["v"]})
    assert HeaderFilter(DROPPED_HEADERS_DEFAULT).forwarded({"x-a": ["v" * (BYTES_MAX - 3)]})
    with pytest.raises(InvalidRequest, match="16384 bytes"):
        HeaderFilter(DROPPED_HEADERS_DEFAULT).forwarded({"x-a": ["v" * (BYTES_MAX - 2)]})


def test_dropped_headers_do_not_count() -> None:
    assert HeaderFilter(DROPPED_HEADERS_DEFAULT).forwarded({"cookie": ["v" * BYTES_MAX]}) == {}
