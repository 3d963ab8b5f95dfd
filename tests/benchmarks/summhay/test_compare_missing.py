"""Released systems with missing answers: failures are not rewarded, and do not affect other systems."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from summhay_ray.benchmarks.summhay import compare_systems, import_released, score_run
from summhay_ray.benchmarks.summhay.results.paper_tables import sections
from summhay_ray.comparison import SystemComparison
from summhay_ray.store import RunStore, Store

pytestmark = pytest.mark.core

TWIN, LAST, KEPT = "rerank3_gpt-4o", "random_gpt3.5", ("_gpt-4o", "_gpt3.5")
Imported = Callable[[Callable[[Any], None]], RunStore]


@pytest.fixture(scope="module")
def imported(summhay_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """Return a function that imports a copy of some of the release's systems with edited subtopics."""

    def run(edit: Callable[[Any], None]) -> RunStore:
        folder = tmp_path_factory.mktemp("copy")
        for name in ("topic_news1.json", "topic_news2.json"):
            topic = json.loads((summhay_data / name).read_text())
            for subtopic in topic["subtopics"]:
                for part in ("summaries", "eval_summaries"):
                    subtopic[part] = {name: of for name, of in subtopic[part].items() if name.endswith(KEPT)}
                edit(subtopic)
            (folder / name).write_text(json.dumps(topic))
        store = Store(str(folder / "store"))
        return store.run(import_released([str(path) for path in sorted(folder.glob("*.json"))], store).run)

    return run


def drop(subtopic: Any, system: str) -> None:
    for part in ("summaries", "eval_summaries"):
        subtopic[part].pop(f"summary_subtopic_{system}")


def standing(comparison: SystemComparison, system: str, figure: str = "joint") -> dict[str, Any]:
    return comparison.standings[figure].filter(pl.col("name") == system).to_dicts()[0]


def test_a_twin_whose_failed_judgments_are_missing_is_not_better(imported: Imported) -> None:
    n = 96

    def twin(subtopic: Any) -> None:
        name = f"summary_subtopic_{TWIN}"
        subtopic["summaries"][f"{name}-twin"] = subtopic["summaries"][name]
        judged = subtopic["eval_summaries"][name]
        subtopic["eval_summaries"][f"{name}-twin"] = [one for one in judged if one["coverage"] == "FULL_COVERAGE"]

    run = imported(twin)
    found = compare_systems([run], (TWIN, f"{TWIN}-twin"))
    rows = score_run(run).queries
    own = {name: rows.filter(pl.col("system") == name) for name in (TWIN, f"{TWIN}-twin")}
    for figure in ("joint", "coverage"):
        one = standing(found, f"{TWIN}-twin", figure)
        assert (one["n"], one["n_expected"], one["missing"]) == (n, 137, pytest.approx(1 - n / 137))
        assert one["mean"] == pytest.approx(own[f"{TWIN}-twin"][figure].mean())
        assert one["mean"] > standing(found, TWIN, figure)["mean"]
        # With missing answers as 0: below the twin, or equal if only zeros are missing.
        assert one["floor"] <= standing(found, TWIN, figure)["floor"] + 1e-12
        assert one["rank"] is None
    for pair in found.pairs.to_dicts():
        assert not pair["differs"] and f"lacks {137 - n} of 137 insights" in pair["verdict"]
        assert pair["paired"]["worst_low"] < 0 <= pair["paired"]["worst_high"] + 1e-12


def test_who_answers_only_the_easiest_queries_wins_no_pair(imported: Imported, released_scores: Any) -> None:
    kept_systems = [name for name in released_scores.queries["system"].unique() if f"_{name}".endswith(KEPT)]
    released_queries = released_scores.queries.filter(pl.col("system").is_in(kept_systems))
    easiest = released_queries.filter(pl.col("system") == "oracle_gpt-4o").sort("joint", descending=True).head(8)
    kept = set(easiest["subtopic_id"])

    def silent(subtopic: Any) -> None:
        if subtopic["subtopic_id"] not in kept:
            drop(subtopic, "oracle_gpt-4o")

    run = imported(silent)
    found = compare_systems([run], ("oracle_gpt-4o", "*"))
    one = standing(found, "oracle_gpt-4o")
    assert (one["rank"], one["mean"], one["floor"]) == (
        None,
        pytest.approx(easiest["joint"].mean()),
        pytest.approx(easiest["joint"].sum() / 18),
    )
    higher = [
        pair
        for pair in found.pairs.to_dicts()
        if pair["differs"] and (pair["paired"]["difference"] > 0) == (pair["a"]["system"] == "oracle_gpt-4o")
    ]
    assert found.of("joint").height == released_queries["system"].n_unique() - 1 and not higher
    # It is not the best system in any section.
    shown = {section.slug: section for section in sections(score_run(run))}
    assert "oracle + gpt-4o" not in shown["subtopics"].text
    people = shown["people"].table
    assert people is not None and ("gpt-4o", "oracle") not in people.select("model", "retriever").rows()


def test_one_that_crashes_halfway_blinds_nobody(imported: Imported) -> None:
    seen = list[str]()

    def crash(subtopic: Any) -> None:
        seen.append(subtopic["subtopic_id"])
        if len(seen) > 9:
            drop(subtopic, LAST)

    with_it, without = compare_systems([imported(crash)]), compare_systems([imported(lambda subtopic: drop(subtopic, LAST))])
    for figure in ("joint", "coverage", "citation"):
        assert standing(with_it, LAST, figure)["rank"] is None
        others = with_it.standings[figure].filter(pl.col("name") != LAST).drop("run")
        assert others.equals(without.standings[figure].drop("run"))
        assert with_it.best(figure) == without.best(figure)
    for pair in with_it.pairs.to_dicts():
        ends = [pair["paired"][name] for name in ("low", "difference", "high", "worst_low", "worst_high")]
        assert all(end is None or -1 <= end <= 1 for end in ends)
    assert with_it.decision.use == without.decision.use and "random + gpt3.5 left out" in with_it.decision.text
