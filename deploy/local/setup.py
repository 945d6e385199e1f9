"""Prepares a checkout: `python3 -m deploy.local.setup`. Standard library only.

Runs before any package is installed and under whatever `python3` there is, so this file keeps to
syntax that an old Python can read, and loads the rest once the version is known to be enough.
"""

import importlib
import importlib.util
import sys

PYTHON_MIN = (3, 11)
NEEDED_MODULES = ("venv", "ensurepip")


def complaint(version: "tuple[int, ...]", missing: "list[str]") -> "str | None":
    """What is wrong with the interpreter, in one sentence, or None.

    `version` is (major, minor); `missing` names the modules that it lacks.
    """
    if version < PYTHON_MIN:
        return (
            f"Meridian needs Python 3.11 or newer, this is {version[0]}.{version[1]}: install one, "
            "or name it with 'make setup PYTHON=/path/to/python3.11'."
        )
    if missing:
        return (
            f"This Python lacks the module {' and '.join(missing)}: on Debian and Ubuntu install "
            "it with 'sudo apt install python3-venv', then repeat the command."
        )
    return None


def missing_modules() -> "list[str]":
    """Modules that a Python without its venv package does not have."""
    return [name for name in NEEDED_MODULES if importlib.util.find_spec(name) is None]


def main() -> None:
    """Ends with exit code 0 when everything is in place, 1 with a sentence when it cannot be."""
    problem = complaint(tuple(sys.version_info[:2]), missing_modules())
    if problem:
        sys.exit(problem)
    installation = importlib.import_module("deploy.local.installation")
    sys.exit(installation.main(sys.argv[1:]))


if __name__ == "__main__":
    main()
