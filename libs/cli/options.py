"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.local import endpoints, paths
from libs.cli.client import Platform

HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home", help="Folder of the platform.", envvar=paths.HOME_VARIABLE, show_default=False
    ),
]
"""Without it: MERIDIAN_HOME, then `.meridian` here or above."""


def running(home: Path | None) -> Platform:
    """The platform that runs in the home; NotRunning when none does."""
    folder = paths.home(home)
    return Platform(endpoints.read(folder), home=folder)
