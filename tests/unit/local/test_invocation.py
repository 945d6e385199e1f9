"""Hints name the command as the person can type it."""

import shutil
from pathlib import Path

import pytest

from deploy.local import invocation
from deploy.local.paths import HOME_VARIABLE

SCRIPT = {invocation.COMMAND_VARIABLE: "./meridian"}


def test_the_script_is_called_as_it_was_called() -> None:
    assert invocation.command("status", environ=SCRIPT) == "./meridian status"


def test_a_name_that_a_shell_would_split_is_quoted() -> None:
    spaced = {invocation.COMMAND_VARIABLE: "../my checkout/meridian"}
    assert invocation.command("down", environ=spaced) == "'../my checkout/meridian' down"


def test_a_command_on_the_path_is_called_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "meridian"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    assert invocation.program(environ={}, called=str(command)) == str(command)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("meridian") == str(command)
    assert invocation.program(environ={}, called=str(command)) == "meridian"


def test_another_program_that_gives_hints_names_the_command() -> None:
    assert invocation.program(environ={}, called="deploy/local/supervisor.py") == "meridian"


def test_words_are_quoted_for_a_shell() -> None:
    line = invocation.command("publish", "a.b.v1", "--data", '{"n": 1}', environ=SCRIPT)
    assert line == "./meridian publish a.b.v1 --data '{\"n\": 1}'"


def test_the_home_is_named_only_where_the_command_would_look_elsewhere(tmp_path: Path) -> None:
    named = {**SCRIPT, HOME_VARIABLE: str(tmp_path)}
    assert invocation.command("down", home=tmp_path, environ=named) == "./meridian down"
    other = invocation.command("down", home=tmp_path / "other", environ=named)
    assert other == f"./meridian down --home {tmp_path / 'other'}"


def test_a_command_without_a_platform_has_no_home(tmp_path: Path) -> None:
    line = invocation.command("sink", "--port", "9000", home=tmp_path, environ=SCRIPT)
    assert line == "./meridian sink --port 9000"


def test_ports_that_are_not_the_usual_ones_are_named() -> None:
    assert invocation.command("up", port_base=8080, environ=SCRIPT) == "./meridian up"
    line = invocation.command("up", port_base=18_080, environ=SCRIPT)
    assert line == "./meridian up --port-base 18080"
