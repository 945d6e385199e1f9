"""`listen`: reads a stream on the terminal."""

import asyncio
import json
import signal
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from libs.cli import output
from libs.cli.errors import CommandFailed
from libs.cli.event_stream import StreamEvent
from libs.cli.listener import Listener
from libs.cli.listening import Tally
from libs.cli.options import HomeOption, running

SECONDS_MAX: Final = 86_400.0
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def listen(
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="Event type.")],
    *,
    client_id: Annotated[
        str | None,
        typer.Option("--as", help="Client id; default: who subscribes to the type by stream."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--json", help="Print the events as they came, one a line.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="End after so many events.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--for", min=0.1, max=SECONDS_MAX, help="End after so many seconds."),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Read a stream and print its events, until Ctrl-C.

    Repeats are left out. Ends with 1 when the stream was taken over, or --count was not reached.
    """
    platform = running(home)
    stream = platform.find_stream(event_type, client_id=client_id)
    listener = Listener(
        platform=platform,
        base_url=platform.streams_url(),
        stream=stream,
        show=_show_raw if raw else _show,
        say=_say,
        tally=Tally(wanted=count),
    )
    _say(f"Listening to {event_type} as {stream.client_id} ({platform.url_of(stream)}) ...")
    try:
        asyncio.run(_until_stopped(listener, seconds))
    finally:
        _say(str(listener.tally))
    if count is not None and not listener.tally.is_enough:
        raise CommandFailed(
            f"{listener.tally.shown} of {count} events came: publish more, or wait longer (--for)."
        )


async def _until_stopped(listener: Listener, seconds: float | None) -> None:
    """The first signal ends the stream in order, a second one at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        stop.set()
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, end)
    if seconds is not None:
        loop.call_later(seconds, stop.set)
    await listener.run(stop)


def _show(event: StreamEvent) -> None:
    now = datetime.now().astimezone().time().isoformat(timespec="milliseconds")
    typer.echo(output.received(_document(event.data), {}, clock=now))


def _show_raw(event: StreamEvent) -> None:
    typer.echo(event.data)


def _document(data: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _say(line: str) -> None:
    typer.echo(line, err=True)
