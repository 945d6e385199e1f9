"""The rules of an event's fields. All violations are found at once, at most one a field.

The rules are Horizon's for `application/json`. For the CloudEvents types any non-empty id does and
data may be absent. Names and values of extension attributes follow CloudEvents 1.0.2, section 3.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from libs.common.errors import Violation
from services.producer.domain.content import Mode
from services.producer.domain.parts import Parts, pointer

ATTRIBUTES_MAX: Final = 100
INTEGER_MAX: Final = 2_147_483_647

_UUID: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    re.IGNORECASE | re.ASCII,
)
_TYPE: Final = re.compile(r"[A-Za-z0-9.-]+")
_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})", re.ASCII
)
_NULL: Final = msgspec.Raw(b"null")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_EXTENSION: Final = re.compile(r"[a-z0-9]+")
_BASE64: Final = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII
)

_MISSING: Final = "is missing or blank"

Check = Callable[[Any], str | None]
"""What is wrong with the value of a field that is there, in words; None when nothing is."""


def violations(parts: Parts, mode: Mode) -> list[Violation]:
    """Everything that is wrong with the event; empty for a good one."""
    attributes = parts.attributes
    checks = _CHECKS[mode]
    found = list(parts.faults)
    found.extend(
        Violation(pointer(name), _MISSING) for name in sorted(_REQUIRED - attributes.keys())
    )
    for name, value in attributes.items():
        check = checks.get(name)
        if check is not None and (detail := check(value)) is not None:
            found.append(Violation(pointer(name), detail))
    found.extend(_data_violations(parts, mode))
    if len(attributes) > ATTRIBUTES_MAX:
        found.append(Violation("", f"has more than {ATTRIBUTES_MAX} attributes"))
    else:
        found.extend(_extension_violations(attributes))
    return found


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return "has to be text"
    if not value.isprintable() and _CONTROL.search(value):
        return "must not hold control characters"
    return None


def _required(value: Any) -> str | None:
    if isinstance(value, str) and not value.strip():
        return _MISSING
    return _text(value)


def _uuid(value: Any) -> str | None:
    wrong = _required(value)
    if wrong is None and not _UUID.fullmatch(value):
        return "has to be a UUID of version 1 to 8, like 018f3c1e-7a52-7bd0-9c1f-2f6d1c1a9b10"
    return wrong


def _type(value: Any) -> str | None:
    wrong = _required(value)
    if wrong is None and not _TYPE.fullmatch(value):
        return "may hold letters, digits, dots and dashes only"
    return wrong


def _time(value: Any) -> str | None:
    wrong = _text(value)
    if wrong is not None:
        return wrong
    if _TIME.fullmatch(value):
        try:
            datetime.fromisoformat(value)
        except ValueError as error:
            return f"is no moment: {error}"
        return None
    return "has to be ISO-8601 with seconds and an offset, like 2026-11-20T10:00:00Z"


def _encoded(value: Any) -> str | None:
    if not isinstance(value, str) or not _BASE64.fullmatch(value):
        return "has to be text in base64"
    return None


_REQUIRED: Final = frozenset({"id", "type", "source", "specversion"})
_CLOUDEVENTS: Final[Mapping[str, Check]] = {
    "id": _required,
    "type": _type,
    "source": _required,
    "specversion": _required,
    "time": _time,
    "datacontenttype": _text,
    "dataref": _text,
    "dataschema": _text,
    "subject": _text,
    "partitionkey": _required,
    "data_base64": _encoded,
}
_CHECKS: Final[Mapping[Mode, Mapping[str, Check]]] = {
    Mode.JSON: {**_CLOUDEVENTS, "id": _uuid},
    Mode.STRUCTURED: _CLOUDEVENTS,
    Mode.BINARY: _CLOUDEVENTS,
}


def _data_violations(parts: Parts, mode: Mode) -> list[Violation]:
    has_data = parts.data is not None and parts.data != _NULL
    has_encoded = "data_base64" in parts.attributes
    if has_data and has_encoded:
        return [Violation("/data_base64", "must not stand beside data")]
    if mode is Mode.JSON and not (has_data or has_encoded or "dataref" in parts.attributes):
        return [Violation("/data", "is missing: an event has data or dataref")]
    return []


def _extension_violations(attributes: Mapping[str, Any]) -> list[Violation]:
    return [
        Violation(pointer(name), detail)
        for name, value in attributes.items()
        if name not in _CLOUDEVENTS and (detail := _extension(name, value)) is not None
    ]


def _extension(name: str, value: Any) -> str | None:
    if not _EXTENSION.fullmatch(name):
        return "is no attribute name: these have lower-case letters and digits only"
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return None if -INTEGER_MAX - 1 <= value <= INTEGER_MAX else "has to fit into 32 bits"
    if not isinstance(value, str):
        return "has to be text, a whole number, true or false"
    return _text(value)
