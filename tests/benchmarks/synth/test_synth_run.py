"""A synthesis from topics to haystacks: rows, objects, budget, resuming, export, and runs on the haystacks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from synth_runs import SMALL, run_inline, small, write_files

from summhay_ray import api
from summhay_ray.benchmarks.synth import make_haystack as making
from summhay_ray.engine import PlanResult, RunResult, SpecError, open_run, plan, results_of, workload_of
from summhay_ray.errors import UserError
from summhay_ray.store import RunStore, Store
from summhay_ray.synth import Unverified

pytestmark = pytest.mark.core

TWO = {"topics": ["the new tram line in Calaford", {"topic": "the dispute about the ferry", "name": "ferry"}]}
PRICED = {"model": "offline/writer", "max_tokens": 400, "price": {"input_per_mtok": 1.0, "output_per_mtok": 2.0}}
PAID = {"models": {"outline": PRICED, "write": PRICED}}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Two topics, finished."""
    return run_inline(small(**TWO), Store(str(tmp_path_factory.mktemp("synth") / "store")))[0]


@dataclass(frozen=True)
class Paid:
    """The two topics, planned and then made by models with a price."""

    planned: PlanResult
    run: RunStore
    result: RunResult


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> Paid:
    grid, store = small(**TWO, **PAID), Store(str(tmp_path_factory.mktemp("paid")))
    return Paid(plan(grid, store), *run_inline(grid, store))


def results(run: RunStore) -> Any:
    """The haystacks and the failed topics of a stored run."""
    return results_of(workload_of(run), run).scores


def export(run: RunStore, folder: Path) -> list[Path]:
    return api.export(run.run_id, folder, run.store.uri)


def tables(run: RunStore) -> Mapping[str, Any]:
    return {name: table for name, table in run.digests().items() if table["rows"]}


def test_a_topic_becomes_a_haystack_with_its_truth(done: RunStore) -> None:
    grid = small(**TWO)
    assert done.run_id == grid.run_id and api.failures(done.run_id, done.store.uri) == []
    first, second = results(done).haystacks
    assert (first.name, second.name) == ("the_new_tram_line_in_calaford", "ferry")
    for one in (first, second):
        assert (one.domain, one.documents, one.subtopics, one.insights) == ("news", 6, 2, 4)
        assert one.checks > 0 and one.checks_by_model == 0 and one.tokens > one.words > 6 * 60
    assert {name: table["rows"] for name, table in tables(done).items() if name not in ("checks", "raw_answers")} == {
        "haystacks": 2,
        "subtopics": 4,
        "insights": 8,
        "documents": 12,
        "made": 2,
    }
    told = api.status(done.run_id, done.store.uri)
    assert (told.kind, told.status, told.cells) == ("synth", "done", {"total": 2, "done": 2, "failed": 0})
    assert told.unit == "topics"
    assert [row["stage"] for row in told.usage] == ["outline", "write"]
    assert sum(row["real"]["calls"] for row in told.usage) == done.table("raw_answers").height


def test_the_released_json_says_how_it_was_made(done: RunStore, tmp_path: Path) -> None:
    grid = small(**TWO)
    [path, _] = export(done, tmp_path / "out")
    raw = json.loads(path.read_bytes())
    told = raw["topic_metadata"]["synthesis"]
    assert (told["license"], told["seed"], told["usd_micros"], told["offline_writer"]) == ("CC-BY-4.0", 0, 0, True)
    assert told["prompts"] == grid.recipe.domain.hashes() and told["models"]["write"]["model"] == "offline/writer"
    assert told["shape"]["documents"] == len(raw["documents"]) == 6 and told["difficulty"]["least"] == 2
    assert {one["document_metadata"]["writer"] for one in raw["documents"]} == {"offline/writer"}
    rows = done.table("checks").filter(pl.col("cell_id") == grid.recipe.cell_id(grid.recipe.topics[0]))
    assert told["checks"] == rows.height and told["checks_by_model"] == rows.filter(pl.col("by") != "offline").height
    assert told["words"] == sum(len(one["document_text"].split()) for one in raw["documents"])


def test_again_asks_nothing_and_export_import_export_is_lossless(done: RunStore, tmp_path: Path) -> None:
    before = done.digests()
    again, result = run_inline(small(**TWO), done.store)
    assert (result.executor, result.calls["made"]) == ("", 0) and again.digests() == before
    first = export(done, tmp_path / "first")
    other = Store(str(tmp_path / "other"))
    imported = other.run(api.import_released([str(path) for path in first], other.uri).run)
    second = export(imported, tmp_path / "second")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    names = ("haystacks", "subtopics", "insights", "documents")
    for name in names:
        assert imported.digests()[name] == before[name]


def test_a_budget_stops_it_and_more_goes_on_where_it_was(paid: Paid, tmp_path: Path) -> None:
    grid, store = small(**TWO, **PAID), Store(str(tmp_path / "store"))
    whole, clean = paid.run, paid.result
    spent = sum(row["usd_micros"] for row in whole.table("raw_answers").iter_rows(named=True))
    stopped, short = run_inline(grid, store, spent / 2e6)
    assert short.status == "budget" and short.left is not None and short.left["cells"] > 0
    n_made = short.calls["made"]
    assert 0 < n_made < clean.calls["made"] and (short.usd["spent"] or 0) <= spent / 2e6
    assert stopped.table("failures").height == 0, "a topic that the budget stops has not failed"
    told = api.status(stopped.run_id, store.uri)
    assert told.status == "budget" and told.left is not None and told.left["cells"] == short.left["cells"]
    finished, later = run_inline(grid, store)
    assert n_made + later.calls["made"] == clean.calls["made"], "nothing is asked twice"
    assert tables(finished) == tables(whole)
    assert [one.usd for one in later.scores.haystacks] == [one.usd for one in clean.scores.haystacks]
    assert sum(one.usd for one in clean.scores.haystacks) == pytest.approx(spent / 1e6)


def test_what_goes_wrong_with_one_topic_is_its_row_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = making.synthesize

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

    monkeypatch.setattr(making, "synthesize", troubled)
    topics = ["a tram", *({"topic": f"a ferry, {name}", "name": name} for name in ("bug", "odd", "gave_up"))]
    run, found = run_inline(small(topics=topics), Store(str(tmp_path)))
    assert found.status == "partial" and [one.name for one in found.scores.haystacks] == ["a_tram"]
    assert [(one.name, one.stage, one.error) for one in found.scores.failed] == [
        ("bug", "", "benchmark_error"),
        ("odd", "verification", "invalid_haystack"),
        ("gave_up", "queries", "query_leaks"),
    ]
    told = api.status(run.run_id, run.store.uri)
    assert (told.status, told.cells) == ("partial", {"total": 4, "done": 1, "failed": 3})
    bug = next(one for one in api.failures(run.run_id, run.store.uri) if one["error"] == "benchmark_error")
    assert bug["message"].startswith("ValueError: two lines") and (bug["system"], bug["haystack"]) == ("synth", "bug")
    assert api.explain(run.run_id, bug["cell_id"], run.store.uri)["failures"][0]["error"] == "benchmark_error"
    # A program error is tried again; a topic that verification refused gives the same with these answers.
    monkeypatch.setattr(making, "synthesize", real)
    again, later = run_inline(small(topics=topics), run.store)
    assert [one.name for one in later.scores.haystacks] == ["a_tram", "bug", "odd"]
    assert [one.name for one in later.scores.failed] == ["gave_up"] and later.cells == {"total": 4, "done": 3, "failed": 1}
    assert again.table("made").height == 3


def test_a_synth_spec_stands_for_what_it_made(done: RunStore, tmp_path: Path) -> None:
    write_files(tmp_path, {"mine.yaml": yaml.safe_dump({**SMALL, **TWO})})
    run = {"retrievers": ["oracle"], "summarizers": ["offline/lead"], "haystacks": [str(tmp_path / "mine.yaml")]}
    grid = api.load(run, store=done.store.uri)
    made = results(done).haystacks
    assert list(grid.spec.haystacks) == [one.entry for one in made]
    assert [source.name for source in grid.grid.haystacks.metadata] == ["the_new_tram_line_in_calaford", "ferry"]
    assert api.load({**run, "haystacks": [made[1].entry]}, store=done.store.uri).grid.haystacks.metadata[0].name == "ferry"
    answered, _ = run_inline(grid, done.store)
    assert answered.table("summaries").height == 4 and answered.table("failures").height == 0
    assert results_of(grid, answered).notes[0].startswith("the prose of 2 of 2 haystacks is made from templates (offline/writer)")
    elsewhere = str(tmp_path / "empty")
    with pytest.raises(
        SpecError, match=r"mine.yaml: its haystacks are not in the store .*; make them first: summhay synth .*mine"
    ):
        api.load(run, store=elsewhere)
    with pytest.raises(SpecError, match=r"no file 'gone.yaml'"):
        api.load({**run, "haystacks": ["gone.yaml"]}, store=elsewhere)


def test_a_finished_one_is_read_back_and_written(done: RunStore, tmp_path: Path) -> None:
    def again() -> RunResult:
        return api.synth({**SMALL, **TWO}, done.store.uri, out=tmp_path / "out")

    result = again()
    assert (result.status, result.calls["made"], result.calls["reused"]) == ("done", 0, done.table("raw_answers").height)
    assert [Path(name).name for name in result.scores.files] == ["the_new_tram_line_in_calaford.json", "ferry.json"]
    document = result.to_json()
    assert document["files"] == result.scores.files
    assert [one["entry"] for one in document["haystacks"]] == [one.entry for one in results(done).haystacks]
    assert document["failed"] == [] and document["left"] is None
    files = {Path(name): Path(name).read_bytes() for name in result.scores.files}
    assert again().scores.files == result.scores.files
    assert {path: path.read_bytes() for path in files} == files
    Path(result.scores.files[1]).write_text("{}", encoding="ascii")
    with pytest.raises(UserError, match="ferry.json exists"):
        again()


def test_a_file_in_the_way_is_reported_before_any_call(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    write_files(tmp_path / "out", {"ferry.json": "{}"})
    for out, said in ((tmp_path / "out", "ferry.json exists"), (tmp_path / "out" / "ferry.json", "is a file; give a folder")):
        with pytest.raises(UserError, match=said):
            api.synth({**SMALL, **TWO}, store.uri, out=out, executor="inline")
    assert open_run(small(**TWO), store).table("raw_answers").height == 0 and not (tmp_path / "store" / "log").exists()


def test_a_haystack_asks_about_what_its_documents_do_not_say(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    plain, asking = small(), small(absent=3)
    assert plain.run_id != asking.run_id == small(absent=3).run_id and small(absent=0).run_id == plain.run_id
    (one,) = run_inline(asking, store)[1].scores.haystacks
    found = json.loads(store.get_object("haystack", one.entry.split("/")[1]))
    absent = [topic for topic in found["subtopics"] if topic.get("absent")]
    text = " ".join(document["document_text"].lower() for document in found["documents"])
    assert len(absent) == 3 and not [topic for topic in absent for word in topic["subtopic"].split() if f" {word} " in text]
    assert len(found["subtopics"]) == 5
