"""Scores are read haystack by haystack and cell by cell, and equal the scores of all rows at once."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import scipy
from big_haystacks import write_haystacks
from made_up import finished
from summhay_grids import grid_of_files

from summhay_ray import api
from summhay_ray.benchmarks.summhay import SummHay, score_run
from summhay_ray.benchmarks.summhay.grid.grid import Cell
from summhay_ray.benchmarks.summhay.haystacks.metadata import rows_of
from summhay_ray.benchmarks.summhay.results import judges as judges_module
from summhay_ray.benchmarks.summhay.results.paper_tables import correlation_text
from summhay_ray.engine import ITEM, open_run
from summhay_ray.metrics import VALUES, Compat, SystemScore, insight_sums, score_summary, system_scores, words_per_bullet
from summhay_ray.records import Failure, Judgment
from summhay_ray.store import Finished, RunStore, Store
from summhay_ray.store import rows as rows_module

pytestmark = pytest.mark.core

SIZE = {"documents": 6, "words": 30, "subtopics": 3, "insights": 3}
SYSTEM = ("system", "retriever", "ordering", "model")


def run_of(tmp_path: Path, seed: int) -> tuple[SummHay, RunStore]:
    """A run over three haystacks with missing cells, and with unusable, unknown or repeated judgments."""
    ways = {"retrievers": ["bm25", "full"], "orderings": ["given", "top"], "summarizers": ["offline/lead"]}
    grid, _ = grid_of_files(tmp_path, 3, SIZE, **ways, repeats=2, seed=3)
    run, rng = open_run(grid, Store(str(tmp_path / "store"))), random.Random(seed)
    done = []
    for cell in grid.items():
        if rng.random() < 0.9:
            haystack_id, subtopic_id, *_ = cell.data["unit"]
            insights = grid.grid.haystacks[haystack_id].insights_of(subtopic_id)
            done.append(spoiled(finished(grid, cell, insights, rng), rng))
    for start in range(0, len(done), 20):
        run.commit(ITEM, done[start : start + 20])
    return grid, run


def spoiled(done: Finished, rng: random.Random) -> Finished:
    summaries, judgments = done.rows["summaries"], [spoiled_one(one, rng) for one in done.rows["judgments"]]
    if rng.random() < 0.1:
        judgments.append(replace(judgments[0], position=len(judgments)))
    if rng.random() < 0.1:
        summaries = [replace(summaries[0], bullets=())]
    return Finished(done.unit, {"summaries": summaries, "judgments": judgments})


def spoiled_one(judgment: Judgment, rng: random.Random) -> Judgment:
    change: dict[str, Any] = rng.choice([{}] * 8 + [{"coverage": "SOME"}, {"bullet_id": '"NA"'}, {"insight_id": "of nobody"}])
    return replace(judgment, **change)


Found = tuple[list[SystemScore], dict[str, list[SystemScore]], list[Failure]]
"""Scores over all haystacks, of each haystack, and the judgments that cannot be used."""


def at_once(grid: SummHay, run: RunStore, compat: Compat) -> Found:
    """All rows in plain frames of texts."""
    judged = defaultdict(list)
    for judgment in rows_of(run, "judgments"):
        judged[judgment.cell_id].append(judgment)
    insights, words, failures = [], [], []
    for one in rows_of(run, "summaries"):
        named = {name: getattr(one, name) for name in (*SYSTEM, "haystack_id", "subtopic_id")}
        words.append({**named, "words_per_bullet": words_per_bullet([one.bullets])[0], "bullets_per_summary": len(one.bullets)})
        for row in score_summary(judged[one.cell_id], one.bullets, grid.grid.haystacks[one.haystack_id].gold, compat):
            if isinstance(row, Failure):
                failures.append(row)
            else:
                insights.append({**named, "judge": row.judge, **{name: getattr(row, name) for name in VALUES}})
    # A cell that was not asked yet is not expected.
    cells = [Cell.of(item) for item in grid.items() if item.id in run.finished(ITEM)]
    asked = Counter((cell.system, cell.unit, cell.summarizer) for cell in cells)
    expected = [
        {"system": system, "retriever": unit.retriever, "ordering": unit.ordering, "model": grid.spec.summarizers[index].label}
        | {"judge": judge.label, "haystack_id": unit.haystack_id, "subtopic_id": unit.subtopic_id}
        | {"n_expected": n * len(grid.grid.haystacks[unit.haystack_id].insights_of(unit.subtopic_id))}
        for (system, unit, index), n in asked.items()
        for judge in grid.spec.judges
    ]
    frames = [pl.DataFrame(rows, infer_schema_length=None) for rows in (insights, expected, words)]

    def scored(parts: list[pl.DataFrame]) -> list[SystemScore]:
        return system_scores(insight_sums(parts[0]), parts[1], parts[2])

    each = {}
    for source in grid.grid.haystacks.metadata:
        mine = [frame.filter(pl.col("haystack_id") == source.haystack_id) for frame in frames]
        each[source.name] = scored(mine)
    return scored(frames), each, failures


def raw(score: SystemScore) -> dict[str, Any]:
    """The score without the fields of the bias correction."""
    ci = {name: interval for name, interval in score.ci.items() if not name.endswith("_corrected")}
    reasons = {name: reason for name, reason in score.ci_reasons.items() if not name.endswith("_corrected")}
    return asdict(replace(score, coverage_corrected=None, joint_corrected=None, ci=ci, ci_reasons=reasons, bias=None))


@pytest.mark.parametrize("at_a_time", [pytest.param(1, marks=pytest.mark.soak), 7])
def test_scores_in_parts_are_the_scores_of_all_rows(tmp_path: Path, at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges_module, "SUMMARIES_AT_ONCE", at_a_time)
    monkeypatch.setattr(rows_module, "TOGETHER", at_a_time)
    grid, run = run_of(tmp_path, seed=at_a_time)
    compats: tuple[Compat, ...] = ("default", "release")
    for compat in compats:
        pooled, each, failures = at_once(grid, run, compat)
        found = score_run(run, compat)
        assert len(failures) > 5 and any(score.n_scored < score.n_expected for score in pooled)
        assert list(map(raw, found.systems)) == list(map(asdict, pooled))
        assert {name: list(map(raw, scores)) for name, scores in found.haystacks.items()} == {
            name: list(map(asdict, scores)) for name, scores in each.items()
        }
        assert list(found.haystacks) == list(each)
        assert found.failures == failures


def test_a_run_that_asked_nothing_yet_misses_nothing(tmp_path: Path) -> None:
    grid, _ = grid_of_files(tmp_path, 2, SIZE)
    found = score_run(open_run(grid, Store(str(tmp_path / "store"))))
    assert (found.systems, found.by_query, list(found.haystacks.values())) == ([], [], [[], []])
    # Two haystacks of three queries.
    assert found.so_far == "0 of 6 cells so far: the figures are of these"


def test_haystacks_with_the_same_name_are_distinguished(tmp_path: Path) -> None:
    paths = []
    for place, path in enumerate(write_haystacks(tmp_path, 2, **SIZE)):
        folder = tmp_path / str(place)
        folder.mkdir()
        paths.append(str(path.rename(folder / "same.json")))
    store = Store(str(tmp_path / "store"))
    run = store.run(api.import_released(paths, store.uri).run)
    ids = [entry["haystack_id"] for entry in run.record["haystacks"]]
    assert list(score_run(run).haystacks) == [f"same ({haystack_id})" for haystack_id in ids]


def test_the_text_on_retrieval_gives_the_correlation_with_joint() -> None:
    rows = [{"recall": x, "joint": y} for x, y in ((0.1, 0.2), (0.4, 0.3), (0.5, 0.25), (0.9, None), (0.9, 0.8))]
    x, y = [0.1, 0.4, 0.5, 0.9], [0.2, 0.3, 0.25, 0.8]
    linear, ranked = scipy.stats.pearsonr(x, y).statistic, scipy.stats.spearmanr(x, y).statistic
    told = f"Over the 4 rows, recall and joint correlate with Pearson's r {linear:.3f}, Spearman's {ranked:.3f}."
    assert correlation_text("recall", rows) == told
    constant = [{"recall": 1.0, "joint": 0.1 * n} for n in range(4)]
    assert correlation_text("recall", rows[:2]) == correlation_text("recall", constant) == ""
