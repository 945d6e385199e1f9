"""The limits of the house style that no linter knows: sizes, docstrings, file names, left-overs."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ("libs", "services", "spark", "deploy", "bench", "examples", "tests")
PROSE = {".md", ".toml", ".yaml", ".yml", ".xml", ".sh", ".properties", ""}
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 500

SERVICE_FILES = {
    "__init__.py",
    "__main__.py",
    "settings.py",
    "bootstrap.py",
    "api.py",
    "service.py",
    "ports.py",
    "metrics.py",
}
SERVICE_FOLDERS = {"adapters", "domain"}
RECORDED_PACKAGES = {"delivery/service", "producer/api", "sse/service"}
"""Exceptions of docs/decisions/0004-service-packages.md."""

# Written in pieces, so that this module does not find itself.
LEFT_OVERS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
MACHINE_PATHS = re.compile(
    r"(?<![\w.<>}{])/(" + "|".join(("work", "tmp", "home", "root", "farm")) + r")/\w"
)


def sources(*folders: str) -> list[Path]:
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in path.parts
    )


def prose() -> list[Path]:
    """Texts beside the code, those of folders that hold code included."""
    beside = [path for path in ROOT.iterdir() if path.is_file()]
    inside = [path for folder in (*CODE, "docs", ".ci") for path in (ROOT / folder).rglob("*")]
    return sorted(
        path
        for path in (*beside, *inside)
        if path.is_file() and path.suffix in PROSE and not {"__pycache__", "out"} & set(path.parts)
    )


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def polls(path: Path) -> Iterator[ast.AST]:
    """Everything in loops that watch the time: there a pause is part of a bounded wait."""
    for function in functions(path):
        if any(is_named(node, "time.monotonic") for node in ast.walk(function)):
            for loop in ast.walk(function):
                if isinstance(loop, ast.While):
                    yield from ast.walk(loop)


def is_named(node: ast.AST, *names: str) -> bool:
    """True for a name, or for a dotted name such as `time.sleep`."""
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in names


def test_there_is_code_to_look_at() -> None:
    for folder in ("libs", "services", "deploy", "tests"):
        assert len(sources(folder)) > 10


def test_functions_stay_below_the_limit() -> None:
    lengths = {
        f"{place(path, node.lineno)} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in sources(*CODE)
        for node in functions(path)
    }
    assert {name: n for name, n in lengths.items() if n > FUNCTION_LINES_MAX} == {}


def test_modules_stay_below_the_limit() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources(*CODE)
    }
    assert {name: n for name, n in lengths.items() if n > MODULE_LINES_MAX} == {}


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT)) for path in sources(*CODE) if not ast.get_docstring(tree(path))
    ]
    assert silent == []


def test_nothing_is_left_for_later() -> None:
    found = [
        place(path, number)
        for path in sources(*CODE)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if LEFT_OVERS.search(line)
    ]
    assert found == []


def test_no_function_is_a_stub() -> None:
    found = [
        place(path, node.lineno)
        for path in sources(*CODE)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Name) and node.id in {"NotImplementedError", "NotImplemented"}
    ]
    assert found == []


def test_tests_wait_for_something_and_do_not_just_sleep() -> None:
    found = []
    for path in sources("tests"):
        allowed = set(polls(path))
        found += [
            place(path, node.lineno)
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Call)
            and is_named(node.func, "time.sleep", "sleep")
            and node not in allowed
        ]
    assert found == []


def test_unit_tests_do_not_sleep_at_all() -> None:
    found = [
        place(path, node.lineno)
        for path in sources("tests/unit")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and is_named(node.func, "asyncio.sleep")
        and not (isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]
    assert found == []


@pytest.mark.parametrize("service", sorted((ROOT / "services").glob("*/")), ids=lambda p: p.name)
def test_a_service_has_the_file_names_that_every_service_has(service: Path) -> None:
    unknown = []
    for path in service.iterdir():
        recorded = f"{service.name}/{path.name}" in RECORDED_PACKAGES
        known = SERVICE_FOLDERS if path.is_dir() else SERVICE_FILES
        if path.name not in known and path.name != "__pycache__" and not recorded:
            unknown.append(path.name)
    assert unknown == []


def test_recorded_exceptions_exist_and_nothing_is_nested_deeper() -> None:
    for name in RECORDED_PACKAGES:
        assert (ROOT / "services" / name / "__init__.py").is_file()
    nested = [
        str(path.relative_to(ROOT))
        for path in sources("services")
        if len(path.relative_to(ROOT / "services").parts) > 3
    ]
    assert nested == []


def test_no_path_of_a_machine_is_named() -> None:
    found = [
        place(path, number)
        for path in (*sources(*CODE), *prose())
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MACHINE_PATHS.search(line)
    ]
    assert found == []
