"""Rover files are split into documents; what they mean is left to the platform."""

from pathlib import Path

import pytest

from libs.cli import rover
from libs.cli.errors import CommandFailed

TWO = """\
kind: Rover
metadata:
  name: shop
---
kind: Rover
metadata:
  name: billing
"""


def test_every_document_of_a_file_is_read_in_order(tmp_path: Path) -> None:
    file = tmp_path / "rover.yaml"
    file.write_text(TWO)
    assert [each.name for each in rover.read(file)] == ["shop", "billing"]


def test_a_document_keeps_its_line_numbers(tmp_path: Path) -> None:
    file = tmp_path / "rover.yaml"
    file.write_text(TWO)
    second = rover.read(file)[1].body.decode()
    assert second.splitlines().index("  name: billing") == TWO.splitlines().index("  name: billing")


def test_values_are_passed_on_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "rover.yaml"
    file.write_text("kind: Rover\nmetadata: {name: shop}\nspec: {zone: no, since: 2026-01-01}\n")
    assert "{zone: no, since: 2026-01-01}" in rover.read(file)[0].body.decode()


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml"):
        (tmp_path / name).write_text(f"kind: Rover\nmetadata: {{name: {name[0]}}}\n")
    (tmp_path / "notes.txt").write_text("not for us")
    assert [each.name for each in rover.read(tmp_path)] == ["a", "b"]


def test_empty_documents_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "rover.yaml"
    file.write_text(f"---\n# nothing yet\n---\n{TWO}")
    assert len(rover.read(file)) == 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("kind: EventSpecification\nmetadata: {name: a}", "only 'Rover' can be applied"),
        ("kind: Rover", "metadata.name is missing"),
        ("- kind: Rover", "a mapping"),
        ("kind: [Rover", "is not YAML"),
        ("", "holds no document"),
    ],
)
def test_what_is_no_rover_is_refused_with_its_place(
    tmp_path: Path, content: str, complaint: str
) -> None:
    file = tmp_path / "rover.yaml"
    file.write_text(content)
    with pytest.raises(CommandFailed, match=complaint) as refused:
        rover.read(file)
    assert "rover.yaml" in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"no file .*absent\.yaml"):
        rover.read(tmp_path / "absent.yaml")


def test_the_example_of_the_quick_start_has_one_type_a_callback_and_a_stream() -> None:
    example = Path(__file__).parents[3] / "examples" / "quickstart.yaml"
    shop, billing, dashboard = rover.read(example)
    assert all(
        b"- eventType: orders.created.v1" in each.body for each in (shop, billing, dashboard)
    )
    assert b"deliveryType: callback" in billing.body
    assert b"deliveryType: server_sent_event" in dashboard.body
