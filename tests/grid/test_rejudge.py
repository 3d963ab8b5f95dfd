"""New judgments beside the old ones: what is judged, by whom, and what a run then says of its judges. No Ray."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rejudged_runs import N_INSIGHTS, N_QUERIES, PRICE, judge_all, rejudging, source_run

from summhay_ray.grid import SpecError, Wish, explain, failures, import_released, places, plan_rejudge, status
from summhay_ray.grid.exporting import export
from summhay_ray.grid.lanes import Packet, lane_settings, order_text, read_order
from summhay_ray.grid.rejudged import all_failures, all_judgments, all_scores, join_rejudges, judges_of, rejudge_ids
from summhay_ray.grid.rejudging import free_of, load_rejudging, read_slice, slice_text, source_of, stored_grid
from summhay_ray.grid.standing import StillRun, standing_of
from summhay_ray.problems import Problem
from summhay_ray.store import RunStore, Store, StoreError

pytestmark = pytest.mark.core

ALONE = {"model": "offline/judge", "strategy": "per_insight"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Four summaries, and four cells that have none."""
    return source_run(tmp_path_factory.mktemp("source"), summarizers=["offline/lead", "replay/gpt-4o"])


@pytest.fixture(scope="module")
def judged(run: RunStore) -> RunStore:
    """The run's summaries, judged by the free judge together: another judge than the run's own, with its label."""
    return judge_all(rejudging(run, "offline"))[0]


def write(folder: Path, text: str) -> str:
    path = folder / "judges.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_its_cells_are_the_summaries_and_nothing_without_one(run: RunStore) -> None:
    grid = rejudging(run, "offline")
    summaries = run.table("summaries")
    assert run.table("failures").height == N_QUERIES, "of replay/gpt-4o, which has no summary"
    assert sorted(cell.cell_id for cell in grid.cells()) == summaries["cell_id"].to_list()
    assert (grid.n_cells, len(list(grid.units()))) == (N_QUERIES, N_QUERIES)
    found = {cell.cell_id: summary for part in grid.slices for cell, summary in part.summaries(run)}
    assert {cell: list(summary.bullets) for cell, summary in found.items()} == dict(
        summaries.select("cell_id", "bullets").iter_rows()
    )
    standing = standing_of(grid, StillRun(run.store.create_run("jempty", {"kind": "rejudge"})))
    assert (standing.total, sum(standing.judgments().values())) == (N_QUERIES, N_INSIGHTS)


def test_a_slice_and_a_packet_are_read_as_they_were_written(run: RunStore) -> None:
    part = rejudging(run, "offline").slices[0]
    assert read_slice(slice_text(run.run_id, part)) == (run.run_id, part)
    packet = Packet(0, part.cells[:1], summary={"key": "k", "bullets": ["a"]}, asked={"cascade": ["i1"]})
    assert list(read_order(order_text([packet]))) == [packet]


def test_its_id_is_of_the_run_and_of_what_its_judges_say(run: RunStore, tmp_path: Path) -> None:
    def run_id(*judges: str, text: str = "seed: 3", of: RunStore = run) -> str:
        return load_rejudging(of, Wish(judges, write(tmp_path, text))).run_id

    first = run_id("offline")
    assert first.startswith("j") and first == run_id("offline/judge")
    assert run_id("offline", text="{budget_usd: 5, workers: 2, limits: {offline/judge: {rpm: 9}}}") == first
    both = run_id("offline", "few_shot(openai/gpt-4o)")
    assert run_id("few_shot(openai/gpt-4o)", "offline") == both != first
    other = source_run(tmp_path / "other", token_budget=900)
    ids = {first, both, run_id("blend(openai/gpt-4o,offline)"), run_id("offline", of=other), run_id("openai/gpt-4o")}
    assert len(ids) == 5


def test_the_judge_that_the_run_had_asks_nothing_again(run: RunStore) -> None:
    again, counts = judge_all(rejudging(run, "offline/judge"))
    assert (counts["made"], counts["reused"]) == (0, N_INSIGHTS)
    for table in ("judgments", "scores"):
        assert again.table(table).equals(run.table(table))


def test_new_judgments_stand_beside_the_old_ones(run: RunStore, judged: RunStore) -> None:
    before = run.digests()
    own, new = "offline/judge", f"offline/judge ({judged.run_id})"
    names = {one.judge: (one.label, one.runs) for one in judges_of(run)}
    assert names[own][1][0] == run.run_id and names[new] == ("offline/judge", (judged.run_id,))
    found = all_judgments(run)
    assert dict(found["judge"].value_counts().iter_rows()) == {own: N_INSIGHTS, new: N_INSIGHTS}
    assert found.filter(pl.col("judge") == own).equals(run.table("judgments"))
    mine = found.filter(pl.col("judge") == new)
    assert mine["value"].null_count() == mine["uncertainty"].null_count() == 0
    assert mine["key"].n_unique() == N_QUERIES, "one answer a summary"
    assert all_scores(run).height == 2 * N_INSIGHTS
    assert all_failures(run).equals(run.table("failures"))
    assert run.digests() == before


def test_an_export_holds_the_judgments_of_whom_it_is_asked_for(run: RunStore, judged: RunStore, tmp_path: Path) -> None:
    again = f"offline/judge ({judged.run_id})"
    [path] = export(run, tmp_path / "out", again)
    exported = {
        (subtopic["subtopic_id"], one["insight_id"]): (one["coverage"], one["bullet_id"])
        for subtopic in json.loads(path.read_bytes())["subtopics"]
        for one in subtopic["eval_summaries"]["summary_subtopic_bm25_offline/lead"]
    }
    said = all_judgments(run).filter(pl.col("judge") == again).join(run.table("summaries"), on="cell_id")
    assert len(exported) == N_INSIGHTS
    for subtopic, insight, coverage, bullet in said.select("subtopic_id", "insight_id", "coverage", "bullet_id").iter_rows():
        assert exported[subtopic, insight] == (coverage, json.loads(bullet))
    with pytest.raises(Problem, match=r"judge 'nobody' did not judge this run; known: offline/judge, offline/judge \(j"):
        export(run, tmp_path / "other", "nobody")
    with pytest.raises(StoreError, match=f"holds judgments of the summaries of {run.run_id}; give that run"):
        export(judged, tmp_path / "other")


def test_an_import_that_was_judged_again_keeps_all_else(run: RunStore, tmp_path: Path) -> None:
    [path] = export(run, tmp_path / "out")
    store = Store(str(tmp_path / "imported"))
    imported = store.run(import_released([str(path)], store).run)
    judge_all(rejudging(imported, "offline"))
    [again] = export(imported, tmp_path / "again", "offline/judge")
    before, after = (json.loads(one.read_bytes()) for one in (path, again))
    [as_it_came] = export(imported, tmp_path / "same")
    assert json.loads(as_it_came.read_bytes()) == before != after
    for content in (before, after):
        for subtopic in content["subtopics"]:
            assert set(subtopic.pop("eval_summaries")) == {"summary_subtopic_bm25_offline/lead"}
    assert before == after


def test_a_judgment_counts_once_and_is_no_failure_where_another_rejudge_has_it(tmp_path: Path) -> None:
    run = source_run(tmp_path)
    grid = rejudging(run, "offline", "replay/gpt-4o")
    first, _ = judge_all(grid)
    assert {one.error for one in failures(first)} == {"missing_answer"} and first.table("failures").height == N_INSIGHTS
    second, counts = judge_all(rejudging(run, "offline"))
    assert counts["made"] == 0
    together = f"offline/judge ({first.run_id})"
    assert {one.judge: one.runs for one in judges_of(run)}[together] == (first.run_id, second.run_id)
    assert all_judgments(run).filter(pl.col("judge") == together).height == N_INSIGHTS
    assert all_failures(run)["judge"].to_list() == ["replay/gpt-4o"] * N_INSIGHTS


def test_a_rejudge_is_named_once(tmp_path: Path) -> None:
    run = Store(str(tmp_path / "store")).create_run("r1", {"kind": "grid"})
    assert rejudge_ids(run) == []
    for name in ("j1", "j2", "j1"):
        join_rejudges(run, name)
    assert rejudge_ids(run) == ["j1", "j2"]


def test_status_failures_and_explain_know_it(run: RunStore, judged: RunStore) -> None:
    told = status(judged)
    assert (told.kind, told.status, told.name) == ("rejudge", "done", f"offline/judge on {run.run_id}")
    assert told.cells == {"total": N_QUERIES, "done": N_QUERIES, "failed": 0}
    assert failures(judged) == [] and source_of(judged).run_id == run.run_id
    summary = run.table("summaries").row(0, named=True)
    place = places(judged, [summary["cell_id"]])[summary["cell_id"]]
    assert (place.system, place.subtopic_id) == (summary["system"], summary["subtopic_id"])
    found = explain(judged, summary["cell_id"])
    assert found["bullets"] == summary["bullets"] and found["raw_answer"]["key"] == summary["key"]
    assert found["judgments"] and all(row["insight"] in row["prompt"] for row in found["judgments"])
    assert {row["raw_answer"]["model"] for row in found["judgments"]} == {"offline/judge"}


def test_a_plan_knows_the_summaries(run: RunStore, judged: RunStore) -> None:
    done = plan_rejudge(rejudging(run, "offline"))
    assert (done.cells, done.cells_finished) == (N_QUERIES, N_QUERIES)
    assert [(stage.calls, stage.reused) for stage in done.stages] == [(0, N_QUERIES)]
    each = plan_rejudge(rejudging(run, "openai/gpt-4o"))
    shared = plan_rejudge(rejudging(run, "per_summary(openai/gpt-4o)"))
    assert [stage.calls for stage in each.stages] == [N_INSIGHTS] and [stage.calls for stage in shared.stages] == [N_QUERIES]
    # One call a summary says of as many insights as its calls one by one; the bullets are sent once instead of 22 / 4 times.
    assert shared.stages[0].output_tokens == each.stages[0].output_tokens == N_INSIGHTS * 20
    assert shared.stages[0].input_tokens < each.stages[0].input_tokens
    tenth = plan_rejudge(rejudging(run, "cascade(offline,openai/gpt-4o,0.1)"))
    assert [(stage.model, stage.calls) for stage in tenth.stages] == [("openai/gpt-4o", 2)], "a tenth of 22, about"


def test_the_free_judge_of_a_cascade_is_the_one_that_rejudge_offline_asks(run: RunStore, judged: RunStore) -> None:
    grid = rejudging(run, "cascade(offline,openai/gpt-4o,0.5)")
    assert free_of(grid).run_id == judged.run_id
    assert sorted(grid.settings()) == ["offline/judge", "openai/gpt-4o"]
    assert stored_grid(run.store, judged.record).run_id == judged.run_id


def test_summaries_that_are_judged_here_compute_and_others_call(run: RunStore) -> None:
    free = lane_settings(rejudging(run, "offline"), {0: 4000}, workers=2)[0]
    assert (free.kind, free.at_once, free.an_order) == ("computing", 128, 16)
    paid = lane_settings(rejudging(run, "blend(openai/gpt-4o,offline)"), {0: 4000}, workers=2)[0]
    assert (paid.kind, paid.at_once, paid.an_order) == ("calling", 2000, 16)


def test_settings_come_from_the_spec_or_the_run(tmp_path: Path) -> None:
    reach = {"price": PRICE, "api_base": "http://127.0.0.1:9/v1"}
    run = source_run(tmp_path, judges=[ALONE], summarizers=["offline/lead"])
    text = f"{{judges: [{{model: openai/mine, name: mine, price: {PRICE}, api_base: 'http://127.0.0.1:9/v1', max_tokens: 50}}]}}"
    path = write(tmp_path, text)
    [whole] = rejudging(run, spec=path).spec.judges
    [named] = rejudging(run, "mine", spec=path).spec.judges
    assert whole == named and (named.label, named.max_tokens) == ("mine", 50)
    [mixed] = rejudging(run, "blend(openai/mine,offline)", spec=path).spec.judges
    assert (mixed.label, mixed.strategy, mixed.api_base) == ("blend(openai/mine,offline)", "blend", reach["api_base"])
    assert mixed.price == named.price and mixed.max_tokens == 200
    [own] = rejudging(run, "offline/judge").spec.judges
    assert own.strategy == "per_insight", "the run's own judge of that name"


@pytest.mark.parametrize(
    ("judges", "options", "expected"),
    [
        ((), {}, "no judge is named: give --judge NAME"),
        (("offlin",), {}, "did you mean 'offline'?"),
        (("openai/my-own",), {}, "openai/my-own"),
        (("stored/x",), {}, "summhay judge-bench"),
        (("offline", "offline/judge"), {}, "'offline/judge' stands twice"),
        (("offline",), {"overrides": ("judges.0.max_token=3",)}, "unknown field; did you mean max_tokens?"),
        (("offline",), {"overrides": ("retrievers=[bm25]",)}, "retrievers"),
        (("offline",), {"spec": "nowhere.yaml"}, "nowhere.yaml: no such file"),
    ],
)
def test_what_cannot_judge_is_refused_in_one_line(
    run: RunStore, judges: tuple[str, ...], options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(Problem) as error:
        rejudging(run, *judges, **options)
    assert expected in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("judges: offline", "judges: expected a list"),
        ("{judges: [offline], limts: {}}", "limts: unknown field; did you mean limits?"),
        ("{judges: [{modle: x}]}", "judges[0].modle: unknown field; did you mean model?"),
        ("{judges: [offline], limits: {offline/judge: {rpm: -1}}}", "limits.offline/judge.rpm: input should be greater than 0"),
    ],
)
def test_a_spec_of_judges_is_checked_as_any_other(run: RunStore, tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(SpecError) as error:
        rejudging(run, spec=write(tmp_path, text))
    assert expected in str(error.value) and str(error.value).startswith(str(tmp_path))


def test_a_rejudge_is_no_run_to_judge(judged: RunStore) -> None:
    with pytest.raises(SpecError, match="holds judgments of the summaries of r[0-9a-f]{12}; give that run"):
        rejudging(judged, "offline")
    with pytest.raises(StoreError, match="has no run 'nothing'"):
        judged.store.run("nothing")
