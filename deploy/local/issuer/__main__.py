"""Runs the issuer until SIGTERM: `python -m deploy.local.issuer --home DIR --port N`."""

import argparse
import asyncio
import signal
from pathlib import Path

from deploy.local import ports
from deploy.local.issuer import app, keys
from libs.common import http_server, log


def main() -> None:
    """Reads the arguments and serves."""
    parser = argparse.ArgumentParser(prog="issuer", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="folder of key and secret")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    log.configure(service="issuer", instance="issuer-0", level="info")
    asyncio.run(serve(arguments.home, arguments.port))


async def serve(home: Path, port: int) -> None:
    """Serves on loopback until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    issuer = app.create(
        key=keys.load_key(home), secret=keys.load_secret(home), base_url=ports.url(port)
    )
    await http_server.serve(issuer, host=ports.HOST, port=port, stop=stop, drain_s=5)


if __name__ == "__main__":
    main()
