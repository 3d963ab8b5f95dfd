"""Import and score give the figures of the release's own script, for every system of both released haystacks."""

from __future__ import annotations

import functools
import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from summhay_ray.haystack import RELEASED_JUDGE, imported_rows, read_released
from summhay_ray.metrics import (
    Compat,
    SystemScore,
    insight_sums,
    position_sensitivity,
    score_summary,
    system_scores,
    words_per_bullet,
)
from summhay_ray.records import Failure, Judgment, Score

pytestmark = pytest.mark.core

NEWS1, NEWS2 = "topic_news1.json", "topic_news2.json"
REFERENCE = {
    "coverage": "coverage_score",
    "citation": "citation_score",
    "citation_precision": "citation_precision",
    "citation_recall": "citation_recall",
    "joint": "joint_score",
    "n_expected": "n_insights",
    "n_scored": "n_insights",
    "n_covered": "n_covered",
}


@functools.cache
def rows_of(file: Path, compat: Compat) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The scores of a file's insights, the expected insights, and the words of its bullets."""
    insights, expected, words = [], [], []
    released = read_released(file.read_bytes(), str(file))
    gold, rows = released.haystack.gold, imported_rows(released)
    asked = Counter(insight.subtopic_id for insight in released.haystack.insights)
    judged: dict[str, list[Judgment]] = {}
    for judgment in rows.judgments:
        judged.setdefault(judgment.cell_id, []).append(judgment)
    for one, n_words in zip(rows.summaries, words_per_bullet([one.bullets for one in rows.summaries]), strict=True):
        key = {"system": one.system, "retriever": one.retriever, "ordering": one.ordering, "model": one.model}
        place = {"judge": RELEASED_JUDGE, "haystack_id": one.haystack_id, "subtopic_id": one.subtopic_id}
        expected.append({**key, **place, "n_expected": asked[one.subtopic_id]})
        words.append({**key, "words_per_bullet": n_words, "bullets_per_summary": len(one.bullets)})
        for row in score_summary(judged[one.cell_id], one.bullets, gold, compat):
            assert isinstance(row, Score), row
            fields = ("coverage", "joint", "citation_f1", "citation_precision", "citation_recall")
            insights.append({**key, **place, **{name: getattr(row, name) for name in fields}})
    found = [pl.DataFrame(rows, infer_schema_length=None) for rows in (insights, expected, words)]
    return found[0], found[1], found[2]


@functools.cache
def scores_of(files: tuple[Path, ...], compat: Compat) -> dict[str, SystemScore]:
    frames = [pl.concat(parts) for parts in zip(*(rows_of(file, compat) for file in files), strict=True)]
    return {one.system: one for one in system_scores(insight_sums(frames[0]), *frames[1:])}


@pytest.mark.parametrize(
    ("names", "compat"),
    [([NEWS1], "release"), ([NEWS2], "default"), ([NEWS1, NEWS2], "release"), ([NEWS1, NEWS2], "default")],
    ids=["news1", "news2", "pooled-release", "pooled"],
)
def test_the_figures_of_the_release(summhay_data: Path, names: list[str], compat: Compat) -> None:
    reference = json.loads((summhay_data / "reference_scores.json").read_text())
    wanted = reference["per_haystack"][names[0]] if len(names) == 1 else reference["pooled"]
    found = scores_of(tuple(summhay_data / name for name in names), compat)
    assert len(found) == 78
    assert found.keys() == wanted.keys()
    for system, score in found.items():
        for ours, theirs in REFERENCE.items():
            assert getattr(score, ours) == pytest.approx(wanted[system][theirs], rel=0, abs=1e-9), (system, ours)
        for figure, (low, high) in score.ci.items():
            assert low <= getattr(score, figure) <= high
        assert len(score.ci) == 5
        assert score.words_per_bullet is not None and 10 < score.words_per_bullet < 80


def test_position_sensitivity_of_the_released_systems(summhay_data: Path) -> None:
    found = scores_of((summhay_data / NEWS1, summhay_data / NEWS2), "release")
    rows = position_sensitivity(found.values())
    assert [row.model for row in rows] == ["claude3-opus", "gemini-1.5-pro", "gpt-4o"]
    assert {row.baseline for row in rows} == {"given"}
    for row in rows:
        given, top, bottom = (found[f"{prefix}{row.model}"].joint for prefix in ("", "fl-ctxt-sort_", "fl-ctxt-rev-sort_"))
        assert given is not None and top is not None and bottom is not None
        assert row.sensitivity == max(abs(top - given), abs(bottom - given))


def test_a_judgment_that_names_no_bullet_parts_the_two_modes(summhay_data: Path) -> None:
    raw = json.loads((summhay_data / NEWS1).read_text())
    raw["subtopics"][0]["eval_summaries"]["summary_subtopic_gpt-4o"][0] |= {"coverage": "FULL_COVERAGE", "bullet_id": "NA"}
    released = read_released(json.dumps(raw), NEWS1)
    rows = imported_rows(released)
    cell = next(one for one in rows.summaries if one.system == "gpt-4o")
    judgments = [one for one in rows.judgments if one.cell_id == cell.cell_id]
    by_mode = {mode: score_summary(judgments, cell.bullets, released.haystack.gold, mode)[0] for mode in ("default", "release")}  # type: ignore[arg-type]
    assert isinstance(by_mode["default"], Failure)
    assert isinstance(by_mode["release"], Score)
    assert by_mode["release"].bullet == len(cell.bullets) - 1
