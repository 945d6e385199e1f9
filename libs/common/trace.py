"""The trace that an event belongs to: read from request headers, continued, and written again.

Read are, in this order, W3C `traceparent`, the B3 headers `X-B3-*`, and the single header `b3`;
whatever does not have its exact form counts as absent. Written are B3 and W3C alike. Every step
that continues a trace is a span of its own, whose parent is the step before it. Pure: the ids come
in as an argument.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

NewIds = Callable[[int], str]
"""n to 2n random lower-case hexadecimal digits, e.g. `secrets.token_hex`."""

HEADER_NAMES: Final = frozenset(
    {
        "traceparent",
        "b3",
        "x-b3-traceid",
        "x-b3-spanid",
        "x-b3-parentspanid",
        "x-b3-sampled",
        "x-b3-flags",
    }
)
"""What `TraceContext.as_headers` replaces; `tracestate` is none of it and travels as it is."""

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{16}")
_SPAN_ID: Final = re.compile(r"[0-9a-f]{16}")


class TraceContext(msgspec.Struct, frozen=True, kw_only=True):
    """One span. Trace ids have 16 or 32 hexadecimal digits, span ids 16."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    is_sampled: bool = True
    is_debug: bool = False
    """B3's debug flag; a trace in debug mode is sampled."""

    def as_headers(self) -> dict[str, str]:
        """Lower-case B3 and W3C headers for a request that belongs to this span."""
        flags = "01" if self.is_sampled else "00"
        headers = {
            "x-b3-traceid": self.trace_id,
            "x-b3-spanid": self.span_id,
            "traceparent": f"00-{self.trace_id:0>32}-{self.span_id}-{flags}",
            **self._decision(),
        }
        if self.parent_span_id is not None:
            headers["x-b3-parentspanid"] = self.parent_span_id
        return headers

    def as_response_headers(self) -> dict[str, str]:
        """Lower-case headers by which a caller finds the trace."""
        return {"x-b3-traceid": self.trace_id, **self._decision()}

    def _decision(self) -> dict[str, str]:
        if self.is_debug:
            return {"x-b3-flags": "1"}
        return {"x-b3-sampled": "1" if self.is_sampled else "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Incoming:
    """What a caller said; without `trace_id` it only decided about sampling."""

    trace_id: str | None = None
    span_id: str | None = None
    is_sampled: bool = True
    is_debug: bool = False


def from_headers(headers: Mapping[str, Sequence[str]], new_ids: NewIds) -> TraceContext:
    """A new span of the trace in the headers, or of a new trace, which is sampled.

    Names are lower-case; of several values the first counts.
    """
    if HEADER_NAMES.isdisjoint(headers):
        ids = new_ids(24)
        return TraceContext(trace_id=ids[:32], span_id=ids[32:])
    incoming = _incoming(headers)
    return TraceContext(
        trace_id=incoming.trace_id or new_ids(16),
        span_id=new_ids(8),
        parent_span_id=incoming.span_id,
        is_sampled=incoming.is_sampled,
        is_debug=incoming.is_debug,
    )


_NOTHING: Final = _Incoming()


def _incoming(headers: Mapping[str, Sequence[str]]) -> _Incoming:
    return _w3c(headers) or _b3_multi(headers) or _b3_single(headers) or _NOTHING


def _first(headers: Mapping[str, Sequence[str]], name: str) -> str | None:
    values = headers.get(name)
    return values[0].strip().lower() if values else None


def _w3c(headers: Mapping[str, Sequence[str]]) -> _Incoming | None:
    text = _first(headers, "traceparent")
    match = _TRACEPARENT.fullmatch(text) if text else None
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    has_no_future = version == "ff" or (version == "00" and rest)
    if has_no_future or not _has_content(trace_id) or not _has_content(span_id):
        return None
    return _Incoming(trace_id=trace_id, span_id=span_id, is_sampled=bool(int(flags, 16) & 1))


def _b3_multi(headers: Mapping[str, Sequence[str]]) -> _Incoming | None:
    is_debug = _first(headers, "x-b3-flags") == "1"
    sampled = _first(headers, "x-b3-sampled")
    trace_id, span_id = _first(headers, "x-b3-traceid"), _first(headers, "x-b3-spanid")
    if trace_id is None and sampled is None and not is_debug:
        return None
    return _b3(trace_id, span_id, state="d" if is_debug else sampled)


def _b3_single(headers: Mapping[str, Sequence[str]]) -> _Incoming | None:
    text = _first(headers, "b3")
    if text is None:
        return None
    parts = text.split("-")
    if len(parts) == 1:
        return _b3(None, None, state=text)
    return _b3(parts[0], parts[1], state=parts[2] if len(parts) > 2 else None)


def _b3(trace_id: str | None, span_id: str | None, *, state: str | None) -> _Incoming:
    is_debug = state == "d"
    is_sampled = is_debug or state not in {"0", "false"}
    if not (trace_id and _TRACE_ID.fullmatch(trace_id) and _has_content(trace_id)):
        return _Incoming(is_sampled=is_sampled, is_debug=is_debug)
    if not (span_id and _SPAN_ID.fullmatch(span_id) and _has_content(span_id)):
        span_id = None
    return _Incoming(trace_id=trace_id, span_id=span_id, is_sampled=is_sampled, is_debug=is_debug)


def _has_content(hexadecimal: str) -> bool:
    """All zeros means: no id."""
    return hexadecimal.strip("0") != ""
