"""Faults of a document: where, what, and whether it only asks for what this version lacks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from libs.common.errors import InvalidResource, NotAvailable, Violation

FAULTS_MAX: Final = 100
"""So many faults are listed; the detail says how many there are in all."""

Place = tuple[str | int, ...]
"""The way to a value: field names and list indexes from the top."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault at one place."""

    place: Place
    detail: str
    is_unavailable: bool = False
    """True when the value would be right in a platform that has the feature."""


def pointer(place: Place) -> str:
    """The place as a JSON pointer (RFC 6901)."""
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in place)
    return "".join(f"/{part}" for part in parts)


def refuse(faults: Iterable[Fault]) -> None:
    """Raises when there is a fault: InvalidResource, or NotAvailable when features are all."""
    found = sorted(
        set(faults), key=lambda fault: ([str(part) for part in fault.place], fault.detail)
    )
    if not found:
        return
    violations = [Violation(pointer(fault.place), fault.detail) for fault in found[:FAULTS_MAX]]
    if all(fault.is_unavailable for fault in found):
        raise NotAvailable(_summary("asks for features that are not available", found), violations)
    raise InvalidResource(_summary("breaks rules", found), violations)


def _summary(what: str, found: Sequence[Fault]) -> str:
    listed = "all of them are" if len(found) <= FAULTS_MAX else f"the first {FAULTS_MAX} are"
    return (
        f"The document {what} in {len(found)} place{'s' if len(found) > 1 else ''}; "
        f"{listed} in `errors`. Nothing was applied."
    )
