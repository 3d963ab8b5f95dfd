"""`summhay synth`, `plan`, `audit`, `status`, `failures` and `explain` of a synthesis, on the command line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import Said
from synth_runs import SMALL, run_inline, small

from summhay_ray.benchmarks.synth import MadeHaystack
from summhay_ray.engine import results_of, workload_of
from summhay_ray.haystack import haystack_id_of
from summhay_ray.store import RunStore, Store

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
TWO = {**SMALL, "topics": ["the new tram line in Calaford", {"topic": "the dispute about the ferry", "name": "ferry"}]}
DOCUMENT = {
    "commonest_failure",
    "failures",
    "tried_again",
    "run",
    "status",
    "cells",
    "calls",
    "usd",
    "left",
    "seconds",
    "executor",
    "kind",
    "stopped_models",
    "warnings",
    "haystacks",
    "failed",
    "files",
}
HAYSTACK = {
    *("name", "haystack_id", "entry", "topic", "domain", "documents", "subtopics", "distractors", "insights"),
    *("tokens", "words"),
    *("checks", "checks_by_model", "corrections", "usd"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Two haystacks, made by the spec `synth.yaml` in the folder of the store."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "synth.yaml").write_text(yaml.safe_dump(TWO), encoding="utf-8")
    return run_inline(small(**TWO), Store(str(folder / "store")))[0]


def described(run: RunStore) -> list[MadeHaystack]:
    found: list[MadeHaystack] = results_of(workload_of(run), run).scores.haystacks
    return found


@pytest.fixture
def spec(made: RunStore) -> str:
    return str(Path(made.store.uri.removeprefix("file://")).parent / "synth.yaml")


@pytest.fixture
def store(made: RunStore) -> tuple[str, str]:
    return ("--store", made.store.uri)


def test_a_finished_synthesis_is_reported_and_written(cli: Cli, spec: str, store: tuple[str, str], tmp_path: Path) -> None:
    said = cli("synth", spec, *store, "--out", tmp_path / "out", "--json")
    assert said.code == 0 and said.document.keys() == DOCUMENT
    found = said.document
    assert (found["status"], found["calls"]["made"], found["failed"]) == ("done", 0, [])
    assert all(one.keys() == HAYSTACK for one in found["haystacks"])
    assert [one["name"] for one in found["haystacks"]] == ["the_new_tram_line_in_calaford", "ferry"]
    assert [json.loads(Path(name).read_bytes())["topic"] for name in found["files"]] == [
        one["topic"] for one in found["haystacks"]
    ]
    shown = cli("synth", spec, *store)
    assert shown.code == 0 and "topics    2 done, 0 with failures, of 2" in shown.out and "all 2" in shown.out
    assert cli("synth", spec, *store, "--out", tmp_path / "out", "--json").document["files"] == found["files"]
    Path(found["files"][0]).write_text("{}", encoding="ascii")
    assert "exists; give an empty folder" in cli("synth", spec, *store, "--out", tmp_path / "out").refusal


def test_run_takes_the_spec_as_synth_does(cli: Cli, spec: str, store: tuple[str, str]) -> None:
    run, synth = (cli(command, spec, *store, "--json") for command in ("run", "synth"))
    assert run.code == 0 and run.document.keys() == DOCUMENT
    assert {**run.document, "seconds": 0} == {**synth.document, "seconds": 0}
    shown = cli("run", spec, *store)
    assert "all 2" in shown.out and "topics    2 done, 0 with failures, of 2" in shown.out


def test_a_synthesis_that_the_budget_stops_prints_how_to_continue(cli: Cli, tmp_path: Path) -> None:
    path, store = tmp_path / "synth.yaml", ("--store", tmp_path / "store")
    priced = {"model": "offline/writer", "max_tokens": 400, "price": {"input_per_mtok": 1.0, "output_per_mtok": 2.0}}
    path.write_text(yaml.safe_dump({**TWO, "models": {"outline": priced, "write": priced}}), encoding="utf-8")
    seeded = ("--set", "seed=5")
    stopped = cli("synth", path, *store, *seeded, "--budget", "0.004", "--executor", "inline")
    go_on = f"summhay synth {path} --set seed=5 --store {tmp_path / 'store'} --budget MORE"
    assert stopped.code == 3 and go_on in " ".join(stopped.out.split())
    failing = cli("synth", path, *store, *seeded, "--executor", "inline", "--json")
    assert (failing.code, failing.document["status"], failing.document["cells"]["done"]) == (0, "done", 2)


def test_doctor_looks_at_its_models(cli: Cli, made: RunStore, tmp_path: Path) -> None:
    path = tmp_path / "synth.yaml"
    hosted = {"model": "openai/writer", "api_base": "http://127.0.0.1:9/v1", "price": 0, "api_key_env": "NO_SUCH_KEY_IS_SET"}
    path.write_text(yaml.safe_dump({**SMALL, "models": {"write": hosted}}), encoding="utf-8")
    told = cli("doctor", path, "--store", made.store.uri, "--json").document
    lacking = [one for one in told["checks"] if not one["ok"]]
    assert [one for one in lacking if "NO_SUCH_KEY_IS_SET" in one["message"]], told


def test_a_plan_knows_a_synth_spec(cli: Cli, spec: str, store: tuple[str, str], tmp_path: Path) -> None:
    fresh = cli("plan", spec, "--store", tmp_path / "fresh", "--json").document
    assert (fresh["cells"], fresh["cells_finished"], [one["stage"] for one in fresh["stages"]]) == (2, 0, ["outline", "write"])
    for stage in fresh["stages"]:
        for name in ("calls", "input_tokens", "output_tokens"):
            assert 0 < stage[f"min_{name}"] <= stage[name] <= stage[f"max_{name}"]
    shown = cli("plan", spec, "--store", tmp_path / "fresh")
    assert all(f"\n{word}: " in shown.out for word in ("at least", "expected", "at most")) and "2, 0 finished" in shown.out
    assert not (tmp_path / "fresh").exists()
    shown = cli("plan", spec, *store)
    assert "at least / expected / at most" in shown.out and "2, 2 finished" in shown.out and "window" not in shown.out
    assert "\nat most: " not in shown.out, "where nothing is to come, nothing is to be explained"


@pytest.mark.parametrize("command", [("score",), ("compare",), ("rejudge", "--judge", "offline")])
def test_it_has_no_summaries_to_judge(cli: Cli, made: RunStore, store: tuple[str, str], command: tuple[str, ...]) -> None:
    name, *more = command
    assert "holds no summaries; give a run o" in cli(name, made.run_id, *more, *store).refusal


def test_what_is_wrong_is_one_line_and_nothing_is_written(cli: Cli, tmp_path: Path) -> None:
    path, store = tmp_path / "synth.yaml", ("--store", tmp_path / "store")

    def refusal(fields: dict[str, Any], *more: str) -> str:
        path.write_text(yaml.safe_dump(fields), encoding="utf-8")
        return cli("synth", path, *store, *more).refusal

    assert "synth.yaml: docments: unknown field; did you mean documents?" in refusal({**SMALL, "docments": 3})
    run = {"haystacks": ["sample/news"], "retrievers": ["full"], "summarizers": ["offline/lead"]}
    assert refusal(run).endswith("synth.yaml: is of kind summhay; start it with: summhay run")
    assert "words: " in refusal(SMALL, "--set", "words=1")
    assert "did you mean 'synth'?" in refusal({**SMALL, "kind": "sinth"})
    assert "no such file" in cli("synth", tmp_path / "gone.yaml", *store).refusal
    assert not (tmp_path / "store").exists()


def label(path: Path, answers: Callable[[dict[str, str]], str]) -> None:
    """Fill in the sheet's answers, like a person with a spreadsheet."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows({**row, "answer": answers(row)} for row in rows)


def test_an_audit_goes_out_and_comes_back(cli: Cli, spec: str, made: RunStore, store: tuple[str, str], tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    sizes = ("--insights", "5", "--documents", "3", "--seed", "4")
    written = cli("audit", made.run_id, *store, "--out", sheet, *sizes, "--json").document
    assert (written["haystacks"], written["insights"], written["documents"]) == (2, 5, 3)
    assert "may hold a person's labels" in cli("audit", made.run_id, *store, "--out", sheet).refusal

    assert "it is empty" in cli("audit", made.run_id, *store, "--labels", sheet).refusal
    sources = [json.loads(made.store.get_object("haystack", one.entry.split("/")[1])) for one in described(made)]
    place = {
        insight["insight"]: str(number)
        for raw in sources
        for number, subtopic in enumerate(raw["subtopics"], start=1)
        for insight in subtopic["insights"]
    }
    held = {
        (document["document_text"], insight["insight"])
        for raw in sources
        for document in raw["documents"]
        for subtopic in raw["subtopics"]
        for insight in subtopic["insights"]
        if insight["insight_id"] in document["insights_included"]
    }

    def truly(row: dict[str, str]) -> str:
        if row["kind"] == "insight_subtopic":
            return place[row["insight"]]
        return "yes" if (row["text"], row["insight"]) in held else "no"

    label(sheet, truly)
    found = cli("audit", made.run_id, *store, "--labels", sheet, "--json").document
    news, everything = found["insight_subtopic"]
    assert (news["domain"], everything["insights_annotated"], everything["accuracy"]) == ("news", 5, 100.0)
    assert [row["f1"] for row in found["document_insight"]] == [100.0, 100.0]
    assert [0 < row["stated_present"] < row["num_samples"] for row in found["document_insight"]] == [True, True]
    shown = cli("audit", made.run_id, *store, "--labels", sheet)
    assert "(Table 4)" in shown.out and "(Table 5)" in shown.out and "100.00" in shown.out
    assert "Stated there: samples whose insight is in the document, as the haystack says." in shown.out

    # A haystack contains the result, with the results of its checks.
    files = cli("export", made.run_id, *store, "--out", tmp_path / "audited", "--json").document["files"]
    audits = [json.loads(Path(name).read_bytes())["topic_metadata"]["synthesis"]["audit"] for name in files]
    assert [one["by_checks"]["insight_subtopic"]["accuracy"] for one in audits] == [100.0, 100.0]
    assert [one["by_checks"]["document_insight"]["accuracy"] for one in audits] == [100.0, 100.0]
    assert sum(one["by_person"]["insight_subtopic"]["insights_annotated"] for one in audits) == 5
    assert [one["by_person"]["document_insight"]["f1"] for one in audits] == [100.0, 100.0]
    stated = [[one[by]["document_insight"]["stated_present"] for one in audits] for by in ("by_person", "by_checks")]
    # 2 x 2 insights, each in 3 of the 6 documents.
    assert sum(stated[0]) == found["document_insight"][-1]["stated_present"] and stated[1] == [12, 12]

    assert {haystack_id_of(json.loads(Path(name).read_bytes())) for name in files} == {one.haystack_id for one in described(made)}
    taken_up = cli("synth", spec, *store, "--out", tmp_path / "audited", "--json")
    assert taken_up.code == 0 and taken_up.document["files"] == files
    # A sheet of documents alone keeps the results about insights.
    more = tmp_path / "documents.csv"
    cli("audit", made.run_id, *store, "--out", more, "--insights", "0", "--documents", "2")
    label(more, lambda row: "no")
    cli("audit", made.run_id, *store, "--labels", more)
    told = [
        json.loads(Path(name).read_bytes())
        for name in cli("synth", spec, *store, "--out", tmp_path / "x", "--json").document["files"]
    ]
    people = [one["topic_metadata"]["synthesis"]["audit"]["by_person"] for one in told]
    assert sum(one["insight_subtopic"]["insights_annotated"] for one in people) == 5
    assert 0.0 in [one["document_insight"]["recall"] for one in people]

    label(sheet, lambda row: "1" if row["kind"] == "insight_subtopic" else "no")
    wrong = cli("audit", made.run_id, *store, "--labels", sheet, "--json").document
    assert wrong["document_insight"][-1]["recall"] == 0.0 and wrong["document_insight"][-1]["precision"] is None
    none = ("--insights", "0", "--documents", "0")
    assert "a sheet without rows asks nothing" in cli("audit", made.run_id, *store, "--out", "x.csv", *none).refusal
    assert "give --out FILE to write the sheet, or --labels FILE" in cli("audit", made.run_id, *store).refusal
