"""Continuing a trace from B3 and W3C headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.common.trace import TraceContext, from_headers

TRACE = "463ac35c9f6413ad48485a3953bb6124"
SPAN = "a2fb4a1d1a96d312"
NEW = {
    24: "5b8efff798038103d269b633813fc60ceee19b7ec3c1b174",
    16: "0af7651916cd43dd8448eb211c80319c",
    8: "b7ad6b7169203331",
}


def continued(**headers: str) -> TraceContext:
    lower = {name.replace("_", "-"): [value] for name, value in headers.items()}
    return from_headers(lower, NEW.__getitem__)


def test_without_headers_a_sampled_trace_begins() -> None:
    assert continued() == TraceContext(trace_id=NEW[24][:32], span_id=NEW[24][32:])


def test_b3_headers_are_continued_by_a_child_span() -> None:
    found = continued(x_b3_traceid=TRACE, x_b3_spanid=SPAN, x_b3_sampled="0")
    assert found == TraceContext(
        trace_id=TRACE, span_id=NEW[8], parent_span_id=SPAN, is_sampled=False
    )


@pytest.mark.parametrize(
    ("text", "is_sampled", "is_debug"),
    [
        (f"{TRACE}-{SPAN}-1", True, False),
        (f"{TRACE}-{SPAN}-0-05e3ac9a4f6e3b90", False, False),
        (f"{TRACE}-{SPAN}-d", True, True),
        (f"{TRACE}-{SPAN}", True, False),
    ],
)
def test_the_single_b3_header_is_continued(text: str, is_sampled: bool, is_debug: bool) -> None:
    found = continued(b3=text)
    assert (found.trace_id, found.parent_span_id) == (TRACE, SPAN)
    assert (found.is_sampled, found.is_debug) == (is_sampled, is_debug)


def test_a_lone_b3_decision_starts_a_trace_that_is_not_sampled() -> None:
    assert continued(b3="0") == TraceContext(trace_id=NEW[16], span_id=NEW[8], is_sampled=False)


def test_traceparent_is_continued_and_wins_over_b3() -> None:
    other = "80f198ee56343ba864fe8b2a57d3eff7"
    found = continued(traceparent=f"00-{TRACE}-{SPAN}-00", x_b3_traceid=other, x_b3_spanid=SPAN)
    assert (found.trace_id, found.parent_span_id, found.is_sampled) == (TRACE, SPAN, False)


@pytest.mark.parametrize(
    "text",
    [
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        "nonsense",
    ],
)
def test_a_malformed_traceparent_counts_as_absent(text: str) -> None:
    assert continued(traceparent=text).trace_id == NEW[16]


def test_a_later_version_of_traceparent_is_continued() -> None:
    assert continued(traceparent=f"01-{TRACE}-{SPAN}-01-more").trace_id == TRACE


@pytest.mark.parametrize("trace_id", ["", "xyz", "0" * 32, TRACE + "0", "\r\n" + TRACE + "!"])
def test_a_malformed_b3_trace_id_is_replaced(trace_id: str) -> None:
    assert continued(x_b3_traceid=trace_id, x_b3_spanid=SPAN).trace_id == NEW[16]


def test_debug_stands_in_place_of_the_sampling_decision() -> None:
    found = continued(x_b3_traceid=TRACE, x_b3_spanid=SPAN, x_b3_flags="1")
    assert found.as_response_headers() == {"x-b3-traceid": TRACE, "x-b3-flags": "1"}


def test_a_short_trace_id_is_kept_for_b3_and_filled_up_for_w3c() -> None:
    headers = continued(x_b3_traceid=SPAN, x_b3_spanid=SPAN).as_headers()
    assert headers["x-b3-traceid"] == SPAN
    assert headers["traceparent"] == f"00-{'0' * 16}{SPAN}-{NEW[8]}-01"


@given(st.dictionaries(st.sampled_from(["b3", "traceparent", "x-b3-traceid"]), st.text()))
def test_whatever_comes_in_what_goes_out_is_well_formed(headers: dict[str, str]) -> None:
    found = from_headers({name: [value] for name, value in headers.items()}, NEW.__getitem__)
    again = from_headers({k: [v] for k, v in found.as_headers().items()}, NEW.__getitem__)
    assert again.trace_id in {found.trace_id, found.trace_id.zfill(32)}
    assert again.parent_span_id == found.span_id
