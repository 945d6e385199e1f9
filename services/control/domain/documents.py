"""A request body as a tree of plain values: YAML or JSON, one document, within bounds.

Of YAML the JSON part is taken: maps with text keys, lists, text, numbers, true, false, null, with
the spellings of YAML 1.2 (`yes` and `2026-01-01` are text). Aliases are refused, since a few of
them can stand for a billion values; tags and repeated keys are refused, since what they mean here
would be a guess.
"""

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from libs.common.errors import UnreadableBody, UnsupportedMediaType

DEPTH_MAX: Final = 32
VALUES_MAX: Final = 50_000
DIGITS_MAX: Final = 18

YAML_TYPES: Final = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
JSON_TYPE: Final = "application/json"

Document = dict[str, Any]

_NULLS: Final = ("", "~", "null", "Null", "NULL")
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_DECIMAL: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def read(body: bytes, *, content_type: str) -> Document:
    """The one document in a body; its top level is a map.

    Raises UnsupportedMediaType, or UnreadableBody saying what is wrong and where.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != JSON_TYPE and media_type not in YAML_TYPES:
        accepted = ", ".join((*YAML_TYPES, JSON_TYPE))
        raise UnsupportedMediaType(
            f"Content-Type is {media_type or 'missing'}; accepted are {accepted}."
        )
    text = _text(body)
    document = _from_json(text) if media_type == JSON_TYPE else _from_yaml(text)
    if not isinstance(document, dict):
        raise UnreadableBody("The document has to be a map of fields.")
    return document


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableBody(f"The document is not UTF-8: {error.reason}.") from error


def _from_json(text: str) -> Any:
    try:
        tree = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UnreadableBody(f"The body is not JSON: {error}.") from error
    _check_bounds(tree)
    return tree


def _unique(pairs: list[tuple[str, Any]]) -> Document:
    found: Document = {}
    for key, value in pairs:
        if key in found:
            raise UnreadableBody(f"Field {key} stands there twice.")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise UnreadableBody(f"{name} is not a JSON value.")


def _check_bounds(tree: Any) -> None:
    """Raises UnreadableBody over the bounds on depth, values, numbers, and for broken text."""
    waiting: list[tuple[int, Any]] = [(1, tree)]
    count = 0
    while waiting:
        depth, value = waiting.pop()
        count += 1
        _check_room(depth, count)
        if isinstance(value, dict):
            waiting.extend((depth, _checked(key)) for key in value)
            waiting.extend((depth + 1, inner) for inner in value.values())
        elif isinstance(value, list):
            waiting.extend((depth + 1, inner) for inner in value)
        else:
            _checked(value)


def _checked(value: Any) -> Any:
    if isinstance(value, str) and not _is_encodable(value):
        raise UnreadableBody("A text has half of a surrogate pair.")
    if isinstance(value, float) and not math.isfinite(value):
        raise UnreadableBody("A number is too large.")
    if isinstance(value, int) and abs(value) >= 10**DIGITS_MAX:
        raise UnreadableBody(f"A number has more than {DIGITS_MAX} digits.")
    return value


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_room(depth: int, count: int) -> None:
    if depth > DEPTH_MAX:
        raise UnreadableBody(f"The document is nested more than {DEPTH_MAX} levels deep.")
    if count > VALUES_MAX:
        raise UnreadableBody(f"The document has more than {VALUES_MAX} values.")


def _from_yaml(text: str) -> Any:
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else "?"
        raise UnreadableBody(f"The body is not YAML: line {line}: {error.problem}.") from error
    except yaml.YAMLError as error:
        raise UnreadableBody(f"The body is not YAML: {error}.") from error
    return builder.document()


@dataclass(slots=True)
class _Open:
    """A map or list that has begun and not ended; a map with the key whose value comes next."""

    container: dict[str, Any] | list[Any]
    key: str | None = None


@dataclass(slots=True)
class _Builder:
    """Builds the tree from the parser's events, one by one, without recursion."""

    _documents: list[Any] = field(default_factory=list)
    _open: list[_Open] = field(default_factory=list)
    _count: int = 0

    def document(self) -> Any:
        """The document; raises UnreadableBody when there was none."""
        if not self._documents:
            raise UnreadableBody("The body is empty.")
        return self._documents[0]

    def take(self, event: yaml.Event) -> None:
        """Takes the next event of the parser."""
        match event:
            case yaml.AliasEvent():
                raise UnreadableBody(f"{_at(event)}: aliases are not taken; write the value out.")
            case yaml.ScalarEvent():
                self._value(event, _scalar(event))
            case yaml.MappingStartEvent():
                self._begin(event, {})
            case yaml.SequenceStartEvent():
                self._begin(event, [])
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._open.pop()
            case _:
                pass

    def _begin(self, event: Any, container: dict[str, Any] | list[Any]) -> None:
        if event.tag is not None:
            raise UnreadableBody(f"{_at(event)}: tag {event.tag} is not taken.")
        self._value(event, container)
        self._open.append(_Open(container))

    def _value(self, event: yaml.Event, value: Any) -> None:
        self._count += 1
        _check_room(len(self._open) + 1, self._count)
        if not self._open:
            if self._documents:
                raise UnreadableBody(
                    f"{_at(event)}: a second document begins. Send one document a request."
                )
            self._documents.append(value)
            return
        _put(self._open[-1], event, value)


def _put(parent: _Open, event: yaml.Event, value: Any) -> None:
    if isinstance(parent.container, list):
        parent.container.append(value)
    elif parent.key is not None:
        parent.container[parent.key] = value
        parent.key = None
    else:
        parent.key = _key(parent.container, event, value)


def _key(container: dict[str, Any], event: yaml.Event, value: Any) -> str:
    if not isinstance(event, yaml.ScalarEvent) or not isinstance(value, str):
        raise UnreadableBody(f"{_at(event)}: a field's name has to be text.")
    if value in container:
        raise UnreadableBody(f"{_at(event)}: field {value} stands there twice.")
    return value


def _scalar(event: Any) -> Any:
    text: str = event.value
    is_plain, is_quoted = event.implicit
    if is_plain:
        return _plain(event, text)
    if not is_quoted and event.tag != "tag:yaml.org,2002:str":
        raise UnreadableBody(f"{_at(event)}: tag {event.tag} is not taken.")
    return text


def _plain(event: yaml.Event, text: str) -> Any:
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        if len(text) > DIGITS_MAX:
            raise UnreadableBody(f"{_at(event)}: a number has more than {DIGITS_MAX} digits.")
        return int(text)
    if _DECIMAL.fullmatch(text):
        value = float(text)
        if not math.isfinite(value):
            raise UnreadableBody(f"{_at(event)}: a number is too large.")
        return value
    return text


def _at(event: yaml.Event) -> str:
    mark = event.start_mark
    return "Somewhere" if mark is None else f"Line {mark.line + 1}"
