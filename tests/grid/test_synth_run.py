"""A synthesis from its topics to its haystacks: rows, objects, budget, resuming, export, and runs on what it made. No Ray."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from inprocess import answer_all
from synth_runs import SMALL, small, synthesize_all, write_files

from summhay_ray import api
from summhay_ray.grid import SpecError, explain, failures, import_released, places, plan_synth, status
from summhay_ray.grid import synth_cell as cells
from summhay_ray.grid.exporting import export
from summhay_ray.grid.synth import failed_topics, made_haystacks, run_synth
from summhay_ray.grid.synthesizing import made_by
from summhay_ray.haystack import read_released
from summhay_ray.problems import Problem
from summhay_ray.store import RunStore, Store, StoreError
from summhay_ray.synth import Unverified

pytestmark = pytest.mark.core

TWO = {"topics": ["the new tram line in Calaford", {"topic": "the dispute about the ferry", "name": "ferry"}]}
PRICED = {"model": "offline/writer", "max_tokens": 400, "price": {"input_per_mtok": 1.0, "output_per_mtok": 2.0}}
PAID = {"models": {"outline": PRICED, "write": PRICED}}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Two topics, done."""
    return synthesize_all(small(**TWO), Store(str(tmp_path_factory.mktemp("synth") / "store")))[0]


def tables(run: RunStore) -> Mapping[str, Any]:
    return {name: table for name, table in run.digests().items() if table["rows"]}


def test_a_topic_becomes_a_haystack_with_its_truth(done: RunStore) -> None:
    grid = small(**TWO)
    assert done.run_id == grid.run_id and failures(done) == []
    first, second = made_haystacks(done)
    assert (first.name, second.name) == ("the_new_tram_line_in_calaford", "ferry")
    for one in (first, second):
        assert (one.domain, one.documents, one.subtopics, one.insights) == ("news", 6, 2, 4)
        assert one.checks > 0 and one.checks_by_model == 0 and one.tokens > one.words > 6 * 60
    assert {name: table["rows"] for name, table in tables(done).items() if name not in ("checks", "raw_answers")} == {
        "haystacks": 2,
        "subtopics": 4,
        "insights": 8,
        "documents": 12,
    }
    told = status(done)
    assert (told.kind, told.status, told.cells) == ("synth", "done", {"total": 2, "done": 2, "failed": 0})
    assert [row["stage"] for row in told.usage] == ["outline", "write"]
    assert sum(row["real"]["calls"] for row in told.usage) == done.table("raw_answers").height


def test_the_released_json_says_how_it_was_made(done: RunStore, tmp_path: Path) -> None:
    grid = small(**TWO)
    [path, _] = export(done, tmp_path / "out")
    raw = json.loads(path.read_bytes())
    told = raw["topic_metadata"]["synthesis"]
    assert (told["license"], told["seed"], told["usd_micros"], told["offline_writer"]) == ("CC-BY-4.0", 0, 0, True)
    assert told["prompts"] == grid.domain.hashes() and told["models"]["write"]["model"] == "offline/writer"
    assert told["shape"]["documents"] == len(raw["documents"]) == 6 and told["difficulty"]["least"] == 2
    assert {one["document_metadata"]["writer"] for one in raw["documents"]} == {"offline/writer"}
    rows = done.table("checks").filter(pl.col("cell_id") == grid.cell_id(grid.topics[0]))
    assert told["checks"] == rows.height and told["checks_by_model"] == rows.filter(pl.col("by") != "offline").height
    assert told["words"] == sum(len(one["document_text"].split()) for one in raw["documents"])


def test_each_insight_is_in_the_documents_that_the_checks_found_it_in(done: RunStore) -> None:
    grid = small(**TWO)
    cell = grid.cell_id(grid.topics[0])
    made = made_by(done)[cell]
    haystack = read_released(done.store.get_object("haystack", made.digest), f"{made.name}.json").haystack
    rows = done.table("checks", [cell]).filter((pl.col("kind") == "document_insight") & (pl.col("found") == "yes"))
    last = rows.sort("round").unique(subset=["subject", "object"], keep="last").select("subject", "object").rows()
    truth = {(one.document_id, insight) for one in haystack.documents for insight in one.insight_ids}
    assert truth <= set(last)
    assert min(map(len, haystack.gold().values())) >= 2, "difficulty.least"


def test_again_asks_nothing_and_export_import_export_is_lossless(done: RunStore, tmp_path: Path) -> None:
    before = done.digests()
    again, answered, ledger = synthesize_all(small(**TWO), done.store)
    assert answered == [] and ledger.counts["made"] == 0 and again.digests() == before
    first = export(done, tmp_path / "first")
    other = Store(str(tmp_path / "other"))
    imported = other.run(import_released([str(path) for path in first], other).run)
    second = export(imported, tmp_path / "second")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    names = ("haystacks", "subtopics", "insights", "documents")
    for name in names:
        assert imported.digests()[name] == before[name]


def test_the_same_spec_makes_the_same_tables_in_any_store(done: RunStore, tmp_path: Path) -> None:
    reversed_topics = list(reversed(TWO["topics"]))
    again, _, _ = synthesize_all(small(topics=reversed_topics), Store(str(tmp_path)))
    assert again.run_id == done.run_id and tables(again) == tables(done)


def test_a_budget_stops_it_and_more_goes_on_where_it_was(tmp_path: Path) -> None:
    grid, store = small(**TWO, **PAID), Store(str(tmp_path / "store"))
    whole, _, clean = synthesize_all(grid, Store(str(tmp_path / "clean")))
    spent = sum(row["usd_micros"] for row in whole.table("raw_answers").iter_rows(named=True))
    stopped, answered, ledger = synthesize_all(grid, store, spent // 2)
    assert any(one.over_budget for one in answered)
    n_made = ledger.counts["made"]
    assert 0 < n_made < clean.counts["made"]
    assert stopped.table("failures").height == 0, "a topic that the budget stops has not failed"
    assert status(stopped).status == "unfinished"
    finished, _, later = synthesize_all(grid, store)
    assert n_made + later.counts["made"] == clean.counts["made"], "nothing is asked twice"
    assert tables(finished) == tables(whole)
    assert [one.usd for one in made_haystacks(finished)] == [one.usd for one in made_haystacks(whole)]
    assert sum(one.usd for one in made_haystacks(whole)) == pytest.approx(spent / 1e6)


def test_a_plan_bounds_what_is_asked(tmp_path: Path) -> None:
    grid, store = small(**TWO, **PAID), Store(str(tmp_path))
    plan = plan_synth(grid, store)
    assert (plan.cells, plan.cells_finished, [stage.stage for stage in plan.stages]) == (2, 0, ["outline", "write"])
    run, _, ledger = synthesize_all(grid, store)
    real = {row["stage"]: row["real"] for row in status(run).usage}
    for stage in (one.to_json() for one in plan.stages):
        found = real[stage["stage"]]
        for name in ("calls", "input_tokens", "output_tokens"):
            assert stage[f"min_{name}"] <= found[name] <= stage[f"max_{name}"], (stage, found)
            assert stage[f"min_{name}"] <= stage[name] <= stage[f"max_{name}"]
        assert stage["usd_min"] <= found["usd"] <= stage["usd_max"] and stage["usd_min"] <= stage["usd"] <= stage["usd_max"]
    after = plan_synth(grid, store)
    assert (after.cells_finished, sum(stage.calls for stage in after.stages), after.usd["max"]) == (2, 0, 0.0)
    assert after.spent_usd == pytest.approx(sum(row["usd"] for row in real.values()))


def test_a_plan_takes_off_what_unfinished_topics_have_paid(tmp_path: Path) -> None:
    grid, store = small(**TWO, **PAID), Store(str(tmp_path))
    before = plan_synth(grid, store)
    _, _, ledger = synthesize_all(grid, store, 2000)
    assert ledger.counts["made"] > 0
    after = plan_synth(grid, store, budget_usd=0.0001)
    assert sum(stage.reused for stage in after.stages) == ledger.counts["made"]
    assert after.usd["expected"] < before.usd["expected"] and after.usd["min"] <= before.usd["min"]
    assert "budget_usd is 0.0001" in after.warnings[0]


def test_what_goes_wrong_with_one_topic_is_its_row_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = cells.synthesize

    async def troubled(job: Any, asker: Any) -> Any:
        if job.topic.name == "bug":
            raise ValueError("two\nlines")
        if job.topic.name == "odd":
            found = await real(job, asker)
            found.raw["documents"][0]["insights_included"] = ["nobody's"]
            return found
        if job.topic.name == "gave_up":
            return Unverified("queries", "query_leaks", "every query gave an insight away", key="k1", attempts=3)
        return await real(job, asker)

    monkeypatch.setattr(cells, "synthesize", troubled)
    topics = ["a tram", *({"topic": f"a ferry, {name}", "name": name} for name in ("bug", "odd", "gave_up"))]
    run, _, _ = synthesize_all(small(topics=topics), Store(str(tmp_path)))
    assert [one.name for one in made_haystacks(run)] == ["a_tram"]
    assert [(one.name, one.stage, one.error) for one in failed_topics(run)] == [
        ("bug", "synthesis", "synthesis_error"),
        ("odd", "verification", "invalid_haystack"),
        ("gave_up", "queries", "query_leaks"),
    ]
    told = status(run)
    assert (told.status, told.cells) == ("partial", {"total": 4, "done": 1, "failed": 3})
    bug = next(one for one in failures(run) if one.error == "synthesis_error")
    assert bug.message == "ValueError: two lines"
    place = places(run, [bug.cell_id])[bug.cell_id]
    assert (place.system, place.haystack) == ("synth", "bug")
    assert explain(run, bug.cell_id)["failures"][0]["error"] == "synthesis_error"
    # A mistake of ours is tried again; what verification refused is what these answers give.
    monkeypatch.setattr(cells, "synthesize", real)
    again, answered, _ = synthesize_all(small(topics=topics), run.store)
    assert {one.cell.unit.haystack_id for one in answered} == {"bug", "odd"}
    assert [one.name for one in made_haystacks(again)] == ["a_tram", "bug", "odd"]


def test_explain_goes_from_a_cell_to_its_checks_and_from_an_answer_to_its_prompt(done: RunStore) -> None:
    grid = small(**TWO)
    cell = grid.cell_id(grid.topics[1])
    found = explain(done, cell[:12])
    assert (found["cell_id"], found["topic"]["name"], found["haystack"]["name"]) == (cell, "ferry", "ferry")
    assert sum(row["n"] for row in found["checks_by_kind"]) == done.table("checks", [cell]).height
    for key in done.table("raw_answers", [cell])["key"].to_list():
        told = explain(done, key)
        assert told["raw_answer"]["key"] == key and "\nInput:\n{" in told["prompt"]
    with pytest.raises(StoreError, match="no cell or answer"):
        explain(done, "feed" * 8)
    with pytest.raises(StoreError, match="too short"):
        explain(done, cell[:4])


def test_a_synth_spec_stands_for_what_it_made(done: RunStore, tmp_path: Path) -> None:
    write_files(tmp_path, {"mine.yaml": yaml.safe_dump({**SMALL, **TWO})})
    run = {"retrievers": ["oracle"], "summarizers": ["offline/lead"], "haystacks": [str(tmp_path / "mine.yaml")]}
    grid = api.load(run, store=done.store.uri)
    assert list(grid.spec.haystacks) == [one.entry for one in made_haystacks(done)]
    assert [source.name for source in grid.sources] == ["the_new_tram_line_in_calaford", "ferry"]
    assert api.load({**run, "haystacks": [made_haystacks(done)[1].entry]}, store=done.store.uri).sources[0].name == "ferry"
    answered, _, _ = answer_all(grid, done.store)
    assert answered.table("summaries").height == 4 and answered.table("failures").height == 0
    elsewhere = str(tmp_path / "empty")
    with pytest.raises(
        SpecError, match=r"mine.yaml: its haystacks are not in the store .*; make them first: summhay synth .*mine"
    ):
        api.load(run, store=elsewhere)
    with pytest.raises(SpecError, match="names topics, so it is for: summhay synth"):
        api.load(tmp_path / "mine.yaml")
    with pytest.raises(SpecError, match=r"no file 'gone.yaml'"):
        api.load({**run, "haystacks": ["gone.yaml"]}, store=elsewhere)


def test_some_of_its_haystacks_are_not_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = cells.synthesize

    async def one_fails(job: Any, asker: Any) -> Any:
        return Unverified("queries", "leak", "no", (), True) if job.topic.name == "ferry" else await real(job, asker)

    monkeypatch.setattr(cells, "synthesize", one_fails)
    store, path = Store(str(tmp_path / "store")), tmp_path / "mine.yaml"
    synthesize_all(small(**TWO), store)
    write_files(tmp_path, {path.name: yaml.safe_dump({**SMALL, **TWO})})
    with pytest.raises(SpecError, match=r"1 of its 2 haystacks are not in the store .*; make them first: summhay synth"):
        api.load({"retrievers": ["full"], "summarizers": ["offline/lead"], "haystacks": [str(path)]}, store=store.uri)


def test_a_finished_one_is_read_back_without_ray(done: RunStore, tmp_path: Path) -> None:
    result = run_synth(small(**TWO), done.store, out=tmp_path / "out")
    assert (result.status, result.calls["made"], result.calls["reused"]) == ("done", 0, done.table("raw_answers").height)
    assert [Path(name).name for name in result.files] == ["the_new_tram_line_in_calaford.json", "ferry.json"]
    document = result.to_json()
    assert [one["entry"] for one in document["haystacks"]] == [one.entry for one in made_haystacks(done)]
    assert document["failed"] == [] and document["left"] is None
    files = {Path(name): Path(name).read_bytes() for name in result.files}
    assert run_synth(small(**TWO), done.store, out=tmp_path / "out").files == result.files
    assert {path: path.read_bytes() for path in files} == files
    Path(result.files[1]).write_text("{}", encoding="ascii")
    with pytest.raises(Problem, match="ferry.json exists; give an empty folder"):
        run_synth(small(**TWO), done.store, out=tmp_path / "out")
