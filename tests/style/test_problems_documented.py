"""docs/problems.md describes every problem, with its status, and nothing else."""

import re
from pathlib import Path

from libs.common.problem import FRAMEWORK_KINDS, KINDS, NO_SUBSCRIBER

PAGE = Path(__file__).parents[2] / "docs" / "problems.md"
SECTION = re.compile(r"^### ([a-z-]+)\n(\d{3})\. ", re.MULTILINE)


def test_code_and_page_name_the_same_problems_with_the_same_status() -> None:
    kinds = [*KINDS.values(), *FRAMEWORK_KINDS.values(), NO_SUBSCRIBER]
    in_code = {(kind.slug, kind.status) for kind in kinds}
    on_page = {(slug, int(status)) for slug, status in SECTION.findall(PAGE.read_text())}
    assert on_page == in_code


def test_no_problem_is_described_twice() -> None:
    headings = re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE)
    assert len(headings) == len(set(headings))
