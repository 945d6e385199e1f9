"""An event as it came: its attributes parsed, its data untouched.

The body is scanned once, by a JSON scanner that copies nothing. `data` stays the bytes that were
sent; only the attributes become Python values.
"""

import base64
import re
from itertools import accumulate
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import msgspec

from libs.common.errors import UnreadableBody, UnsupportedMediaType, Violation
from services.producer.domain import content
from services.producer.domain.content import Headers

T = TypeVar("T")

DEPTH_MAX: Final = 256
"""Deepest nesting of a body: every later reader's own limit lies above it."""

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_DATA: Final = "data"
_NOT_AS_HEADER: Final = frozenset({"data", "data_base64", "datacontenttype"})


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes (`data_base64` among them) without unset ones, and data as raw JSON, if any."""

    attributes: dict[str, Any]
    data: msgspec.Raw | None = None
    faults: list[Violation] = []
    """What was already found to be wrong while reading."""

    @property
    def data_bytes(self) -> int:
        """Size of the data as it will stand in the event: JSON, or text in base64."""
        if self.data is not None:
            return len(memoryview(self.data))
        encoded = self.attributes.get("data_base64")
        return len(encoded) if isinstance(encoded, str) else 0


class _Name:
    """A member name that equals no other, so that a dictionary keeps repeated ones."""

    def __init__(self, text: str) -> None:
        self.text = text


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_names = msgspec.json.Decoder(dict[_Name, msgspec.Raw], dec_hook=lambda _, text: _Name(text))
_values = msgspec.json.Decoder()
_raw = msgspec.json.Decoder(msgspec.Raw)
_encoder = msgspec.json.Encoder()


def from_json(body: bytes) -> Parts:
    """The event in a JSON object; raises UnreadableBody for what is none."""
    members = _scanned(_members, body)
    _check_text(body)
    data = members.pop(_DATA, None)
    compact = _encoder.encode(members)
    try:
        values: dict[str, Any] = _values.decode(compact)
    except msgspec.DecodeError as error:
        raise UnreadableBody(f"An attribute of the event cannot be read: {error}.") from None
    return Parts(
        attributes={name: value for name, value in values.items() if value is not None},
        data=data,
        faults=_repeated_names(body, unlike_bytes=_compact_bytes(compact, data)),
    )


def from_binary(headers: Headers, body: bytes) -> Parts:
    """The event of a request in binary mode: `ce-*` headers, the body is the data.

    A body whose content type is JSON becomes `data`, any other `data_base64`. Raises UnreadableBody
    for a body that is not the JSON that it claims to be, UnsupportedMediaType for one without type.
    """
    attributes, faults = _from_headers(headers)
    content_type = content.single(headers, "content-type")
    if content_type:
        attributes["datacontenttype"] = content_type
    if not body:
        return Parts(attributes=attributes, faults=faults)
    if not content_type:
        raise UnsupportedMediaType("Header Content-Type is missing: it says what the body is.")
    if content.is_json(content.media_type_of(content_type)):
        return Parts(attributes=attributes, data=_json_data(body), faults=faults)
    attributes["data_base64"] = base64.b64encode(body).decode("ascii")
    return Parts(attributes=attributes, faults=faults)


def pointer(name: str) -> str:
    """The JSON pointer (RFC 6901) to a member of the event."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _from_headers(headers: Headers) -> tuple[dict[str, Any], list[Violation]]:
    attributes: dict[str, Any] = {}
    faults = []
    for header, values in headers.items():
        if not header.startswith(content.BINARY_PREFIX):
            continue
        name = header.removeprefix(content.BINARY_PREFIX)
        if name in _NOT_AS_HEADER:
            faults.append(Violation(pointer(name), f"is not taken as header {header}"))
        elif len(values) > 1:
            faults.append(Violation(pointer(name), f"header {header} is taken once"))
        else:
            attributes[name] = _percent_decoded(values[0])
    return attributes, faults


def _percent_decoded(value: str) -> str:
    """Percent-encoded UTF-8 as text; what is none is kept as it is, field rules judge it."""
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        return value


def _json_data(body: bytes) -> msgspec.Raw:
    data = _scanned(_raw, body)
    _check_text(body)
    return data


def _scanned(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except RecursionError:
        raise _too_deep() from None
    except msgspec.ValidationError:
        raise UnreadableBody("The body is JSON, but not an object with one event.") from None
    except msgspec.DecodeError as error:
        raise UnreadableBody(
            f"The body is not JSON, although its content type says so: {error}."
        ) from None


def _check_text(body: bytes) -> None:
    """Raises UnreadableBody for what the scanner lets pass: broken UTF-8, deep nesting."""
    if not body.isascii():
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnreadableBody(f"The body is not UTF-8: byte {error.start} is wrong.") from None
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX and _depth(body) > DEPTH_MAX:
        raise _too_deep()


def _depth(body: bytes) -> int:
    """Deepest nesting of brackets outside strings, of valid JSON; some 30 ns a bracket.

    Not for anything else: a string that does not end would make the search quadratic.
    """
    brackets = _STRING.sub(b"", body).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def _too_deep() -> UnreadableBody:
    return UnreadableBody(f"The body is nested more than {DEPTH_MAX} levels deep.")


def _compact_bytes(compact: bytes, data: msgspec.Raw | None) -> int:
    """Length of the object when written without a space."""
    if data is None:
        return len(compact)
    comma = 0 if compact == b"{}" else 1
    return len(compact) + len('"data":') + len(memoryview(data)) + comma


def _repeated_names(body: bytes, *, unlike_bytes: int) -> list[Violation]:
    """Members that stand more than once: the scanner keeps the last, which would hide a loss.

    A body exactly as long as what was read from it has none; any other is read again, for names.
    """
    if len(body) == unlike_bytes:
        return []
    seen: set[str] = set()
    repeated: set[str] = set()
    for name in _names.decode(body):
        (repeated if name.text in seen else seen).add(name.text)
    return [Violation(pointer(name), "stands more than once") for name in sorted(repeated)]
