"""Pooling over insights: denominators, counts, order of rows, and words per bullet."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.metrics import VALUES, SystemScore, insight_sums, system_scores
from summhay_ray.metrics.scores_by_system import CLUSTER, KEYS

pytestmark = pytest.mark.core

SCHEMA = {**dict.fromkeys((*KEYS, *CLUSTER), pl.String), **dict.fromkeys(VALUES, pl.Float64)}


def system(name: str = "keywords_m", judge: str = "j") -> dict[str, str]:
    return {"system": name, "retriever": "keywords", "ordering": "given", "model": "m", "judge": judge}


def insight(coverage: float, citation: tuple[float, float, float] | None, subtopic: str = "s1", **changed: str) -> dict[str, Any]:
    """A row of the insights' frame; `citation` is F1, precision and recall."""
    f1, precision, recall = citation or (None, None, None)
    figures = dict(zip(VALUES, (coverage, f1, precision, recall, coverage * (f1 or 0)), strict=True))
    return {**system(), "haystack_id": "h", "subtopic_id": subtopic, **figures, **changed}


def expected(number: int, subtopic: str = "s1", **changed: str) -> dict[str, Any]:
    return {**system(), "haystack_id": "h", "subtopic_id": subtopic, "n_expected": number, **changed}


def run(
    insights: list[dict[str, Any]], expect: list[dict[str, Any]], words: list[float | None] | None = None, **more: Any
) -> list[SystemScore]:
    spoken = [
        {**{key: system()[key] for key in KEYS[:4]}, "words_per_bullet": figure, "bullets_per_summary": 6}
        for figure in words or []
    ]
    return system_scores(
        insight_sums(pl.DataFrame(insights, schema=SCHEMA)),
        pl.DataFrame(expect, schema={**dict.fromkeys((*KEYS, *CLUSTER), pl.String), "n_expected": pl.Int64}),
        pl.DataFrame(
            spoken, schema={**dict.fromkeys(KEYS[:4], pl.String), "words_per_bullet": pl.Float64, "bullets_per_summary": pl.Int64}
        ),
        **more,
    )


def test_coverage_is_pooled_over_all_insights_and_citation_over_covered_ones() -> None:
    rows = [
        insight(1.0, (0.5, 0.6, 0.4)),
        insight(0.5, (1.0, 1.0, 1.0)),
        insight(0.0, None),
        insight(0.0, None, subtopic="s2"),
    ]
    [found] = run(rows, [expected(4), expected(1, "s2")], [10.0, 20.0, None])
    assert found.coverage == (1 + 0.5 + 0 + 0) / 4
    assert found.citation == (0.5 + 1.0) / 2
    assert found.citation_precision == (0.6 + 1.0) / 2
    assert found.citation_recall == (0.4 + 1.0) / 2
    assert found.joint == (1 * 0.5 + 0.5 * 1.0 + 0 + 0) / 4
    assert (found.n_expected, found.n_scored, found.n_covered) == (4 + 1, 4, 2)
    assert found.words_per_bullet == (10 + 20) / 2
    assert found.ci == {} and set(found.ci_reasons) == {"coverage", "citation", "citation_precision", "citation_recall", "joint"}


def test_nothing_scored_is_none_and_never_zero() -> None:
    [found] = run([], [expected(7)])
    assert (found.n_expected, found.n_scored, found.n_covered) == (7, 0, 0)
    assert found.coverage is found.citation is found.citation_precision is found.citation_recall is found.joint is None
    assert found.words_per_bullet is None
    assert found.ci == {}
    assert run([], []) == []


def test_nothing_covered_has_no_citation_score() -> None:
    [found] = run([insight(0.0, None, subtopic=f"s{n}") for n in range(3)], [expected(3)])
    assert (found.coverage, found.joint, found.n_covered) == (0.0, 0.0, 0)
    assert found.citation is found.citation_precision is found.citation_recall is None
    assert found.ci == {} and {"coverage", "joint"} <= found.ci_reasons.keys()


def test_systems_judges_and_haystacks_are_kept_apart_and_pooled() -> None:
    rows = [
        insight(1.0, (1.0, 1.0, 1.0)),
        insight(0.0, None, haystack_id="h2"),
        insight(0.5, (0.5, 0.5, 0.5), judge="other"),
        insight(0.0, None, system="a", model="z"),
        insight(0.0, None, system="b", model="a", ordering="top"),
    ]
    found = run(rows, [expected(1), expected(1, haystack_id="h2"), expected(9, system="late", model="b")])
    assert [(one.model, one.system, one.judge) for one in found] == [
        ("a", "b", "j"),
        ("b", "late", "j"),
        ("m", "keywords_m", "j"),
        ("m", "keywords_m", "other"),
        ("z", "a", "j"),
    ]
    pooled, other = found[2], found[3]
    assert (pooled.coverage, pooled.n_scored, pooled.n_expected) == ((1 + 0) / 2, 2, 2)
    assert (other.coverage, other.n_scored, other.n_expected) == (0.5, 1, 0)


def test_what_a_system_scores_does_not_depend_on_the_others() -> None:
    rows = [insight(n % 3 / 2, (n / 7, n / 8, n / 9) if n % 3 else None, subtopic=f"s{n % 4}") for n in range(8)]
    [alone] = run(rows, [expected(8)])
    others = [insight(0.5, (0.1, 0.2, 0.3), system="a", model="a", subtopic=f"t{n}") for n in range(5)]
    assert alone in run([*rows, *others], [expected(8)])


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 5)), min_size=1), st.randoms())
def test_the_order_of_rows_changes_nothing(values: list[tuple[float, float, int]], shuffler: random.Random) -> None:
    rows = [insight(cov, (f1, f1**2, f1 / 3) if cov else None, subtopic=f"s{place}") for f1, cov, place in values]
    mixed = shuffler.sample(rows, len(rows))
    words = [f1 * 30 for f1, _, _ in values]
    first = run(rows, [expected(1), expected(2)], words)
    assert first == run(mixed, [expected(2), expected(1)], sorted(words))
    assert first[0].coverage == pytest.approx(sum(cov for _, cov, _ in values) / len(values), abs=1e-15)
    assert first[0].joint == pytest.approx(sum(cov * f1 for f1, cov, _ in values) / len(values), abs=1e-15)
