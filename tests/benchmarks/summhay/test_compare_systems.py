"""Systems compared in pairs: on the queries that both answered, in one run or across two."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rejudged_runs import source_run
from scipy import stats

from summhay_ray.benchmarks.summhay import compare_systems, import_released, score_run
from summhay_ray.benchmarks.summhay.sections import sections
from summhay_ray.errors import UserError
from summhay_ray.report import compared_systems_tables
from summhay_ray.store import RunStore, Store

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    return source_run(tmp_path_factory.mktemp("source"), summarizers=["offline/lead", "offline/support"])


@pytest.fixture(scope="module")
def released(summhay_data: Path, tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    store = Store(str(tmp_path_factory.mktemp("released")))
    made = import_released([str(summhay_data / f"topic_news{number}.json") for number in (1, 2)], store)
    return store.run(made.run)


def test_a_pair_of_the_release_is_what_scipy_makes_of_the_queries_means(released: RunStore) -> None:
    found = compare_systems([released], ("oracle_gpt-4o", "oracle_gpt4-turbo"))
    assert [one.figure for one in found.pairs] == ["joint", "coverage", "citation"]
    rows = score_run(released).queries
    values = {
        name: rows.filter(rows["system"] == name).sort("haystack_id", "subtopic_id")["joint"].to_numpy()
        for name in ("oracle_gpt-4o", "oracle_gpt4-turbo")
    }
    joint, apart = found.pairs[0].paired, values["oracle_gpt-4o"] - values["oracle_gpt4-turbo"]
    assert (joint.n_queries, joint.n_haystacks, joint.over, joint.test) == (18, 2, "haystacks", "t")
    assert joint.difference == pytest.approx(apart.mean())
    assert joint.p == pytest.approx(stats.ttest_1samp(apart.reshape(2, 9).mean(axis=1), 0).pvalue)
    here = compare_systems([released], ("oracle_gpt-4o", "oracle_gpt4-turbo"), over="queries").pairs[0].paired
    told = stats.permutation_test(
        (apart, np.zeros(18)), lambda a, b: (a - b).sum(), permutation_type="samples", n_resamples=20_000, rng=1
    )
    assert (here.over, here.test, here.p) == ("queries", "sign-flip", pytest.approx(told.pvalue, abs=0.01))
    # One judge: its mean bias cancels in coverage, and is scaled away in joint.
    assert found.pairs[1].corrected is not None
    assert found.pairs[1].corrected.difference == pytest.approx(found.pairs[1].paired.difference)
    assert found.pairs[0].corrected is not None and abs(found.pairs[0].corrected.difference) < abs(joint.difference)
    assert "2 haystacks are few" in found.warnings[0]
    assert sum(one.first for one in found.standings["joint"]) == pytest.approx(1)


def test_every_pair_is_compared_and_corrected_for_being_many(run: RunStore) -> None:
    found = compare_systems([run])
    joint = [one.paired for one in found.pairs if one.figure == "joint"]
    n = len(found.standings["joint"])
    assert len(joint) == n * (n - 1) // 2
    assert all(one.p is None or one.p_holm is None or one.p_holm >= one.p for one in joint)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["pairs"][0]["figure"] == "joint"
    tables = compared_systems_tables(found)
    assert tables[0].title == "joint, judged by offline/judge: differences" and len(tables[0].rows) == len(joint)


def test_what_retrievals_errors_cost_is_the_oracle_less_the_retriever_by_query(released: RunStore) -> None:
    [section] = [one for one in sections(released) if one.slug == "lost"]
    assert section.table is not None
    rows = {(row["model"], row["retriever"]): row for row in section.table.iter_rows(named=True)}
    found = rows["gpt-4o", "vector"]
    queries = score_run(released).queries
    oracle, vector = (queries.filter(queries["system"] == f"{name}_gpt-4o") for name in ("oracle", "vector"))
    both = oracle.join(vector, on=["haystack_id", "subtopic_id"])
    for figure, column in (("joint", "joint"), ("citation", "citation_f1")):
        lost = (both[column] - both[f"{column}_right"]).mean()
        assert found[f"{figure} lost"] == pytest.approx(lost)
        assert found[f"{figure} lost_low"] < lost < found[f"{figure} lost_high"]
    assert found["n"] == 18 and not any("oracle" in retriever or "full" in retriever for _, retriever in rows)


def test_two_runs_are_compared_system_by_system(run: RunStore) -> None:
    found = compare_systems([run, run])
    assert {(one.a.system == one.b.system, one.paired.difference) for one in found.pairs} == {(True, 0.0)}
    assert {one.paired.ties for one in found.pairs} == {found.pairs[0].paired.n_queries}
    names = sorted({one.a.system for one in found.pairs})
    [chosen] = {(one.a.system, one.b.system) for one in compare_systems([run, run], (names[0], names[-1])).pairs}
    assert chosen == (names[0], names[-1])


def test_what_is_not_there_is_told_by_name(run: RunStore) -> None:
    with pytest.raises(UserError, match="has no scored system 'nobody'; it has "):
        compare_systems([run], ("nobody", "*"))
    with pytest.raises(UserError, match="has no judgments by 'nobody'"):
        compare_systems([run], judges=["nobody"])
