"""Malicious haystacks in real runs: every row is right or a failure with its class, and no other row changes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hostile_haystack
import polars as pl
import pytest
from runs import summhay, write_spec

from summhay_ray import api
from summhay_ray.metrics import extract_citations

pytestmark = pytest.mark.timeout(600)

SPEC = {
    "retrievers": ["keywords", "oracle", "full", "none"],
    "orderings": ["given", "middle"],
    "token_budget": 1500,
    "summarizers": ["offline/support", "offline/lead"],
    "seed": 7,
    "executor": "inline",
}
N_UNITS, N_SUMMARIZERS = 5, 2
"""Three retrievers in their own order and the whole haystack in two, for each query."""
CROWD, LONG_LINE = 60, 100_000
TABLES = ("rankings", "contexts", "summaries", "judgments", "scores", "failures")


@dataclass(frozen=True)
class Ran:
    """A finished run: its JSON document and its store."""

    document: Mapping[str, Any]
    store: Path

    def table(self, name: str) -> pl.DataFrame:
        frame: pl.DataFrame = api.table(self.document["run"], name, str(self.store))
        return frame

    def score(self) -> dict[str, Any]:
        return summhay("score", self.document["run"], "--store", self.store)


def ran(folder: Path, *haystacks: str) -> Ran:
    spec = write_spec(folder, {**SPEC, "haystacks": list(haystacks)})
    # Exit code 4: `none` shows no document, and the offline summarizers then have no text.
    return Ran(summhay("run", spec, "--store", folder / "store", code=4), folder / "store")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return {"hostile": hostile_haystack.hostile(), "crowd": hostile_haystack.crowd(CROWD, LONG_LINE)}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return ran(tmp_path_factory.mktemp("clean"), "sample/news")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, files: Mapping[str, dict[str, Any]]) -> Ran:
    """The clean haystack again, in one run with the hostile ones, in a separate store, so that no answer is shared."""
    folder = tmp_path_factory.mktemp("mixed")
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="ascii")
    return ran(folder, "hostile.json", "sample/news", "crowd.json")


def haystack_ids(ran: Ran) -> dict[str, str]:
    return dict(ran.table("haystacks").select("name", "haystack_id").iter_rows())


def insights_of(ran: Ran) -> Counter[tuple[str, str]]:
    """(haystack, subtopic) -> the number of insights that each of its summaries is judged on."""
    return Counter(ran.table("insights").select("haystack_id", "subtopic_id").iter_rows())


def cells_of(ran: Ran, rows: pl.DataFrame) -> set[str]:
    return set(rows["cell_id"].to_list())


def test_rows_in_are_rows_out_plus_failures(mixed: Ran) -> None:
    summaries, scores, failures = (mixed.table(name) for name in ("summaries", "scores", "failures"))
    n_queries = 4 + 4 + 1
    lost = failures.filter(pl.col("stage") != "judge")
    assert cells_of(mixed, summaries).isdisjoint(cells_of(mixed, lost))
    assert summaries.height + lost.height == n_queries * N_UNITS * N_SUMMARIZERS == mixed.document["cells"]["total"]
    insights = insights_of(mixed)
    expected = {row["cell_id"]: insights[row["haystack_id"], row["subtopic_id"]] for row in summaries.iter_rows(named=True)}
    judged = Counter(scores["cell_id"].to_list()) + Counter(failures.filter(pl.col("stage") == "judge")["cell_id"].to_list())
    assert judged == Counter(expected)
    assert mixed.document["cells"]["done"] == summaries.height
    assert mixed.document["cells"]["failed"] == lost.height


def test_every_failure_has_its_class(mixed: Ran) -> None:
    failures = mixed.table("failures")
    # Without documents there is no summary (9 queries), and a subtopic without insights has no judgment (6 more units).
    expected = (9 * 1 + 1 * (N_UNITS - 1)) * N_SUMMARIZERS
    assert Counter(failures.select("stage", "kind", "error").iter_rows()) == {
        ("summarize", "malformed", "empty_answer"): expected
    }


def test_a_failure_says_where_it_is_and_is_explained(mixed: Ran) -> None:
    listed = summhay("failures", mixed.document["run"], "--store", mixed.store)["failures"]
    assert len(listed) == mixed.table("failures").height
    assert {row["system"] for row in listed} >= {"none_offline/lead", "none_offline/support"}
    odd = next(row for row in listed if row["subtopic_id"] == 'sub"topic\n/2\u202e')
    found = summhay("explain", mixed.document["run"], odd["cell_id"], "--store", mixed.store)
    assert (found["summary"], found["system"], found["haystack"]) == (None, odd["system"], "hostile")
    assert [row["error"] for row in found["failures"]] == ["empty_answer"]


def test_no_row_of_the_clean_haystack_changes(clean: Ran, mixed: Ran) -> None:
    (haystack_id,) = haystack_ids(clean).values()
    assert haystack_ids(mixed)["news"] == haystack_id
    cells = cells_of(clean, clean.table("summaries")) | cells_of(clean, clean.table("failures"))
    assert len(cells) == 4 * N_UNITS * N_SUMMARIZERS
    for name in TABLES:
        alone, beside = clean.table(name), mixed.table(name)
        mine = pl.col("haystack_id") == haystack_id if "haystack_id" in beside.columns else pl.col("cell_id").is_in(sorted(cells))
        assert alone.height > 0
        assert beside.filter(mine).equals(alone), name
    assert mixed.score()["haystacks"]["news"] == clean.score()["haystacks"]["news"]


def test_only_documents_that_were_shown_are_cited(mixed: Ran) -> None:
    shown = {row["context_id"]: set(row["numbers"]) for row in mixed.table("contexts").iter_rows(named=True)}
    cited = 0
    for summary in mixed.table("summaries").iter_rows(named=True):
        for bullet in summary["bullets"]:
            numbers = set(extract_citations(bullet))
            assert numbers or "do not say" in bullet
            assert numbers <= shown[summary["context_id"]], bullet
            cited += len(numbers)
    assert cited > 500


def test_a_summary_is_as_long_as_it_was_asked_to_be(mixed: Ran, files: Mapping[str, dict[str, Any]]) -> None:
    hostile = haystack_ids(mixed)["hostile"]
    rows = mixed.table("summaries").filter((pl.col("haystack_id") == hostile) & (pl.col("subtopic_id") == "harbour"))
    # The four facts that any document contains; a document's request for 1000 bullets is not obeyed.
    assert max(len(bullets) for bullets in rows["bullets"].to_list()) <= len(hostile_haystack.FACTS)
    assert rows.height == 2 * (N_UNITS - 1)


def test_nobody_is_talked_into_a_verdict(mixed: Ran) -> None:
    summaries = mixed.table("summaries").select("cell_id", "subtopic_id")
    judged = mixed.table("judgments").join(summaries, on="cell_id")
    nowhere = judged.filter(pl.col("insight_id").is_in(["nowhere", "empty", "signs", "stop words", "long", "quoted"]))
    assert nowhere.height > 0
    assert set(nowhere["coverage"].to_list()) == {"NO_COVERAGE"}
    told = judged.filter((pl.col("subtopic_id") == "harbour") & (pl.col("insight_id") == "toll"))
    assert "FULL_COVERAGE" in told["coverage"].to_list()


def test_one_insight_twice_is_judged_alike(mixed: Ran) -> None:
    judgments = mixed.table("judgments")
    once, again = (
        judgments.filter(pl.col("insight_id") == name).select("cell_id", "coverage", "bullet_id")
        for name in ("toll", "toll again")
    )
    assert once.height == 2 * 2 * (N_UNITS - 1)
    assert once.equals(again)


def test_text_comes_back_as_it_was(mixed: Ran, files: Mapping[str, dict[str, Any]]) -> None:
    documents = mixed.table("documents")
    for name, raw in files.items():
        mine = documents.filter(pl.col("haystack_id") == haystack_ids(mixed)[name]).sort("number")
        assert mine["text"].to_list() == [document["document_text"] for document in raw["documents"]]
        assert mine["document_id"].to_list() == [document["document_id"] for document in raw["documents"]]
    assert documents["text"].str.len_chars().max() == LONG_LINE
    queries = {row["query"] for row in mixed.table("subtopics").iter_rows(named=True)}
    assert {subtopic["query"] for subtopic in files["hostile"]["subtopics"]} <= queries
