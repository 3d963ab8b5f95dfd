"""From one cell to its rows: every question gives a row, is explained, and is never asked twice."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from inline_runs import N_INSIGHTS, N_QUERIES, SAMPLE, answered, rows

from summhay_ray import api
from summhay_ray.engine import RunResult
from summhay_ray.store import RunStore, StoreError

pytestmark = pytest.mark.core


def failures_of(run: RunStore, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in rows(run, "failures")]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, RunStore]:
    """An undisturbed run; no test changes it."""
    return answered(tmp_path_factory.mktemp("done"))


def test_every_insight_is_judged_and_scored(done: tuple[RunResult, RunStore]) -> None:
    result, run = done
    assert (result.status, result.calls) == ("done", {"made": N_QUERIES + N_INSIGHTS, "reused": 0, "failed": 0})
    counted = {name: run.table(name).height for name in ("summaries", "judgments", "scores", "failures", "raw_answers")}
    assert counted == {
        "summaries": N_QUERIES,
        "judgments": N_INSIGHTS,
        "scores": N_INSIGHTS,
        "failures": 0,
        "raw_answers": N_QUERIES + N_INSIGHTS,
    }
    asked = {row["key"] for row in [*rows(run, "summaries"), *rows(run, "judgments")]}
    assert asked == {row["key"] for row in rows(run, "raw_answers")}


def test_a_copied_log_is_all_that_a_new_store_needs(done: tuple[RunResult, RunStore], tmp_path: Path) -> None:
    _, first = done
    digests = first.digests()
    shutil.copytree(Path(first.store.uri) / "answers", tmp_path / "new" / "answers")
    again, run = answered(tmp_path / "new")
    assert again.calls == {"made": 0, "reused": N_QUERIES + N_INSIGHTS, "failed": 0}
    assert run.digests() == digests


def test_a_context_beyond_the_window_is_a_failure_that_names_both_lengths(tmp_path: Path) -> None:
    summarizers = [{"model": "offline/lead", "context_window": 1200, "max_tokens": 200}]
    result, run = answered(tmp_path, summarizers=summarizers)
    assert failures_of(run, "stage", "kind", "error") == [("context", "failed", "context_window")] * N_QUERIES
    assert run.table("summaries").is_empty()
    message = rows(run, "failures")[0]["message"]
    assert "1200 tokens of offline/lead" in message
    words = message.split()
    assert int(words[words.index("prompt's") + 1]) > 1200 - 200
    score = result.scores.systems[0]
    assert (score.n_expected, score.n_scored, score.coverage, score.joint) == (N_INSIGHTS, 0, None, None)
    assert api.plan({**SAMPLE, "summarizers": summarizers}, str(tmp_path)).too_long == N_QUERIES


def test_without_documents_the_offline_model_has_nothing_to_say(tmp_path: Path) -> None:
    result, run = answered(tmp_path, retrievers=["none"])
    assert failures_of(run, "stage", "kind", "error") == [("summarize", "malformed", "empty_answer")] * N_QUERIES
    assert run.table("raw_answers").height == N_QUERIES
    cells = {"total": N_QUERIES, "done": 0, "failed": N_QUERIES}
    assert (result.status, result.cells, api.status(run.run_id, run.store.uri).cells) == ("partial", cells, cells)


def test_replay_of_what_was_not_released_is_a_missing_answer(tmp_path: Path) -> None:
    judges = ["offline/judge", "replay/claude3-opus"]
    result, run = answered(tmp_path, summarizers=["replay/gpt-4o", "offline/lead"], judges=judges)
    assert Counter(failures_of(run, "judge", "stage", "kind", "error")) == {
        ("", "summarize", "failed", "missing_answer"): N_QUERIES,
        ("replay/claude3-opus", "judge", "failed", "missing_answer"): N_INSIGHTS,
    }
    assert run.table("summaries").height == N_QUERIES
    scored = {(score.model, score.judge): (score.n_scored, score.n_expected) for score in result.scores.systems}
    assert scored.pop(("offline/lead", "offline/judge")) == (N_INSIGHTS, N_INSIGHTS)
    assert set(scored.values()) == {(0, N_INSIGHTS)} and len(scored) == 3
    # Each failure names the missing summary.
    listed = [row for row in api.failures(run.run_id, run.store.uri) if row["stage"] == "summarize"]
    assert "the release holds no summary 'bm25_gpt-4o'" in listed[0]["message"]
    assert {(row["system"], row["haystack"]) for row in listed} == {("bm25_gpt-4o", "news")}
    assert len({row["subtopic_id"] for row in listed}) == N_QUERIES
    told = api.explain(run.run_id, listed[0]["cell_id"], run.store.uri)
    assert (told["summary"], told["system"], told["haystack"]) == (None, "bm25_gpt-4o", "news")
    assert [row["error"] for row in told["failures"]] == ["missing_answer"]


def test_explain_goes_from_a_score_to_the_prompt(done: tuple[RunResult, RunStore]) -> None:
    _, run = done
    summary = rows(run, "summaries")[0]
    told = api.explain(run.run_id, summary["cell_id"], run.store.uri)
    assert told["bullets"] == summary["bullets"]
    assert told["raw_answer"]["key"] == summary["key"] and told["raw_answer"]["usd_micros"] == 0
    assert told["query"] in told["prompt"] and told["context"]["numbers"]
    mine = [row for row in rows(run, "judgments") if row["cell_id"] == summary["cell_id"]]
    assert [row["judgment"]["insight_id"] for row in told["judgments"]] == [row["insight_id"] for row in mine]
    for row in told["judgments"]:
        assert row["insight"] in row["prompt"]
        assert row["raw_answer"]["key"] == row["judgment"]["key"]
        assert row["score"]["joint"] == row["score"]["coverage"] * (row["score"]["citation_f1"] or 0)
    one = api.explain(run.run_id, mine[2]["key"][:12], run.store.uri)
    assert [row["judgment"]["key"] for row in one["judgments"]] == [mine[2]["key"]]


@pytest.mark.parametrize(("key", "expected"), [("ab", "too short"), ("0" * 20, "has no cell or answer")])
def test_explain_reports_what_it_cannot_find(done: tuple[RunResult, RunStore], key: str, expected: str) -> None:
    _, run = done
    with pytest.raises(StoreError, match=expected):
        api.explain(run.run_id, key, run.store.uri)


def test_repeats_are_samples_of_their_own(tmp_path: Path) -> None:
    result, run = answered(tmp_path, repeats=3)
    keys = {row["key"] for row in rows(run, "summaries")}
    assert len(keys) == run.table("summaries").height == 3 * N_QUERIES
    score = result.scores.systems[0]
    assert (score.n_expected, score.n_scored) == (3 * N_INSIGHTS, 3 * N_INSIGHTS)
    # An offline model gives the same summary three times, so its judgments are requested once.
    assert result.calls["made"] == 3 * N_QUERIES + N_INSIGHTS
