"""`apply`: says who publishes and who receives."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.local.programs import ADMIN_CLIENT
from libs.cli import output, rover
from libs.cli.options import HomeOption, running


def apply(
    *,
    file: Annotated[Path, typer.Option("-f", "--file", help="A Rover file, or a folder of them.")],
    client_id: Annotated[
        str, typer.Option("--as", help="Client id to apply it as; default: the administrator.")
    ] = ADMIN_CLIENT,
    home: HomeOption = None,
) -> None:
    """Apply Rover files: create, change or remove exposures and subscriptions."""
    rovers = rover.read(file)
    platform = running(home)
    url = platform.endpoints.sse or ""
    exposed: list[str] = []
    for each in rovers:
        answer = platform.apply(each, client_id=client_id)
        typer.echo("\n".join(output.applied(answer, streams_url=url, command=platform.command)))
        exposed += [exposure["eventType"] for exposure in answer.get("exposures", [])]
    if exposed:
        publish = platform.command("publish", exposed[0], "--data", '{"hello": "world"}')
        typer.echo(f"Next: {publish}")
