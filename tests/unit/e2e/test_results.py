"""Figures of long tests as files."""

import json
from pathlib import Path

from tests.results import Results


def test_figures_stand_below_the_conditions_they_were_measured_under(tmp_path: Path) -> None:
    file = Results(tmp_path / "results").write("kills", {"events": 3})
    found = json.loads(file.read_text())
    assert file.name == "kills.json"
    assert found["figures"] == {"events": 3}
    assert set(found["conditions"]) == {
        "date",
        "python",
        "kafka",
        "confluentKafka",
        "librdkafka",
        "cores",
        "memoryGiB",
        "revision",
    }
    assert found["conditions"]["kafka"] is not None


def test_a_later_run_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.write("kills", {"events": 1})
    assert json.loads(results.write("kills", {"events": 2}).read_text())["figures"]["events"] == 2
