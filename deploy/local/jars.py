"""Fetches Kafka's jars with the Ivy that PySpark's wheel carries. Standard library only.

The jars land in `<cache>/jars/broker-<hash of jars.lock>`, which exists only when it is complete:
they are collected in a folder beside it, compared with the SHA-256 sums of `jars.lock`, and moved
there in one step. An interrupted run leaves nothing that a later one would take for finished.
"""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from deploy.local import paths
from deploy.local.errors import SetupFailed
from deploy.local.java import Java

MIRROR_VARIABLE: Final = "MERIDIAN_JAR_MIRROR"
TRUST_STORE_VARIABLE: Final = "MERIDIAN_JAVA_TRUST_STORE"
SYSTEM_TRUST_STORE: Final = Path("/etc/ssl/certs/java/cacerts")
"""Where Debian keeps the machine's certificates for every Java but a packaged one."""
LOCK: Final = paths.HERE / "jars.lock"

INCOMPLETE: Final = ".incomplete-"
ATTEMPTS_MAX: Final = 3
ATTEMPT_S_MAX: Final = 900.0
LOG_CHARACTERS_SHOWN: Final = 1_500


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the jars are fetched with."""

    java: Java
    site_packages: Path
    """Has PySpark in it, and with that Ivy."""
    cache: Path
    environ: Mapping[str, str]


def folder(cache: Path) -> Path:
    """Where the jars of the present lock file are, or will be."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    return cache / "jars" / f"broker-{digest}"


def fetch(inputs: Inputs) -> Path:
    """Makes sure that the jars are there and returns their folder; SetupFailed when it cannot be.

    What was fetched before is not fetched again.
    """
    target = folder(inputs.cache)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob(f"{INCOMPLETE}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=INCOMPLETE) as text:
        collected = Path(text) / "jars"
        resolve(ivy_command(inputs), into=collected)
        check(collected, expected=read_lock(LOCK.read_text()))
        collected.replace(target)
    return target


def ivy_command(inputs: Inputs) -> list[str]:
    """The command that resolves everything; the place for the jars is added by `resolve`."""
    environ = inputs.environ
    ivy_jars = sorted((inputs.site_packages / "pyspark" / "jars").glob("ivy-*.jar"))
    if not ivy_jars:
        raise SetupFailed(
            f"Ivy is missing in {inputs.site_packages}: remove the folder .venv and run "
            "'make setup'."
        )
    mirror = environ.get(MIRROR_VARIABLE, "").rstrip("/")
    trust_store = environ.get(TRUST_STORE_VARIABLE) or packaged_trust_store(inputs)
    return [
        str(inputs.java.executable),
        *(["-Dmeridian.jar.resolver=mirror", f"-Dmeridian.jar.mirror={mirror}"] if mirror else []),
        *([f"-Djavax.net.ssl.trustStore={trust_store}"] if trust_store else []),
        *proxy_options(environ),
        *("-cp", str(ivy_jars[0]), "org.apache.ivy.Main"),
        *("-settings", str(paths.HERE / "ivysettings.xml")),
        *("-ivy", str(paths.HERE / "ivy.xml")),
        *("-cache", str(inputs.cache / "ivy")),
        *("-confs", "broker", "-types", "jar", "bundle", "-warn"),
    ]


def packaged_trust_store(inputs: Inputs) -> str | None:
    """For the Java of a package, which brings its own certificates: the machine's, if it has any.

    A machine behind a proxy that inspects TLS trusts that proxy there.
    """
    is_packaged = inputs.java.executable.is_relative_to(inputs.site_packages)
    return str(SYSTEM_TRUST_STORE) if is_packaged and SYSTEM_TRUST_STORE.exists() else None


def proxy_options(environ: Mapping[str, str]) -> list[str]:
    """Java's proxy options from HTTPS_PROXY and HTTP_PROXY, which Java does not read itself."""
    options: list[str] = []
    for scheme in ("https", "http"):
        name = f"{scheme}_proxy"
        address = urlsplit(environ.get(name) or environ.get(name.upper()) or "")
        if address.hostname:
            options += [
                f"-D{scheme}.proxyHost={address.hostname}",
                f"-D{scheme}.proxyPort={address.port or 80}",
            ]
    return options


def resolve(command: list[str], *, into: Path) -> None:
    """Runs Ivy, again when a download broke off; SetupFailed with the end of what it said."""
    pattern = str(into / "[artifact]-[revision](-[classifier]).[ext]")
    said = ""
    for _ in range(ATTEMPTS_MAX):
        try:
            answer = subprocess.run(
                [*command, "-retrieve", pattern],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=ATTEMPT_S_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            said = f"no result within {ATTEMPT_S_MAX:.0f} s"
            continue
        if answer.returncode == 0:
            return
        said = answer.stdout[-LOG_CHARACTERS_SHOWN:].strip()
    raise SetupFailed(
        f"Kafka's jars could not be fetched. Set {MIRROR_VARIABLE} to a Maven mirror that can be "
        f"reached, and {TRUST_STORE_VARIABLE} when TLS is inspected on the way. Ivy said:\n{said}"
    )


def check(collected: Path, *, expected: Mapping[str, str]) -> None:
    """Compares the jars with the lock file; SetupFailed naming every difference."""
    found = sums(collected)
    wrong = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    if wrong:
        raise SetupFailed(
            f"These jars are not what deploy/local/jars.lock says: {', '.join(wrong)}. Remove the "
            "cache folder and run 'make setup' again; after a change of ivy.xml run 'make lock'."
        )


def sums(collected: Path) -> dict[str, str]:
    """SHA-256 in hex of every jar in a folder, by file name."""
    return {
        jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in collected.glob("*.jar")
    }


def read_lock(text: str) -> dict[str, str]:
    """Reads `<sha256>  <file name>` lines into sums by file name."""
    pairs = (line.split() for line in text.splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def write_lock(collected: Path) -> str:
    """The text of a lock file for the jars of a folder."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums(collected).items()))


def relock(inputs: Inputs) -> None:
    """Resolves `ivy.xml` anew and writes the sums of what came to `jars.lock`."""
    collected = inputs.cache / "jars" / ".relock"
    shutil.rmtree(collected, ignore_errors=True)
    resolve(ivy_command(inputs), into=collected)
    LOCK.write_text(write_lock(collected))
    shutil.rmtree(collected)
