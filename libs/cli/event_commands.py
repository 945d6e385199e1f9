"""`token`, `publish`, `sink`: send events and receive them."""

import asyncio
import signal
import uuid
from datetime import UTC, datetime
from typing import Annotated

import typer

from deploy.local.ports import HOST
from libs.cli import envelope, output, receiver
from libs.cli.options import HomeOption, running
from libs.common import http_server


def token(
    client_id: Annotated[str, typer.Argument(help="For example eni--demo--shop.")],
    *,
    realm: Annotated[
        str | None, typer.Option("--realm", help="Default: the platform's environment.")
    ] = None,
    home: HomeOption = None,
) -> None:
    """Print an access token of a client, for use with curl; it lasts an hour."""
    platform = running(home)
    typer.echo(platform.token(client_id, realm=realm or platform.endpoints.realm))


def publish(
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="Event type.")],
    *,
    data: Annotated[str, typer.Option("--data", help="The payload as JSON.")],
    publisher: Annotated[
        str | None, typer.Option("--as", help="Client id; default: who exposes the type.")
    ] = None,
    event_id: Annotated[str | None, typer.Option("--id", help="Default: a new UUID.")] = None,
    source: Annotated[str, typer.Option("--source")] = envelope.SOURCE_DEFAULT,
    home: HomeOption = None,
) -> None:
    """Publish one event; the rest of its envelope is filled in."""
    event = envelope.event(
        event_type,
        envelope.parse_data(data),
        event_id=event_id or str(uuid.uuid4()),
        source=source,
        now=datetime.now(UTC),
    )
    platform = running(home)
    client_id = publisher or platform.publisher_of(event_type)
    answer = platform.publish(event, client_id=client_id)
    typer.echo(f"Stored: event {event['id']}, published by {client_id}.")
    if answer.status == 202:
        typer.echo(f"Nobody is subscribed to {event_type}, so it is delivered to nobody.")


def sink(
    *,
    port: Annotated[int, typer.Option("--port", min=1, max=65_535)],
    status: Annotated[
        int, typer.Option("--status", min=200, max=599, help="What every request is answered.")
    ] = 200,
    delay: Annotated[
        float, typer.Option("--delay", min=0, max=300, help="Seconds before the answer.")
    ] = 0.0,
) -> None:
    """Receive callbacks and print their events, until Ctrl-C."""
    behaviour = receiver.Behaviour(status=status, delay_s=delay)
    asyncio.run(_serve(behaviour, port))


async def _serve(behaviour: receiver.Behaviour, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    def show(received: receiver.Received) -> None:
        clock = datetime.now().astimezone().time().isoformat(timespec="milliseconds")
        typer.echo(output.received(received.event, received.headers, clock=clock))

    typer.echo(f"Receiving at http://{HOST}:{port}/ (any path), answering {behaviour.status} ...")
    app = receiver.create(behaviour, show)
    await http_server.serve(app, host=HOST, port=port, stop=stop, drain_s=5)
