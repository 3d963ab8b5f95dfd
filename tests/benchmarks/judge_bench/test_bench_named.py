"""The name that `judge-bench` gives a judge, and its use of stored predictions agree with a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from annotated import summary, write

from summhay_ray import api
from summhay_ray.benchmarks.judge_bench import JudgeBench
from summhay_ray.judge.bench import shipped_biases

pytestmark = pytest.mark.core

GPT = "predictions_prompted_gpt-4o"
PEOPLE = [(1.0, 1), (0.5, 2), (0.0, None)]


@pytest.mark.parametrize("name", ["offline/judge", "per_insight(offline)"])
def test_a_specs_judge_that_is_asked_otherwise_says_so(name: str, tmp_path: Path) -> None:
    path = tmp_path / "judges.yaml"
    path.write_text("judges: [{model: offline/judge, strategy: per_insight}]", encoding="utf-8")
    people = write(tmp_path / "annotations.json", [summary(PEOPLE)])
    result = api.judge_bench(people, [name], str(tmp_path / "store"), spec=str(path))
    [alone] = json.loads(result.biases())["judges"]
    assert (result.judges[0].judge, alone["judge"], alone["names"]) == (*["per_insight(offline)"] * 2, [])
    assert {"per_insight(offline)", "offline/judge"} <= {bias.judge for bias in shipped_biases()}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("offline/judge", "offline/judge"),
        ({"model": "offline/judge", "strategy": "per_insight", "name": "alone"}, "alone"),
        (
            {"model": "openai/gpt-4o", "strategy": "blend(per_summary(openai/gpt-4o), offline)"},
            "blend(per_summary(openai/gpt-4o),offline)",
        ),
        (
            {"model": "openai/gpt-4o", "strategy": "blend(openai/gpt-4o,offline)", "name": "openai/gpt-4o"},
            "blend(openai/gpt-4o,offline)",
        ),
        ({"model": "openai/gpt-4o", "prompt": "mine.txt"}, "openai/gpt-4o prompt mine.txt"),
        ("named_judges:Mine", "named_judges:Mine"),
    ],
)
def test_a_judge_goes_by_what_is_asked(entry: Any, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.txt").write_text("[[BULLETS]] [[INSIGHT]]", encoding="utf-8")
    (tmp_path / "named_judges.py").write_text("class Mine:\n    async def judge(self, *_): ...\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    label = entry if isinstance(entry, str) else entry.get("name", entry["model"])
    people = write(tmp_path / "annotations.json", [summary(PEOPLE)])
    bench = api.load({"kind": "judge_bench", "file": str(people), "judges": [entry], "names": [label]})
    assert isinstance(bench, JudgeBench)
    assert [row.judge for row in bench.figures_of({}).judges] == [expected]


def test_a_cascade_holds_what_it_asks_against_the_summary(tmp_path: Path) -> None:
    # The insight is covered, but by no bullet of the summary: a run's scoring would not use it either.
    path = write(tmp_path / "annotations.json", [summary(PEOPLE, {GPT: [(1.0, None), (0.5, 99), (0.0, None)]})])
    names = [f"cascade(offline,stored/{GPT},1)", f"blend(stored/{GPT},offline)", f"stored/{GPT}"]
    cascade, blended, stored = api.judge_bench(path, names, str(tmp_path / "store")).judges
    assert cascade.failures == blended.failures == {"unusable_bullet": 2}
    assert (cascade.figures.n_scored, stored.figures.n_scored) == (1, 3)
