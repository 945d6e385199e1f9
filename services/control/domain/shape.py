"""Whether a document has its shape: every fault with its place, in plain words."""

import difflib
from collections.abc import Iterator
from typing import Any, Final

import jsonschema
from jsonschema import Draft202012Validator

from services.control.domain.faults import Fault, Place
from services.control.domain.schemas import Schema

VALUE_LENGTH_MAX: Final = 60
_TYPES: Final = {dict: "a map", list: "a list", type(None): "empty"}


class Shape:
    """A schema ready for use."""

    def __init__(self, schema: Schema) -> None:
        self._validator = Draft202012Validator(schema)

    def faults(self, document: Any) -> Iterator[Fault]:
        """All faults of the shape."""
        for error in self._validator.iter_errors(document):
            yield from _faults(error)


def _faults(error: jsonschema.ValidationError) -> Iterator[Fault]:
    place: Place = tuple(error.absolute_path)
    schema: Schema = error.schema if isinstance(error.schema, dict) else {}
    instance: Any = error.instance
    if error.validator == "required":
        for name in schema["required"]:
            if name not in instance:
                yield Fault((*place, name), "is missing")
    elif error.validator == "additionalProperties":
        known = list(schema["properties"])
        for name in instance:
            if name not in known:
                yield Fault((*place, name), f"is not a known field{_suggestion(name, known)}")
    else:
        yield Fault(place, f"has to be {schema['says']}, not {described(instance)}")


def _suggestion(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name[:VALUE_LENGTH_MAX], known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(known))}"


def described(value: Any) -> str:
    """A value in a few words, cut to a bounded length."""
    word = _TYPES.get(type(value))
    if word is not None:
        return word if not isinstance(value, list) else f"a list of {len(value)}"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return f"{text[:VALUE_LENGTH_MAX]}…" if len(text) > VALUE_LENGTH_MAX else text or "empty"
