"""How a request carries its event: media types, CloudEvents modes and what is refused.

Rules: design contract "Publish", and the CloudEvents HTTP protocol binding 1.0.2, section 3.1.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from libs.common.errors import InvalidRequest, NotAvailable, UnsupportedMediaType, Violation

Headers = Mapping[str, Sequence[str]]
"""Lower-case names, each with its values in the order of the request."""

JSON: Final = "application/json"
CLOUDEVENTS_JSON: Final = "application/cloudevents+json"
BINARY_PREFIX: Final = "ce-"

_CLOUDEVENTS: Final = "application/cloudevents"
_BINARY_MARKS: Final = frozenset({"ce-specversion", "ce-id", "ce-type", "ce-source"})
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]*)", re.IGNORECASE)
_ACCEPTED: Final = (
    f"Send one event as {JSON} or {CLOUDEVENTS_JSON}, or in CloudEvents binary mode (headers ce-*)."
)


class Mode(StrEnum):
    """How the event stands in the request."""

    JSON = "json"
    """`application/json`: Horizon's stricter field rules."""
    STRUCTURED = "structured"
    """`application/cloudevents+json`."""
    BINARY = "binary"
    """Attributes in `ce-*` headers, the body is the data."""


def mode_of(headers: Headers) -> Mode:
    """How to read the event; raises UnsupportedMediaType, NotAvailable or InvalidRequest."""
    _refuse_what_is_missing(headers)
    content_type = single(headers, "content-type")
    media_type = media_type_of(content_type)
    is_binary = not _BINARY_MARKS.isdisjoint(headers)
    if is_binary and not media_type.startswith(_CLOUDEVENTS):
        return Mode.BINARY
    if media_type not in {JSON, CLOUDEVENTS_JSON}:
        raise UnsupportedMediaType(_refusal(media_type))
    charset = _CHARSET.search(content_type or "")
    if charset is not None and charset[1].lower() not in {"utf-8", "utf8", "us-ascii"}:
        raise UnsupportedMediaType(f"Charset {charset[1]} is not taken: JSON is sent as UTF-8.")
    return Mode.JSON if media_type == JSON else Mode.STRUCTURED


def single(headers: Headers, name: str) -> str | None:
    """The value of a header that may stand once; raises InvalidRequest when there are more."""
    values = headers.get(name)
    if not values:
        return None
    if len(values) > 1:
        raise InvalidRequest(
            f"Header {name} was sent {len(values)} times.",
            [Violation(f"/headers/{name}", "is taken once")],
        )
    return values[0]


def media_type_of(content_type: str | None) -> str:
    """Lower-case type and subtype without parameters; empty when there is none."""
    return (content_type or "").partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    """True for `*/json` and `*+json`."""
    return media_type.endswith(("/json", "+json"))


def _refuse_what_is_missing(headers: Headers) -> None:
    if "idempotency-key" in headers:
        raise NotAvailable(
            "Header Idempotency-Key is not available in this version; nothing was stored. "
            "Leave it out, and give a repeated event the same id.",
            [Violation("/headers/idempotency-key", "is not available in this version")],
        )
    encoding = single(headers, "content-encoding")
    if encoding is not None and encoding.strip().lower() not in {"", "identity"}:
        raise UnsupportedMediaType(
            f"Content-Encoding {encoding} is not taken: send the body uncompressed."
        )


def _refusal(media_type: str) -> str:
    if media_type == "":
        return f"Header Content-Type is missing. {_ACCEPTED}"
    if media_type.startswith("application/cloudevents-batch"):
        return f"Batches ({media_type}) are not available in this version. {_ACCEPTED}"
    return f"{media_type} is not taken here. {_ACCEPTED}"
