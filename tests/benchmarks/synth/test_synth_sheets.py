"""Figures of people's labels, stored with a run, from several people at once."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from synth_runs import run_inline, small

from summhay_ray.benchmarks.synth import Sample, read_sheet, write_sheet
from summhay_ray.benchmarks.synth.results import person_audits
from summhay_ray.store import Chain, RunStore, Store

pytestmark = pytest.mark.core

TWO = {"topics": [{"topic": f"the dispute about the {name}", "name": name} for name in ("ferry", "tram")]}
EVERYTHING = Sample(insights=100, documents=100)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Two haystacks."""
    return run_inline(small(**TWO), Store(str(tmp_path_factory.mktemp("two"))))[0]


def labelled(run: RunStore, path: Path, answers: dict[str, str]) -> Path:
    """A sheet about everything, with the same answer for each kind."""
    write_sheet(run, path, EVERYTHING)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows({**row, "answer": answers[row["kind"]]} for row in rows)
    return path


def test_what_another_reader_keeps_meanwhile_stays(run: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = labelled(run, tmp_path / "a.csv", {"insight_subtopic": "1", "document_insight": "no"})
    theirs = {"insight_subtopic": {"accuracy": 12.5}, "document_insight": {"accuracy": 25.0}}
    real, lost = Chain.append, []

    def late(chain: Chain, number: int, body: Any) -> bool:
        """Another person takes the same number first, for a haystack that this sheet does not ask about."""
        if not lost:
            lost.append(number)
            assert real(chain, number, {"haystacks": {"mill": theirs}})
        return real(chain, number, body)

    monkeypatch.setattr(Chain, "append", late)
    read_sheet(run, sheet)
    assert lost == [1]
    kept = person_audits(run)
    assert sorted(kept) == ["ferry", "mill", "tram"] and kept["mill"] == theirs
    # A person who always answers no is right whenever the document lacks the statement.
    for name in ("ferry", "tram"):
        figures = kept[name]["document_insight"]
        right = figures["num_samples"] - figures["stated_present"]
        assert figures["recall"] == 0.0 and figures["accuracy"] == round(100 * right / figures["num_samples"], 2)
    # Reading the sheet again adds nothing.
    read_sheet(run, sheet)
    assert Chain(run.store.files, f"runs/{run.run_id}/audits", dict).latest() == 2
