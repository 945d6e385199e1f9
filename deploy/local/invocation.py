"""How a person calls the command line here, so that hints can be copied. Standard library only.

The script `meridian` of the checkout says in `MERIDIAN_COMMAND` how it was called; the installed
command is called by its own name.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.local import paths, ports

COMMAND_VARIABLE: Final = "MERIDIAN_COMMAND"
NAME: Final = "meridian"
WITHOUT_PLATFORM: Final = frozenset({"sink"})
"""Commands that need no platform, hence no `--home`."""


def command(
    *words: str,
    home: Path | None = None,
    port_base: int = ports.BASE_DEFAULT,
    environ: Mapping[str, str] | None = None,
) -> str:
    """A command line to be typed in the current folder, e.g. `./meridian status --home x`.

    `--home` is added when the command would look elsewhere for the platform without it,
    `--port-base` when it is not the default one. Words are quoted where a shell needs it.
    """
    line = [program(environ=environ), *(shlex.quote(word) for word in words)]
    if WITHOUT_PLATFORM.intersection(words[:1]):
        return " ".join(line)
    if home is not None and paths.home(None, environ=environ) != home:
        line += ["--home", shlex.quote(str(home))]
    if port_base != ports.BASE_DEFAULT:
        line += ["--port-base", str(port_base)]
    return " ".join(line)


def program(*, environ: Mapping[str, str] | None = None, called: str | None = None) -> str:
    """The name under which the command line was started; `called` stands in for `sys.argv[0]`.

    A whole path is shortened to its name when the shell finds the same file by it.
    """
    variables = os.environ if environ is None else environ
    first = sys.argv[0] if called is None else called
    path = variables.get(COMMAND_VARIABLE) or (first if Path(first).name == NAME else NAME)
    if Path(path).is_absolute() and shutil.which(Path(path).name) == path:
        return Path(path).name
    return shlex.quote(path)
