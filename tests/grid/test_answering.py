"""One cell's way to its rows: everything that becomes of a question is a row, in this process and without Ray."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from inprocess import answer_all, grid_of_fields, rows_of

from summhay_ray.grid import explain, plan_grid, score_run, status
from summhay_ray.store import Store, StoreError

pytestmark = pytest.mark.core

N_QUERIES, N_INSIGHTS = 4, 22


def answered(tmp_path: Path, **fields: Any) -> dict[str, Any]:
    grid = grid_of_fields(**fields)
    store = Store(str(tmp_path / "store"))
    run, done, ledger = answer_all(grid, store)
    return {"grid": grid, "store": store, "run": run, "rows": rows_of(done), "counts": ledger.counts}


def test_every_insight_is_judged_and_scored(tmp_path: Path) -> None:
    found = answered(tmp_path)
    rows = found["rows"]
    assert len(rows["summaries"]) == N_QUERIES
    assert len(rows["judgments"]) == len(rows["scores"]) == N_INSIGHTS
    assert "failures" not in rows
    assert len(rows["raw_answers"]) == N_QUERIES + N_INSIGHTS == found["counts"]["made"]
    keys = {raw.key for raw in rows["raw_answers"]}
    assert {row.key for row in [*rows["summaries"], *rows["judgments"]]} == keys


def test_asking_again_makes_no_call_and_the_same_rows(tmp_path: Path) -> None:
    first = answered(tmp_path / "a")
    grid = grid_of_fields()
    store = Store(str(tmp_path / "a" / "store"))
    # The same run in another store's folder would ask again; here only the response log is left.
    shutil.rmtree(tmp_path / "a" / "store" / "runs" / grid.run_id / "commits")
    run, _, ledger = answer_all(grid, store)
    assert (ledger.counts["made"], ledger.counts["reused"]) == (0, N_QUERIES + N_INSIGHTS)
    assert run.digests() == first["run"].digests()


def test_a_store_of_an_earlier_format_keeps_what_was_paid_by_its_log(tmp_path: Path) -> None:
    first = answered(tmp_path / "old")
    (tmp_path / "old" / "store" / "format.json").write_text('{"format": 1}')
    with pytest.raises(StoreError, match="format 1 was written by an earlier version; copy its log folder into a new folder"):
        Store(str(tmp_path / "old" / "store"))
    shutil.copytree(tmp_path / "old" / "store" / "log", tmp_path / "new" / "log")
    run, _, ledger = answer_all(first["grid"], Store(str(tmp_path / "new")))
    assert (ledger.counts["made"], ledger.counts["reused"]) == (0, N_QUERIES + N_INSIGHTS)
    assert run.digests() == first["run"].digests()


def test_a_context_beyond_the_window_is_a_failure_that_names_both_lengths(tmp_path: Path) -> None:
    model = {"model": "offline/lead", "context_window": 1200, "max_tokens": 200}
    found = answered(tmp_path, summarizers=[model])
    failures = found["rows"]["failures"]
    assert len(failures) == N_QUERIES and "summaries" not in found["rows"]
    assert {(row.stage, row.kind, row.error) for row in failures} == {("context", "failed", "context_window")}
    assert "1200 tokens of offline/lead" in failures[0].message
    words = failures[0].message.split()
    assert int(words[words.index("prompt's") + 1]) > 1200 - 200
    score = score_run(found["run"]).systems[0]
    assert (score.n_expected, score.n_scored, score.coverage, score.joint) == (N_INSIGHTS, 0, None, None)
    assert plan_grid(found["grid"], found["store"]).too_long == N_QUERIES


def test_without_documents_the_offline_model_has_nothing_to_say(tmp_path: Path) -> None:
    found = answered(tmp_path, retrievers=["none"])
    failures = found["rows"]["failures"]
    assert [(row.stage, row.kind, row.error) for row in failures] == [("summarize", "malformed", "empty_answer")] * N_QUERIES
    assert len(found["rows"]["raw_answers"]) == N_QUERIES
    assert status(found["run"]).cells == {"total": N_QUERIES, "done": 0, "failed": N_QUERIES}


def test_replay_without_a_released_summary_is_a_missing_answer(tmp_path: Path) -> None:
    found = answered(tmp_path, summarizers=["replay/gpt-4o", "offline/lead"])
    failures = found["rows"]["failures"]
    assert {(row.stage, row.kind, row.error) for row in failures} == {("summarize", "failed", "missing_answer")}
    assert "the release holds no summary 'bm25_gpt-4o'" in failures[0].message
    assert len(found["rows"]["summaries"]) == N_QUERIES
    by_model = {score.model: (score.n_scored, score.n_expected) for score in score_run(found["run"]).systems}
    assert by_model == {"replay/gpt-4o": (0, N_INSIGHTS), "offline/lead": (N_INSIGHTS, N_INSIGHTS)}


def test_a_judge_that_did_not_judge_the_release_is_a_missing_answer(tmp_path: Path) -> None:
    found = answered(tmp_path, judges=["offline/judge", "replay/claude3-opus"])
    failures = found["rows"]["failures"]
    assert len(failures) == N_INSIGHTS
    assert {(row.judge, row.stage, row.error) for row in failures} == {("replay/claude3-opus", "judge", "missing_answer")}
    scores = {score.judge: score.n_scored for score in score_run(found["run"]).systems}
    assert scores == {"offline/judge": N_INSIGHTS, "replay/claude3-opus": 0}


def test_plan_counts_what_is_left_and_what_is_there(tmp_path: Path) -> None:
    grid, store = grid_of_fields(), Store(str(tmp_path / "store"))
    before = plan_grid(grid, store).to_json()
    assert [(stage["stage"], stage["calls"], stage["reused"]) for stage in before["stages"]] == [
        ("summarize", N_QUERIES, 0),
        ("judge", N_INSIGHTS, 0),
    ]
    assert not Path(store.uri).exists(), "a plan writes nothing"
    answer_all(grid, store)
    after = plan_grid(grid, store).to_json()
    assert [(stage["calls"], stage["reused"]) for stage in after["stages"]] == [(0, N_QUERIES), (0, N_INSIGHTS)]
    assert (after["cells"], after["cells_finished"]) == (N_QUERIES, N_QUERIES)


def test_explain_goes_from_a_score_to_the_prompt(tmp_path: Path) -> None:
    found = answered(tmp_path)
    summary = found["rows"]["summaries"][0]
    told = explain(found["run"], summary.cell_id)
    assert told["bullets"] == list(summary.bullets)
    assert told["raw_answer"]["key"] == summary.key and told["raw_answer"]["usd_micros"] == 0
    assert told["query"] in told["prompt"] and told["context"]["numbers"]
    mine = [row for row in found["rows"]["judgments"] if row.cell_id == summary.cell_id]
    assert [row["judgment"]["insight_id"] for row in told["judgments"]] == [row.insight_id for row in mine]
    for row in told["judgments"]:
        assert row["insight"] in row["prompt"]
        assert row["raw_answer"]["key"] == row["judgment"]["key"]
        assert row["score"]["joint"] == row["score"]["coverage"] * (row["score"]["citation_f1"] or 0)
    one = explain(found["run"], mine[2].key[:12])
    assert [row["judgment"]["key"] for row in one["judgments"]] == [mine[2].key]


@pytest.mark.parametrize(("key", "expected"), [("ab", "too short"), ("0" * 20, "has no cell or answer")])
def test_explain_says_what_it_cannot_find(tmp_path: Path, key: str, expected: str) -> None:
    found = answered(tmp_path)
    with pytest.raises(StoreError, match=expected):
        explain(found["run"], key)


def test_repeats_are_samples_of_their_own(tmp_path: Path) -> None:
    found = answered(tmp_path, repeats=3)
    keys = {row.key for row in found["rows"]["summaries"]}
    assert len(keys) == len(found["rows"]["summaries"]) == 3 * N_QUERIES
    score = score_run(found["run"]).systems[0]
    assert (score.n_expected, score.n_scored) == (3 * N_INSIGHTS, 3 * N_INSIGHTS)
    # An offline model gives the same summary three times, so its judgments are asked for once.
    assert found["counts"]["made"] == 3 * N_QUERIES + N_INSIGHTS
