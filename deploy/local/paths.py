"""Where the embedded platform keeps and finds things. Standard library only."""

import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
"""The checkout."""

HERE: Final = Path(__file__).resolve().parent

HOME_NAME: Final = ".meridian"
HOME_VARIABLE: Final = "MERIDIAN_HOME"
CACHE_VARIABLE: Final = "MERIDIAN_CACHE"


def cache(environ: Mapping[str, str] | None = None) -> Path:
    """Folder for what can be downloaded again: `MERIDIAN_CACHE`, else `.cache` in the checkout."""
    configured = (os.environ if environ is None else environ).get(CACHE_VARIABLE)
    return Path(configured).expanduser().resolve() if configured else ROOT / ".cache"


def site_packages() -> Path:
    """Where the running interpreter has its packages."""
    return Path(sysconfig.get_paths()["purelib"])


def home(
    chosen: Path | None, *, environ: Mapping[str, str] | None = None, start: Path | None = None
) -> Path:
    """The platform's home: as chosen, else `MERIDIAN_HOME`, else `.meridian` here or above.

    When there is none yet it is `.meridian` in the current folder; nothing is created here.
    """
    if chosen is not None:
        return chosen.expanduser().resolve()
    configured = (os.environ if environ is None else environ).get(HOME_VARIABLE)
    if configured:
        return Path(configured).expanduser().resolve()
    folder = (Path.cwd() if start is None else start).resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / HOME_NAME).is_dir():
            return candidate / HOME_NAME
    return folder / HOME_NAME
