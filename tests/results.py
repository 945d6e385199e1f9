"""Figures of long tests as files of `docs/results/`, each with what they were measured on."""

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka
import msgspec

ROOT = Path(__file__).parents[1]
JARS = ROOT / "deploy" / "local" / "jars.lock"


class Results:
    """Writes `<folder>/<name>.json`; a later run takes the place of an earlier one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, figures: Mapping[str, Any]) -> Path:
        """The file with the figures, below the conditions of this run."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"{name}.json"
        document = {"conditions": conditions(), "figures": figures}
        file.write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
        return file


def conditions() -> dict[str, Any]:
    """Date, versions, machine and revision; nothing that names the machine."""
    kafka = re.search(r"kafka_2\.13-([\d.]+)\.jar", JARS.read_text())
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "kafka": kafka.group(1) if kafka else None,
        "confluentKafka": confluent_kafka.__version__,
        "librdkafka": confluent_kafka.libversion()[0],
        "cores": os.cpu_count(),
        "memoryGiB": round(pages / 2**30, 1),
        "revision": _git("describe", "--always", "--dirty", "--abbrev=12"),
    }


def _git(*arguments: str) -> str | None:
    """What git says; None outside a repository."""
    answer = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or None
