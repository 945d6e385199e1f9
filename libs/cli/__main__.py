"""The command `meridian`. Exit code 0, 1 for what could not be done, 2 for wrong usage."""

import sys

import typer

from deploy.local import invocation
from libs.cli import event_commands, platform_commands, resource_commands, stream_commands
from libs.cli.errors import WrongUsage
from libs.common.errors import PlatformError

app = typer.Typer(
    name="meridian",
    help="Publish/subscribe with callbacks and streams, on real Kafka.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    platform_commands.up,
    platform_commands.down,
    platform_commands.status,
    platform_commands.demo,
    resource_commands.apply,
    event_commands.publish,
    event_commands.event,
    event_commands.sink,
    stream_commands.listen,
    event_commands.token,
):
    app.command()(command)


def main() -> None:
    """Runs the command; errors raised on purpose become one sentence on standard error."""
    try:
        app(prog_name=invocation.program())
    except PlatformError as error:
        print(f"meridian: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, WrongUsage) else 1)


if __name__ == "__main__":
    main()
