"""Reads Rover files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from libs.cli.errors import CommandFailed

FILE_BYTES_MAX: Final = 1_048_576
SUFFIXES: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rover:
    """One Rover document, as text: what it means is control's business."""

    name: str
    body: bytes
    """YAML, moved down by empty lines so that its line numbers are those of the file."""


def read(path: Path) -> list[Rover]:
    """All Rover documents of a file, or of the YAML files of a folder in the order of their names.

    Raises CommandFailed for what cannot be read or is no Rover.
    """
    rovers = [rover for file in files(path) for rover in read_file(file)]
    if not rovers:
        raise CommandFailed(f"{path} holds no document: a Rover file begins with 'kind: Rover'.")
    return rovers


def files(path: Path) -> list[Path]:
    """The file itself, or the YAML files of a folder."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not path.is_file():
        raise CommandFailed(
            f"There is no file {path}: name a Rover file, such as examples/quickstart.yaml, or a "
            "folder of them."
        )
    return [path]


def read_file(file: Path) -> Iterator[Rover]:
    """The documents of one file."""
    if file.stat().st_size > FILE_BYTES_MAX:
        raise CommandFailed(f"{file} is larger than {FILE_BYTES_MAX} bytes.")
    try:
        text = file.read_text(encoding="utf-8")
        for number, (first_line, document) in enumerate(split(text), start=1):
            content = yaml.load(document, Loader=yaml.BaseLoader)  # noqa: S506 - texts only
            if content:
                name = name_of(content, place=f"{file}, document {number}")
                yield Rover(name=name, body=("\n" * first_line + document).encode())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{file} is not YAML: {error}") from error


def split(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a YAML stream as text, each with the number of lines before it."""
    first_line, begin = 0, 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        mark = event.start_mark
        if mark and isinstance(event, yaml.DocumentStartEvent):
            first_line, begin = mark.line, mark.index
        elif mark and isinstance(event, yaml.DocumentEndEvent):
            yield first_line, text[begin : mark.index]


def name_of(document: object, *, place: str) -> str:
    """The name of a Rover; CommandFailed for what is none. The rest is checked by control."""
    if not isinstance(document, dict):
        raise CommandFailed(f"{place}: a Rover is a mapping that begins with 'kind: Rover'.")
    if document.get("kind") != "Rover":
        raise CommandFailed(
            f"{place}: kind is {document.get('kind')!r}, but only 'Rover' can be applied."
        )
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise CommandFailed(f"{place}: metadata.name is missing.")
    return name
