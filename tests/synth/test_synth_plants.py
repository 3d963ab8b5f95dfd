"""Faults planted in synthesized haystacks are found without a model, and there are no false alarms.

The full measurement: `python tools/plants.py --plants 1000`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import plants
import pytest

pytestmark = pytest.mark.core

DOMAINS = ["news", "conversation", "product_reviews", "incident_reports"]


@pytest.mark.parametrize(
    ("level", "domain"),
    [*(pytest.param(*one, marks=pytest.mark.soak) for one in enumerate(DOMAINS[:-1])), (len(DOMAINS) - 1, DOMAINS[-1])],
)
def test_a_hundred_plants_of_each_kind(level: int, domain: str) -> None:
    """At each level a domain of its own; the four levels together have all of both."""
    tally = plants.plant_faults([domain], level, 25, 25)
    assert {kind: tally.planted[kind] for kind in plants.KINDS} == dict.fromkeys(plants.KINDS, 25)
    assert (tally.found["removed"], tally.found["leaked"]) == (25, 25), tally.lost
    # A reworded subtopic may keep half of its words, and a query may give away half of an insight.
    assert tally.found["subtopic"] >= 24 and tally.found["query"] >= 24, tally.lost
    assert tally.alarms["document_insight"] == 0 and tally.clean["document_insight"] > 2000
    assert tally.alarms["subtopic_distinct"] == 0


@pytest.mark.soak
def test_the_command_prints_one_json_document() -> None:
    command = [sys.executable, plants.__file__, "--plants", "4", "--levels", "1", "--domains", "news", "--documents", "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=Path(plants.__file__).parents[2])
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert set(report) == {"domains", "paraphrase_1", "seconds"}
    assert set(report["paraphrase_1"]["plants"]) == set(plants.KINDS)
