"""New judgments in addition to the old ones: their items and judge, and what the run reports about its judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from rejudged_runs import N_INSIGHTS, N_QUERIES, PRICE, judged_again, rejudging, source_run

from summhay_ray import api
from summhay_ray.benchmarks.summhay import all_rows, judges_of
from summhay_ray.engine import plan, workload_of
from summhay_ray.errors import UserError
from summhay_ray.store import RunStore, Store, StoreError

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Four summaries, and four cells that have none."""
    return source_run(tmp_path_factory.mktemp("source"), summarizers=["offline/lead", "replay/gpt-4o"])


@pytest.fixture(scope="module")
def judged(run: RunStore) -> RunStore:
    """The run's summaries, judged by the free judge all together: a different judge than the run's own, with its label."""
    return judged_again(run, "offline")[0]


def write(folder: Path, text: str) -> str:
    path = folder / "judges.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_its_id_is_of_the_run_and_of_what_its_judges_say(run: RunStore, tmp_path: Path) -> None:
    def run_id(*judges: str, text: str = "seed: 3", of: RunStore = run) -> str:
        return rejudging(of, *judges, spec=write(tmp_path, text)).run_id

    first = run_id("offline")
    assert first.startswith("j") and first == run_id("offline/judge")
    assert run_id("offline", text="{budget_usd: 5, workers: 2, limits: {offline/judge: {rpm: 9}}}") == first
    both = run_id("offline", "few_shot(openai/gpt-4o)")
    assert run_id("few_shot(openai/gpt-4o)", "offline") == both != first
    other = source_run(tmp_path / "other", token_budget=900)
    ids = {first, both, run_id("blend(openai/gpt-4o,offline)"), run_id("offline", of=other), run_id("openai/gpt-4o")}
    assert len(ids) == 5


def test_the_judge_that_the_run_had_asks_nothing_again(run: RunStore) -> None:
    again, result = judged_again(run, "offline/judge")
    assert (result.calls["made"], result.calls["reused"]) == (0, N_INSIGHTS)
    for table in ("judgments", "scores"):
        assert again.table(table).equals(run.table(table))


def test_new_judgments_stand_beside_the_old_ones(run: RunStore, judged: RunStore) -> None:
    before = run.digests()
    own, new = "offline/judge", f"offline/judge ({judged.run_id})"
    names = {one.judge: (one.label, one.runs) for one in judges_of(run)}
    assert names[own][1][0] == run.run_id and names[new] == ("offline/judge", (judged.run_id,))
    found = all_rows(run, "judgments")
    assert dict(found["judge"].value_counts().iter_rows()) == {own: N_INSIGHTS, new: N_INSIGHTS}
    assert found.filter(pl.col("judge") == own).equals(run.table("judgments"))
    mine = found.filter(pl.col("judge") == new)
    assert mine["value"].null_count() == mine["uncertainty"].null_count() == 0
    assert mine["key"].n_unique() == N_QUERIES, "one answer a summary"
    assert run.digests() == before
    scored = {one.judge: one.n_scored for one in api.score(run.run_id, run.store.uri).systems if one.n_scored}
    assert scored == {own: N_INSIGHTS, new: N_INSIGHTS}


def test_an_export_holds_the_judgments_of_whom_it_is_asked_for(run: RunStore, judged: RunStore, tmp_path: Path) -> None:
    again, store = f"offline/judge ({judged.run_id})", run.store.uri
    [path] = api.export(run.run_id, tmp_path / "out", store, again)
    exported = {
        (subtopic["subtopic_id"], one["insight_id"]): (one["coverage"], one["bullet_id"])
        for subtopic in json.loads(path.read_bytes())["subtopics"]
        for one in subtopic["eval_summaries"]["summary_subtopic_bm25_offline/lead"]
    }
    said = all_rows(run, "judgments").filter(pl.col("judge") == again).join(run.table("summaries"), on="cell_id")
    assert len(exported) == N_INSIGHTS
    for subtopic, insight, coverage, bullet in said.select("subtopic_id", "insight_id", "coverage", "bullet_id").iter_rows():
        assert exported[subtopic, insight] == (coverage, json.loads(bullet))
    with pytest.raises(UserError, match=r"no judgments by 'nobody'"):
        api.export(run.run_id, tmp_path / "other", store, "nobody")
    with pytest.raises(StoreError, match=f"holds judgments of the summaries of {run.run_id}"):
        api.export(judged.run_id, tmp_path / "other", store)
    assert not (tmp_path / "other").exists()


def test_an_import_that_was_judged_again_keeps_all_else(run: RunStore, tmp_path: Path) -> None:
    [path] = api.export(run.run_id, tmp_path / "out", run.store.uri)
    store = Store(str(tmp_path / "imported"))
    imported = store.run(api.import_released(path, store.uri).run)
    judged_again(imported, "offline")
    [again] = api.export(imported.run_id, tmp_path / "again", store.uri, "offline/judge")
    before, after = (json.loads(one.read_bytes()) for one in (path, again))
    [as_it_came] = api.export(imported.run_id, tmp_path / "same", store.uri)
    assert json.loads(as_it_came.read_bytes()) == before != after
    for content in (before, after):
        for subtopic in content["subtopics"]:
            assert set(subtopic.pop("eval_summaries")) == {"summary_subtopic_bm25_offline/lead"}
    assert before == after


def test_a_judgment_counts_once_and_is_no_failure_where_another_rejudge_has_it(tmp_path: Path) -> None:
    run = source_run(tmp_path)
    first, result = judged_again(run, "offline", "replay/gpt-4o")
    failed = api.failures(first.run_id, run.store.uri)
    assert result.status == "partial" and {(one["error"], one["judge"]) for one in failed} == {
        ("missing_answer", "replay/gpt-4o")
    }
    assert len(failed) == N_INSIGHTS
    second, result = judged_again(run, "offline")
    assert (result.status, result.calls["made"]) == ("done", 0)
    together = f"offline/judge ({first.run_id})"
    judged_again(run, "offline")
    assert {one.judge: one.runs for one in judges_of(run)}[together] == (first.run_id, second.run_id), "each is named once"
    assert all_rows(run, "judgments").filter(pl.col("judge") == together).height == N_INSIGHTS
    # The report shows for every summary which insights the rejudge failed to judge, with the insight.
    samples = list(workload_of(run).samples(run).samples)
    verdicts = [row for sample in samples for part in sample.parts if part["kind"] == "verdicts" for row in part["verdicts"]]
    lost = [row for row in verdicts if row["said"].startswith("missing_answer: ")]
    assert {row["judge"] for row in lost} == {"replay/gpt-4o"} and len(lost) == N_INSIGHTS
    assert not any("coverage" in row for row in lost)
    assert all(sample.facets["failed"] for sample in samples)


def test_status_failures_and_explain_know_it(run: RunStore, judged: RunStore) -> None:
    store = run.store.uri
    told = api.status(judged.run_id, store)
    assert (told.kind, told.status, told.name) == ("rejudge", "done", f"offline/judge on {run.run_id}")
    assert told.cells == {"total": N_QUERIES, "done": N_QUERIES, "failed": 0}
    assert api.failures(judged.run_id, store) == []
    shown = api.make_report(judged.run_id, store).section("judges")
    assert shown.table is not None and shown.units["joint"] == "%"
    assert shown.table["joint"].to_list() == [pytest.approx(judged.table("scores")["joint"].mean())]
    summary = run.table("summaries").row(0, named=True)
    found = api.explain(judged.run_id, summary["cell_id"], store)
    assert (found["system"], found["subtopic_id"]) == (summary["system"], summary["subtopic_id"])
    assert found["bullets"] == summary["bullets"] and found["raw_answer"]["key"] == summary["key"]
    assert found["judgments"] and all(row["insight"] in row["prompt"] for row in found["judgments"])
    assert {row["raw_answer"]["model"] for row in found["judgments"]} == {"offline/judge"}


def test_a_plan_knows_the_summaries(run: RunStore, judged: RunStore) -> None:
    def planned(*judges: str) -> Any:
        return plan(rejudging(run, *judges), run.store)

    done = planned("offline")
    assert (done.run, done.cells, done.cells_finished) == (judged.run_id, N_QUERIES, N_QUERIES)
    assert [(stage.calls, stage.reused) for stage in done.stages] == [(0, N_QUERIES)]
    [each], [shared] = planned("openai/gpt-4o").stages, planned("per_summary(openai/gpt-4o)").stages
    assert (each.calls, shared.calls) == (N_INSIGHTS, N_QUERIES)
    # One call per summary has the verdicts of as many insights as the separate calls; bullets are sent once instead of 22 / 4
    # times.
    assert shared.output_tokens == each.output_tokens == N_INSIGHTS * 20
    assert shared.input_tokens < each.input_tokens
    tenth = planned("cascade(offline,openai/gpt-4o,0.1)")
    assert [(stage.model, stage.calls) for stage in tenth.stages] == [("openai/gpt-4o", 2)], "a tenth of 22, about"


def test_settings_come_from_the_spec_or_the_run(run: RunStore, tmp_path: Path) -> None:
    text = f"{{judges: [{{model: openai/mine, name: mine, price: {PRICE}, api_base: 'http://127.0.0.1:9/v1', max_tokens: 50}}]}}"
    path = write(tmp_path, text)
    [whole] = rejudging(run, spec=path).spec.judges
    [named] = rejudging(run, "mine", spec=path).spec.judges
    assert whole == named and (named.label, named.max_tokens) == ("mine", 50)
    blended = rejudging(run, "blend(openai/mine,offline)", spec=path).spec
    assert [one.label for one in blended.judges] == ["blend(openai/mine,offline)"]
    # Each part is asked as it is asked alone, so that its answers are shared.
    mixed, _ = blended.parts()
    assert (mixed.api_base, mixed.price, mixed.max_tokens) == ("http://127.0.0.1:9/v1", named.price, 50)
    [own] = rejudging(run, "offline/judge").spec.judges
    assert own.strategy == "per_insight", "the run's own judge of that name"


def test_a_runs_spec_says_who_judges_how_and_within_which_budget(run: RunStore, tmp_path: Path) -> None:
    reach = {"price": PRICE, "api_base": "http://127.0.0.1:9/v1", "token_margin": 2.0, "max_answer_bytes": 4096}
    fields = {
        "haystacks": ["sample/news"],
        "retrievers": ["bm25"],
        "summarizers": [{"model": "openai/writer", **reach}],
        "judges": [
            {"model": "openai/mine", **reach},
            {"model": "offline/judge", "strategy": "per_insight", "name": "mixed"},
        ],
        "limits": {"openai/writer": {"rpm": 1}, "openai/mine": {"rpm": 2, "concurrency": 3}},
        "budget_usd": 1.5,
        "stage_budgets_usd": {"summarize": 1.0, "judge": 0.5},
        "model_budgets_usd": {"openai/writer": 1.0, "openai/mine": 0.25},
        "token_budget": 900,
        "repeats": 2,
    }
    whole = rejudging(run, spec=write(tmp_path, yaml.safe_dump(fields)))
    assert [one.label for one in whole.spec.judges] == ["openai/mine", "mixed"]
    spec = whole.spec
    assert (spec.budget_usd, spec.stage_budgets_usd, spec.model_budgets_usd) == (1.5, {"judge": 0.5}, {"openai/mine": 0.25})
    mine = whole.models.settings()["openai/mine"]
    assert (mine.limits.rpm, mine.limits.concurrency, mine.api_base) == (2, 3, reach["api_base"])
    assert (mine.token_margin, mine.max_answer_bytes) == (2.0, 4096)
    # A summarizer's model judges with the endpoint of the spec.
    writer = rejudging(run, "openai/writer", spec=write(tmp_path, yaml.safe_dump(fields))).models.settings()["openai/writer"]
    assert (writer.limits.rpm, writer.api_base, writer.token_margin) == (1, reach["api_base"], 2.0)


@pytest.mark.parametrize(
    ("judges", "options", "expected"),
    [
        ((), {}, "no judge is named: give --judge NAME"),
        (("offlin",), {}, "did you mean 'offline'?"),
        (("openai/my-own",), {}, "openai/my-own"),
        (("stored/x",), {}, "summhay judge-bench"),
        (("offline", "offline/judge"), {}, "'offline/judge' is listed twice"),
        (("offline",), {"overrides": ("judges.0.max_token=3",)}, "unknown field; did you mean max_tokens?"),
        (("offline",), {"overrides": ("retrievers=[bm25]",)}, "retrievers"),
        (("offline",), {"spec": "nowhere.yaml"}, "nowhere.yaml: no such file"),
    ],
)
def test_what_cannot_judge_is_refused_in_one_line(
    run: RunStore, judges: tuple[str, ...], options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UserError) as error:
        rejudging(run, *judges, **options)
    assert expected in str(error.value) and "\n" not in str(error.value)
