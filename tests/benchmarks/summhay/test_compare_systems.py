"""Pairs of systems, compared on the queries that both answered, in one run or across two."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy
from rejudged_runs import source_run

from summhay_ray.benchmarks.summhay import compare_systems, compared_by_record, score_run
from summhay_ray.benchmarks.summhay.results.compare import judged_scores
from summhay_ray.benchmarks.summhay.results.paper_tables import sections
from summhay_ray.comparison import SystemComparison, every_pair, screen_sections
from summhay_ray.errors import UserError
from summhay_ray.report import section_table
from summhay_ray.store import RunStore

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    return source_run(tmp_path_factory.mktemp("source"), summarizers=["offline/lead", "offline/support"])


def pairs(comparison: SystemComparison) -> list[Any]:
    """The pairs of the JSON document, with attributes."""
    told = json.dumps(comparison.to_json()["pairs"], allow_nan=False)
    return list(json.loads(told, object_hook=lambda fields: SimpleNamespace(**fields)))


def test_a_pair_of_the_release_is_what_scipy_makes_of_the_queries_means(released_run: RunStore, released_scores: Any) -> None:
    found = pairs(compare_systems([released_run], ("oracle_gpt-4o", "oracle_gpt4-turbo")))
    assert [one.figure for one in found] == ["joint", "coverage", "citation"]
    rows = released_scores.queries
    values = {
        name: rows.filter(rows["system"] == name).sort("haystack_id", "subtopic_id")["joint"].to_numpy()
        for name in ("oracle_gpt-4o", "oracle_gpt4-turbo")
    }
    joint, apart = found[0].paired, values["oracle_gpt-4o"] - values["oracle_gpt4-turbo"]
    assert (joint.n_queries, joint.n_haystacks, joint.over) == (18, 2, "queries")
    assert joint.difference == pytest.approx(apart.mean())
    se = np.sqrt((apart.reshape(2, 9).var(axis=1, ddof=1)).mean() / 18)
    assert (joint.se, joint.p) == pytest.approx((se, 2 * scipy.stats.t.sf(abs(apart.mean()) / se, 16)))
    others = compare_systems([released_run], ("oracle_gpt-4o", "oracle_gpt4-turbo"), over="haystacks")
    # The conclusion for other haystacks is never more certain than for these.
    least = max(se, scipy.stats.sem(apart.reshape(2, 9).mean(axis=1)))
    assert pairs(others)[0].paired.p == pytest.approx(2 * scipy.stats.t.sf(abs(apart.mean()) / least, 1))
    assert "2 haystacks are few" in others.warnings[0]
    # Both systems have one judge: its mean bias cancels in coverage, and joint is scaled.
    assert found[1].corrected.difference == pytest.approx(found[1].paired.difference)
    assert abs(found[0].corrected.difference) < abs(joint.difference) and found[2].corrected is None


def test_of_78_systems_many_pairs_differ(released_scores: Any) -> None:
    comparison = every_pair(judged_scores(released_scores, "released"), ("joint",))
    assert comparison is not None
    assert comparison.pairs.height == 3003 and comparison.pairs["differs"].sum() == 1177
    [first, *_] = comparison.standings["joint"].to_dicts()
    assert first["name"] in comparison.best("joint") and (first["rank"], first["rank_low"], first["missing"]) == (1, 1, 0)
    assert len(comparison.best("joint")) == 17
    # One screen shows the decision and the verdicts, then the leaderboard.
    shown = [section_table(section) for section in screen_sections(comparison) if section.table is not None]
    assert len(shown) == 1 and shown[0] is not None and len(shown[0].rows) == 78
    assert (
        sum(table.height for section in screen_sections(comparison, True) if (table := section.table) is not None)
        == 2 * 78 + 3003
    )
    # Systems that see the gold are no choice, because no user could have them: oracles, and orders by the gold documents.
    decision = comparison.decision
    assert decision.use == decision.best == "full + gemini-1.5-pro" and decision.usd_per_query is None
    assert not {"oracle", "full top"} & {name.split(" + ")[0] for name in decision.not_shown_worse}
    assert "these 2 haystacks only" in decision.text and "the judge (released)" in decision.text


def test_every_pair_is_compared_and_corrected_for_being_many(run: RunStore) -> None:
    found = compare_systems([run])
    joint = [one.paired for one in pairs(found) if one.figure == "joint"]
    n = found.standings["joint"].height
    assert len(joint) == n * (n - 1) // 2
    assert all(one.p is None or one.p_adjusted >= one.p for one in joint)
    told = found.to_json()["pairs"]
    assert all(one["differs"] is (one["paired"]["p_adjusted"] < 0.05) for one in told)
    assert json.dumps(found.to_json(), allow_nan=False) and told[0]["figure"] == "joint"
    shown = next(section for section in screen_sections(found, everything=True) if section.name == "pairs")
    assert shown.table is not None and shown.table.height == len(joint)


def test_few_queries_decide_nothing(run: RunStore) -> None:
    found = compare_systems([run])
    decision = json.loads(json.dumps(found.to_json()["decision"], allow_nan=False))
    # Four queries: six are required. Ten labels for each system that may be the best would check the judge.
    assert decision["use"] is None and decision["text"].startswith("No decision: 4 queries are too few")
    assert decision["more_queries"] >= 2 and decision["labels"] == 10 * len(found.best("joint"))
    by_record = compared_by_record(score_run(run))
    assert by_record is not None and by_record.decision == found.decision


def test_what_retrievals_errors_cost_is_the_oracle_less_the_retriever_by_query(released_scores: Any) -> None:
    some = replace(released_scores, systems=[one for one in released_scores.systems if one.model == "gpt-4o"])
    [section] = [one for one in sections(some) if one.slug == "lost"]
    assert section.table is not None
    rows = {(row["model"], row["retriever"]): row for row in section.table.iter_rows(named=True)}
    found = rows["gpt-4o", "vector"]
    queries = released_scores.queries
    oracle, vector = (queries.filter(queries["system"] == f"{name}_gpt-4o") for name in ("oracle", "vector"))
    both = oracle.join(vector, on=["haystack_id", "subtopic_id"])
    for figure, column in (("joint", "joint"), ("citation", "citation_f1")):
        lost = (both[column] - both[f"{column}_right"]).mean()
        assert found[f"{figure} lost"] == pytest.approx(lost)
        assert found[f"{figure} lost_low"] < lost < found[f"{figure} lost_high"]
    assert found["n"] == 18 and not any("oracle" in retriever or "full" in retriever for _, retriever in rows)


def test_two_runs_are_compared_system_by_system(run: RunStore) -> None:
    found = pairs(compare_systems([run, run]))
    assert {(one.a.system == one.b.system, one.paired.difference) for one in found} == {(True, 0.0)}
    assert {one.paired.ties for one in found} == {found[0].paired.n_queries}
    names = sorted({one.a.system for one in found})
    [chosen] = {(one.a.system, one.b.system) for one in pairs(compare_systems([run, run], (names[0], names[-1])))}
    assert chosen == (names[0], names[-1])


def test_missing_names_are_reported(run: RunStore) -> None:
    with pytest.raises(UserError, match="has no scored system 'nobody'"):
        compare_systems([run], ("nobody", "*"))
    with pytest.raises(UserError, match="has no judgments by 'nobody'"):
        compare_systems([run], judges=["nobody"])
