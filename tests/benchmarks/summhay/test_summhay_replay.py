"""Replayed models in the whole pipeline give the released scores again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs import summhay, write_spec

pytestmark = pytest.mark.core

MODELS = ("gpt-4o", "gpt3.5")
RELEASED = "dwzhu/e5-base-4k"
FIGURES = {
    "coverage": "coverage_score",
    "citation": "citation_score",
    "citation_precision": "citation_precision",
    "citation_recall": "citation_recall",
    "joint": "joint_score",
    "n_scored": "n_insights",
    "n_covered": "n_covered",
}


def test_replay_gives_the_released_scores_again(summhay_data: Path, tmp_path: Path) -> None:
    fields = {
        "haystacks": [str(summhay_data / "topic_news1.json")],
        "retrievers": [f"released/{RELEASED}", "oracle", "full"],
        "orderings": ["given", "top"],
        "summarizers": [f"replay/{model}" for model in MODELS],
        "judges": ["replay/gpt-4o"],
        "executor": "inline",
    }
    # The release has no GPT-3.5 summaries of whole haystacks: these cells are failures (exit code 4), never zeros.
    result = summhay("run", write_spec(tmp_path, fields), "--store", tmp_path / "store", code=4)
    assert result["status"] == "partial"
    assert result["cells"] == {"total": 2 * 9 * 4, "done": 2 * 9 * 4 - 2 * 9, "failed": 2 * 9}
    reference = json.loads((summhay_data / "reference_scores.json").read_text())["per_haystack"]["topic_news1.json"]
    compared = 0
    for system in result["systems"]:
        if system["model"] == "replay/gpt3.5" and system["retriever"] == "full":
            assert (system["n_scored"], system["n_expected"], system["joint"]) == (0, 65, None)
            continue
        for ours, theirs in FIGURES.items():
            assert system[ours] == pytest.approx(reference[system["system"]][theirs], rel=0, abs=1e-15), system["system"]
        compared += 1
    assert compared == 2 * 4 - 2
    listed = summhay("failures", result["run"], "--store", tmp_path / "store")["failures"]
    assert {(row["stage"], row["error"]) for row in listed} == {("summarize", "missing_answer")}
