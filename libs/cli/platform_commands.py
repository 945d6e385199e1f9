"""`up`, `down`, `status`, `demo`: run a platform on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.local import endpoints, invocation, launch, paths, ports, supervisor
from deploy.local.errors import NotRunning
from deploy.local.ports import Ports
from libs.cli import demo as demonstration
from libs.cli import output
from libs.cli.errors import CommandFailed
from libs.cli.options import HomeOption

PortBaseOption = Annotated[
    int,
    typer.Option(
        "--port-base",
        min=ports.BASE_MIN,
        max=ports.BASE_MAX,
        help="All ports follow from this one.",
    ),
]


def up(
    *,
    detach: Annotated[bool, typer.Option("--detach", help="Come back once it is ready.")] = False,
    home: HomeOption = None,
    port_base: PortBaseOption = ports.BASE_DEFAULT,
) -> None:
    """Start Kafka, Redis, a development issuer and every service; Ctrl-C stops them."""
    folder = paths.home(home)
    at = Ports(port_base)
    greeting = output.greeting(
        publish=ports.url(at.api("producer")),
        streams=ports.url(at.api("sse")),
        control=ports.url(at.api("control")),
        home=folder,
        next_steps=demonstration.first_steps(folder),
    )
    typer.echo(f"Starting; {demonstration.START_EXPECTED} ...")
    if not detach:
        supervisor.run(folder, at, say=typer.echo, greeting=greeting)
        return
    launch.start(folder, at, say=typer.echo)
    typer.echo("\n".join(greeting))


def down(*, home: HomeOption = None) -> None:
    """Stop the platform; what it holds stays for the next 'up'."""
    folder = paths.home(home)
    port_base = _port_base(folder)
    left = launch.stop(folder)
    if left is None:
        again = invocation.command("up", home=folder, port_base=port_base)
        typer.echo(f"Stopped. '{again}' goes on from here; state: {folder}")
    elif left:
        typer.echo(f"Stopped what an earlier platform had left running: {', '.join(left)}.")
    else:
        typer.echo(f"No platform was running in {folder}.")


def _port_base(folder: Path) -> int:
    """On which ports the platform in the folder runs, as far as is known."""
    try:
        return endpoints.read(folder).port_base
    except NotRunning:
        return ports.BASE_DEFAULT


def status(*, home: HomeOption = None) -> None:
    """Show what runs and what is not ready."""
    folder = paths.home(home)
    found = launch.status(folder)
    for name, state in found.items():
        typer.echo(f"{name:<16} {state}")
    if any(state != "ready" for state in found.values()):
        raise CommandFailed(f"Not everything is ready; the logs are in {folder / 'logs'}.")


def demo(
    *,
    events: Annotated[int, typer.Option(min=1, max=10_000, help="How many to publish.")] = 300,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the platform running.")] = False,
    home: HomeOption = None,
    port_base: PortBaseOption = ports.DEMO_BASE_DEFAULT,
) -> None:
    """Start a platform of its own, publish events, show them at a callback and on a stream."""
    plan = demonstration.Plan(
        home=paths.ROOT / ".meridian-demo" if home is None else paths.home(home),
        ports=Ports(port_base),
        events=events,
        keep=keep,
    )
    demonstration.run(plan, say=typer.echo)
