"""Measures rows and shows them: a table on standard output, `bench/out/latest.json` beside it.

Exit codes: 0 when every row was measured, whether it met its goal or not; 1 when one could not be;
2 for a row that does not exist.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench import result, rows, stage
from bench.result import Row
from bench.stage import PORT_BASE_DEFAULT, Stage
from deploy.local.errors import LocalError
from deploy.local.ports import Ports
from libs.cli.errors import CommandFailed
from libs.common.errors import PlatformError

LATEST: Final = Path(__file__).resolve().parent / "out" / "latest.json"


def say(line: str) -> None:
    """Progress goes to standard error, so that standard output holds the table only."""
    print(line, file=sys.stderr, flush=True)


def chosen(names: str) -> list[str]:
    """The rows named in a comma list, all of them for an empty one; ValueError for others."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in rows.MAIN]
    if unknown:
        raise ValueError(f"There is no row {', '.join(unknown)}; there are {', '.join(rows.MAIN)}.")
    return wanted or list(rows.MAIN)


def measured(on: Stage, name: str) -> Row:
    """One row; what keeps it from being measured is said in the row."""
    entry = rows.MAIN[name]
    on.say(f"{name} ...")
    try:
        return entry.measure(on)
    except (PlatformError, CommandFailed, OSError, ValueError, subprocess.TimeoutExpired) as error:
        reason = str(error) or type(error).__name__
        return result.unmeasured(name, unit=entry.unit, goal=entry.goal, reason=reason)


def run(names: Sequence[str], ports: Ports) -> int:
    """Measures the rows on a platform of its own; the exit code."""
    try:
        with stage.set_up(ports, say=say) as on:
            found = [measured(on, name) for name in names]
    except LocalError as error:
        say(str(error))
        return 1
    LATEST.parent.mkdir(parents=True, exist_ok=True)
    LATEST.write_bytes(result.as_json(found))
    print(result.table(found))
    return 0 if all(row.value is not None for row in found) else 1


def main() -> None:
    """Reads the arguments and runs."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--rows", default="", help="comma list; all main rows when empty")
    parser.add_argument("--port-base", type=int, default=PORT_BASE_DEFAULT)
    arguments = parser.parse_args()
    try:
        names, ports = chosen(arguments.rows), Ports(arguments.port_base)
    except ValueError as error:
        parser.error(str(error))
    sys.exit(run(names, ports))


if __name__ == "__main__":
    main()
