"""The figures of a run from its tables: each metric's own n, and G-EVAL by criterion."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from frames import Frames

from summhay_ray.benchmarks.odsum.collection import Collection, Document, Query
from summhay_ray.benchmarks.odsum.report import sections
from summhay_ray.benchmarks.odsum.scores import details, frames
from summhay_ray.benchmarks.odsum.spec import OdsumSpec
from summhay_ray.benchmarks.odsum.tables import TABLES, QueryRow, RatingRow, SummaryRow, SummaryScore

pytestmark = pytest.mark.core

# Each query has two references. "b" lacks one rating, and "c" has no text.
RATED = {
    "a": {"consistency": (2.0, 4.0), "relevance": (1.0, 3.0)},
    "b": {"consistency": (5.0,), "relevance": (5.0, 5.0)},
}


def spec_of(**geval: Any) -> OdsumSpec:
    fields = {"kind": "odsum", "corpus": "x", "retrievers": ["oracle"], "k": [1], "summarizers": ["offline/lead"]}
    return OdsumSpec.model_validate({**fields, "metrics": ["rouge", {"geval": "offline/rater", **geval}]})


def scored(spec: OdsumSpec, votes: int = 1) -> dict[str, pl.DataFrame]:
    queries = [QueryRow(name, "", f"Query {name}?", (), ("One.", " ", "Two.")) for name in "abc"]
    system = {"retriever": "oracle", "k": 1, "strategy": "truncate-all"}
    summaries = [SummaryRow(name, name, **system, model="offline/lead", text="t", n_tokens=1, key="k") for name in "ab"]
    values = [
        SummaryScore("a", 0.5, 0.5, 0.5, 0.5, None, 3.5),
        SummaryScore("b", 0.1, 0.1, 0.1, 0.1, None, None),
    ]
    ratings = [
        RatingRow(item, criterion, place, rating, votes, votes * rating, "k")
        for item, rated in RATED.items()
        for criterion, given in rated.items()
        for place, rating in enumerate(given)
    ]
    rows = {"odsum_queries": queries, "odsum_summaries": summaries, "odsum_scores": values, "odsum_ratings": ratings}
    tables = {one.name: one.frame(rows.get(one.name, [])) for one in TABLES}
    items = [{"item_id": one, "query_id": one, **system, "called": "offline/lead", "summarizer": 0} for one in "abc"]
    return dict(frames(Frames({**tables, "items": pl.DataFrame(items)}), spec))


@pytest.mark.parametrize("over,consistency,relevance", [("best", 4.0, 3.0), ("mean", 3.0, 2.0)])
def test_a_criterion_counts_whole_queries_by_their_best_reference_or_the_mean(
    over: str, consistency: float, relevance: float
) -> None:
    found = scored(spec_of(over=over))["ratings"].sort("criterion")
    # "b" has both ratings of relevance, and lacks one of consistency.
    by = {row["criterion"]: row for row in found.to_dicts()}
    assert by["consistency"]["rating"] == consistency and by["consistency"]["n"] == 1
    assert by["relevance"]["rating"] == (relevance + 5.0) / 2 and by["relevance"]["n"] == 2
    assert by["consistency"]["pooled"] == (2 + 4) / 2 and by["relevance"]["pooled"] == (1 + 3 + 5 + 5) / 4


def test_log_probabilities_have_no_votes_to_pool() -> None:
    assert scored(spec_of(logprobs=5), votes=0)["ratings"]["pooled"].to_list() == [None, None]


def test_each_metric_reports_its_number_of_scores() -> None:
    found = scored(spec_of())
    [row] = details(found)["summaries"]
    assert (row["n_expected"], row["n_scored"], row["n_rouge"], row["n_geval"]) == (3, 2, 2, 1)
    assert row["rouge1"] == pytest.approx((0.5 + 0.1) / 2) and row["geval"] == 3.5
    told = {one.title: one.table for one in sections(found, Collection("x", (Document("d", "t"),), (Query("a", "q"),)))}
    assert told["Summaries"].select("n", "n_expected", "n of G-EVAL").rows() == [(2, 3, 1)]
    assert told["As in Tables 3 and 4, by model"]["n"].to_list() == [1]
