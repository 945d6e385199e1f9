"""`token`, `publish`, `event`, `sink`: send events, follow them, receive them."""

import asyncio
import signal
import socket
import time
import uuid
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from deploy.local import invocation, probes
from deploy.local.ports import HOST, Ports
from libs.cli import envelope, event_story, output, receiver
from libs.cli.client import Platform
from libs.cli.errors import CommandFailed
from libs.cli.event_search import Search
from libs.cli.options import HomeOption, running
from libs.common import clock, http_server, log
from libs.common.settings import KafkaSettings

LOOK_AGAIN_S: Final = 0.5
WAIT_S_MAX: Final = 3_600.0


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
    made = envelope.event(
        event_type,
        envelope.parse_data(data),
        event_id=event_id or str(uuid.uuid4()),
        source=source,
        now=datetime.now(UTC),
    )
    platform = running(home)
    client_id = publisher or platform.publisher_of(event_type)
    answer = platform.publish(made, client_id=client_id)
    typer.echo(f"Stored: event {made['id']}, published by {client_id}.")
    if answer.status == 202:
        typer.echo(f"Nobody is subscribed to {event_type}, so it is delivered to nobody.")
    typer.echo(f"What becomes of it: {platform.command('event', str(made['id']))}")


def event(
    event_id: Annotated[str, typer.Argument(metavar="EVENT_ID", help="The CloudEvents id.")],
    *,
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            min=0,
            max=WAIT_S_MAX,
            help="Seconds to wait until nothing more will happen to it.",
        ),
    ] = 0.0,
    home: HomeOption = None,
) -> None:
    """Show what became of an event: whom it matched, what was tried, what to do next."""
    platform = running(home)
    if not probes.is_open(Ports(platform.endpoints.port_base).kafka):
        raise CommandFailed(
            f"Kafka does not answer at {platform.endpoints.kafka}: see "
            f"'{platform.command('status')}'."
        )
    findings = _followed(platform, event_id, wait_s=wait)
    story = event_story.tell(findings, now=clock.utc_now(), command=platform.command)
    typer.echo("\n".join(story))
    if not event_story.is_found(findings):
        raise typer.Exit(1)


def _followed(platform: Platform, event_id: str, *, wait_s: float) -> event_story.Findings:
    """What is known about the event once it is settled, or when the time is over."""
    log.configure(service="meridian", instance="event", level="error")
    kafka = KafkaSettings(bootstrap_servers=platform.endpoints.kafka, properties={"log_level": "0"})
    search = Search(kafka, event_id)
    deadline_s = time.monotonic() + wait_s
    while True:
        findings = search.look()
        left_s = deadline_s - time.monotonic()
        if event_story.is_settled(findings) or left_s <= 0:
            return findings
        time.sleep(min(LOOK_AGAIN_S, left_s))


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

    app = receiver.create(behaviour, show)
    with _listening(port) as listener:
        typer.echo(
            f"Receiving at http://{HOST}:{port}/ (any path), answering {behaviour.status} ..."
        )
        await http_server.serve_on(listener, app, stop=stop, drain_s=5)


def _listening(port: int) -> socket.socket:
    try:
        return http_server.bind(HOST, port)
    except http_server.PortTaken as error:
        other = invocation.command("sink", "--port", str(port + 1 if port < 65_535 else port - 1))
        raise CommandFailed(
            f"Port {port} is taken or not permitted: stop what listens there, or take another port "
            f"('{other}') and name it as callback in the Rover file."
        ) from error
