"""Runs of ETHIC: the sample in the package, the scores of each kind of model in both readings, and prompts that are too long."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import summhay_ray
from summhay_ray.benchmarks.ethic import read_label_sheet
from summhay_ray.benchmarks.ethic.records import COUNTS, Record, check_counts, read_records
from summhay_ray.engine import PlanResult, RunResult
from summhay_ray.errors import SpecError, UserError

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "summhay_ray" / "benchmarks" / "ethic" / "sample" / "ethic.jsonl"
KEY_FREE = ["offline/names", "offline/order", "offline/match", "offline/support"]
FRAME = "### Context:\n{}\n\nNow, respond to the instruction.\n\n### Instruction:\nName them.\n\nAnswer:"


def fields(**changes: Any) -> dict[str, Any]:
    return {"kind": "ethic", "models": KEY_FREE, "executor": "inline", **changes}


def run(store: Path, **changes: Any) -> RunResult:
    return summhay_ray.run(fields(**changes), store=str(store))


def row(**changes: Any) -> dict[str, Any]:
    context = changes.pop("Context", "Anna said so. Then Boris said so.")
    named = {"ID": "a", "Domain": "Books", "Context": context, "User_msg": FRAME.format(context), "Answer": ["Anna", "Boris"]}
    return {"task": "Recalling", "System_msg": "", **named, **changes}


def written(folder: Path, *rows: Mapping[str, Any], name: str = "records.jsonl") -> str:
    (folder / name).write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return str(folder / name)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Store and run of a set that is built from the package's documents."""
    store = str(tmp_path_factory.mktemp("built"))
    return store, summhay_ray.run(ROOT / "jobs" / "ethic_build.yaml", store=store, executor="inline").run


def test_the_sample_is_built_from_our_own_documents_to_the_byte(tmp_path: Path, built: tuple[str, str]) -> None:
    store, run_id = built
    records, sheet = summhay_ray.export(run_id, tmp_path / "out", store=store)
    assert records.read_bytes() == SAMPLE.read_bytes()
    with pytest.raises(UserError, match="exists"):
        summhay_ray.export(run_id, tmp_path / "out", store=store)
    # A person who agrees with the labels, but finds another name in one chunk.
    labels = b'"marit, olander, dobbin"'
    sheet.write_bytes(sheet.read_bytes().replace(labels + b",\r\n", labels + b',"Marit, Olander, Dobbin, Pim"\r\n'))
    # Three right labels of three, and four names: 2 x 1 x 3/4 / (1 + 3/4).
    assert read_label_sheet(sheet) == {"Books": {"f1": pytest.approx(6 / 7), "n": 1}}
    assert {Record.question.fget(one)[:3] for one in read_records(SAMPLE.read_bytes(), "x")} == {"Now"}  # type: ignore[attr-defined]
    scored = run(Path(store), data=[f"run/{run_id}"], name="of the run")
    assert scored.status == "done" and scored.scores["tasks"].height == 14


def test_key_free_models_answer_all_tasks(tmp_path: Path) -> None:
    found = run(tmp_path, layout="prefix")
    rows = {(one["task"], one["domain"]): one for one in found.to_json()["tasks"]}
    names = {
        "task",
        "domain",
        "model",
        "n_expected",
        "n_scored",
        "score",
        "score_floor",
        "score_release",
        "ci",
        "ci_reason",
        "chance",
    }
    assert all(one.keys() == names for one in rows.values())
    assert rows["Organizing", "Books"]["chance"] == pytest.approx(0.558, abs=0.01)
    assert all(one["n_scored"] == one["n_expected"] for one in rows.values())
    assert rows["Attributing", "Medicine"]["score"] > 0.8
    assert rows["Recalling", "Books"]["ci"] is None and rows["Recalling", "Books"]["ci_reason"].startswith("too few")
    assert summhay_ray.score(found.run, str(tmp_path)).details["tasks"] == found.to_json()["tasks"]  # type: ignore[union-attr]
    item = summhay_ray.explain(found.run, "offline/support@Summarizing/Books/orchard", str(tmp_path))
    assert {call["stage"] for call in item["calls"]} == {"answer", "judge"}
    [system, *_] = {call["prompt"].partition("### Context:")[0] for call in item["calls"] if call["stage"] == "answer"}
    assert system.startswith("system:")


def test_what_models_of_four_kinds_score_in_both_readings(tmp_path: Path) -> None:
    models = ["offline/perfect", "offline/empty", "offline/shuffled", "offline/echo"]
    found = summhay_ray.run(fields(kind="ethic_doubles:Doubles", models=models), store=str(tmp_path))
    overall = found.scores["overall"]
    scores = {(one["task"], one["model"].partition("/")[2]): one for one in overall.iter_rows(named=True)}
    for task in ("Recalling", "Organizing", "Attributing"):
        assert (scores[task, "perfect"]["score"], scores[task, "perfect"]["score_release"]) == (1, 1)
        # An empty answer has no score, not zero, and is counted. The scripts score it.
        assert (scores[task, "empty"]["score"], scores[task, "empty"]["n"]) == (None, 0)
        assert scores[task, "empty"]["score_release"] == 0 and scores[task, "empty"]["n_expected"] > 0
    assert scores["Recalling", "shuffled"]["score"] == 1 and scores["Recalling", "echo"]["score"] < 0.05
    # The scripts reward an echo of the prompt for every number in the prompt.
    assert scores["Organizing", "echo"]["score_release"] > scores["Organizing", "echo"]["score"] + 0.1
    # No criterion penalizes a copy.
    assert scores["Summarizing", "echo"]["score"] > 4 > 2 > scores["Summarizing", "shuffled"]["score"]
    copied = found.scores["summaries"].filter(pl.col("model") == "offline/echo")["copied"]
    assert copied.min() > 0.9  # type: ignore[operator]
    outcomes = {(one["model"], one["answer"]): one["n"] for one in found.scores["outcomes"].iter_rows(named=True)}
    assert outcomes["offline/empty", "empty"] and not any(kind == "open" for _, kind in outcomes)
    compared = summhay_ray.compare_systems(found.run, systems=("offline/perfect", "offline/echo"), store=str(tmp_path))
    assert "offline/perfect" in compared._repr_html_()
    apart = scores["Recalling", "perfect"]["score"] - scores["Recalling", "echo"]["score"]
    assert compared.table.filter(figure="Recalling")["difference"].to_list() == [pytest.approx(apart)]
    assert compared.cluster == "document" and found.status == "partial"


@pytest.mark.parametrize(
    ("policy", "n", "score"), [("error", 1, 1.0), ("skip", 1, 1.0), ("zero", 2, 0.5), ("truncate-middle", 2, 0.9)]
)
def test_prompts_beyond_the_window_are_reported(tmp_path: Path, policy: str, n: int, score: float) -> None:
    long = "Anna said so. " + "Nothing else was said by them. " * 300 + "Boris said so."
    data = written(tmp_path, row(), row(ID="b", Context=long))
    model = {"model": "offline/names", "max_tokens": 100, "context_window": 600}
    told = fields(data=[data], models=[model], over_length=policy)
    plan: PlanResult = summhay_ray.plan(told, store=str(tmp_path / "store"))
    assert plan.too_long == 1
    found = summhay_ray.run(told, store=str(tmp_path / "store"))
    [task] = found.to_json()["tasks"]
    assert (task["n_expected"], task["n_scored"]) == (2, n) and task["score"] >= score - 0.2
    answers = found.scores["samples"]["answer"].to_list()
    assert answers.count("over_length") == (0 if policy == "truncate-middle" else 1)
    assert found.scores["samples"]["truncated"].sum() == (policy == "truncate-middle")


def test_contexts_are_cut_as_the_spec_says(tmp_path: Path) -> None:
    text = (
        "Anna said so. "
        + "Nothing else was said by them. " * 200
        + "Name them, said Otto. "
        + "Nothing. " * 200
        + "Boris said so."
    )
    views: list[dict[str, Any]] = [
        {"strategy": "full"},
        {"strategy": "window", "sinks": 10, "window": 20},
        {"strategy": "blocks", "sinks": 10, "window": 20, "block": 20, "top": 2},
    ]
    models = [{"model": "offline/names", "name": view["strategy"], "context": view} for view in views]
    found = run(tmp_path / "store", data=[written(tmp_path, row(Context=text, Answer=["Anna", "Otto", "Boris"]))], models=models)
    scores = {one["model"]: one["score"] for one in found.to_json()["tasks"]}
    assert scores == {"full": 1.0, "window": pytest.approx(0.8), "blocks": 1.0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"Context": ""}, "field Context: expected a text that is not empty"),
        ({"User_msg": "Who?"}, "field User_msg: holds the Context 0 times; expected once"),
        ({"task": "Naming"}, "field task: found 'Naming'"),
        ({"Answer": "Anna"}, "field Answer: expected a list of texts"),
        ({"task": "Organizing", "Answer": "none"}, "field Answer: expected a text with the numbers"),
        ({"task": "Attributing", "Answer": ["Case 3", "Jones"]}, "field Answer: 'Jones' holds no number of a case"),
        ({"ID": 7}, "field ID: expected a text"),
        ({}, "ID 'a' occurs 2 times in Recalling, Books"),
    ],
)
def test_each_flaw_of_a_record_is_reported_with_its_line(change: dict[str, Any], said: str) -> None:
    content = "".join(json.dumps(one) + "\n" for one in (row(), {**row(ID="b" if change else "a"), **change}))
    with pytest.raises(SpecError, match=f"^f.jsonl(:2)?: {said}".replace("(", r"\(").replace(r"\(:2)", "(:2)")):
        read_records(content.encode(), "f.jsonl")


def test_records_are_read_from_lines_zips_and_parquet(tmp_path: Path, shared_data: Path) -> None:
    lines = (shared_data.parent / "benchmarks" / "ethic" / "synthetic_records.jsonl").read_bytes()
    read = read_records(lines, "synthetic.jsonl")
    assert [one.task for one in read].count("Attributing") == 3 and len(read) == 8
    recalling = [json.loads(line) for line in lines.splitlines() if b'"Recalling"' in line]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as zipped:
        zipped.writestr("test_recalling.jsonl", "".join(json.dumps({**one, "task": None}) + "\n" for one in recalling))
    assert read_records(packed.getvalue(), "recalling.zip") == [one for one in read if one.task == "Recalling"]
    pl.DataFrame([{name: one[name] for name in one if name != "task"} for one in recalling]).write_parquet(
        tmp_path / "recalling.parquet"
    )
    assert read_records((tmp_path / "recalling.parquet").read_bytes(), "recalling.parquet") == read[:2]
    assert "Recalling, Books: 1 records; the release has 100" in check_counts(read[:2])
    # A task may be in several files.
    halves = [
        record
        for task, domains in COUNTS.items()
        for domain, n in domains.items()
        for record in _copies(read[0], task, domain, n)
    ]
    assert check_counts(halves) == [] and len(halves) == 1986
    damaged = bytearray(packed.getvalue())
    damaged[60:70] = bytes(10)
    for broken in (bytes(damaged), packed.getvalue()[:-30], b"PK\x03\x04nothing", b"PAR1nothing", b"\xff\xfe", b""):
        with pytest.raises(SpecError), contextlib.redirect_stderr(io.StringIO()):
            read_records(broken, "broken")


def _copies(record: Record, task: str, domain: str, n: int) -> list[Record]:
    return [replace(record, task=task, domain=domain, id=str(place)) for place in range(n)]


def test_citations_of_a_decision_become_marks_and_its_segments_the_gold(tmp_path: Path) -> None:
    case = {
        "id": "c1",
        "title": "Toy v. Toy",
        "citation": "1 U.S. 2",
        "summary": "Notice is due before a sale.",
        "citing": ["As held in Toy v. Toy, 1 U.S. 2 (1990), notice is due.", "See Roe v. Wade, 410 U.S. 113 (1973)."],
    }
    spec = {"kind": "ethic_build", "cited": [written(tmp_path, case, name="cases.jsonl")], "executor": "inline"}
    built = summhay_ray.run(spec, store=str(tmp_path / "store"))
    made = {one["task"]: one for one in summhay_ray.table(built.run, "ethic_records", str(tmp_path / "store")).to_dicts()}
    record = made["Attributing"]
    assert record["context"] == "<Segment 1>\nAs held in [CITATION], notice is due.\n\n<Segment 2>\nSee [CITATION]."
    assert record["answer"] == ["Segment 1"] and json.loads(record["meta"])["chunks"] == [[[0, 44]], [[0, 15]]]
    assert made["Recalling"]["answer"] == ["1", "2", "410", "113"] and "Toy v. Toy, 1 U.S. 2" in made["Recalling"]["context"]
    # The scripts use the same words for a part of the law's contexts.
    assert "<Segment 2>" in made["Summarizing"]["context"] and "<Segment 1>" in made["Summarizing"]["user"]
    scored = run(tmp_path / "store", data=[f"run/{built.run}"])
    assert [one["n_scored"] for one in scored.to_json()["tasks"]] == [1, 1, 1]


def test_a_model_writes_questions_of_one_part_and_finds_short_forms(tmp_path: Path) -> None:
    case = {"id": "c1", "title": "Toy v. Ball", "citation": "1 U.S. 2", "summary": "Notice is due before a sale."}
    texts = [
        "As held in Toy v. Ball, 1 U.S. 2 (1990), notice is due.",
        "By the rule of Toy no notice came.",
        "See Roe v. Wade, 4 U.S. 1.",
    ]
    spec = {
        "kind": "ethic_doubles:Asking",
        "texts": [{"path": str(ROOT / "jobs" / "ethic" / "debates"), "domain": "Debates", "labels": "speakers"}],
        "cited": [{"path": written(tmp_path, {**case, "citing": texts}, name="cases.jsonl"), "marks": "labeler"}],
        "labeler": "offline/asker",
        "questioner": "offline/asker",
        "tasks": ["Attributing", "Lookup"],
        "chunk_tokens": 64,
        "executor": "inline",
    }
    store = str(tmp_path / "store")
    assert {stage.stage: stage.calls for stage in summhay_ray.plan(spec, store=store).stages}["question"] == 3
    built = summhay_ray.run(spec, store=store)
    made = {(one["task"], one["record"]): one for one in summhay_ray.table(built.run, "ethic_records", store).to_dicts()}
    marked = made["Attributing", "c1"]
    assert marked["answer"] == ["Segment 1", "Segment 2"] and "By the rule of [CITATION] no notice came." in marked["context"]
    asked = made["Lookup", "bridge"]
    told = json.loads(asked["meta"])
    assert (told["questioner"], told["questioner_revision"]) == ("offline/asker", "3")
    part = asked["context"].split(f"<Section {told['section']}>\n")[1]
    assert asked["answer"] == [part.split()[1].strip(":.,").lower()] and "Who stands second?" in asked["user"]
    # The score is that of Recalling: the same metric on the same documents.
    scored = run(tmp_path / "store", data=[f"run/{built.run}"], models=["offline/names"])
    assert {one["task"] for one in scored.to_json()["tasks"]} == {"Lookup"}


def test_short_forms_of_citations_become_marks_too(tmp_path: Path) -> None:
    case = {"id": "c1", "title": "Harbor Board v. Brandt", "citation": "212 N.W. 407", "summary": "Notice is due."}
    texts = [
        "Notice is due. Harbor Board\nv. Brandt, 212 N.W. 407, 409 (1927). Id. at 410. See Jones, supra, at 7. Ibid. "
        "The Brandt court said so. Cf. Brandt, 212 N. W. at 411.",
        "As Orme v. Lister held, 140 F. at 90, and In re Winship, 397 U.S. 358 (1970), says. Id. at 9. Jones, supra. "
        "Case No. 27-114.",
        "The harbor board met in Brandt Street.",
    ]
    spec = {
        "kind": "ethic_build",
        "cited": [written(tmp_path, {**case, "citing": texts}, name="cases.jsonl")],
        "tasks": ["Attributing"],
    }
    built = summhay_ray.run({**spec, "executor": "inline"}, store=str(tmp_path / "store"))
    [made] = summhay_ray.table(built.run, "ethic_records", str(tmp_path / "store")).to_dicts()
    mark = "[CITATION]"
    assert made["context"].split("\n\n") == [
        f"<Segment 1>\nNotice is due. {mark}. {mark}. See {mark}. {mark} The {mark} court said so. Cf. {mark}.",
        f"<Segment 2>\nAs {mark} held, {mark}, and {mark}, says. {mark}. {mark}. {mark}.",
        "<Segment 3>\nThe harbor board met in Brandt Street.",
    ]
    assert made["answer"] == ["Segment 1"]


def test_names_are_labeled_without_titles_and_turns_are_those_of_the_whole_text(tmp_path: Path) -> None:
    turns = (
        "Baroness Smith of Basildon: My Lords, I beg to move. What is the cost?",
        "Lord Kerr (Lab): My noble friend asks. Question: who pays? Answer: we do.",
        "Sir Edward Leigh MP: I agree.",
        "Mr. Speaker: Order.",
        "The Lord Bishop of Worcester: We pray.",
        "Councillor King: So be it.",
    )
    story = (
        "Old Tobias Venn sold his orchard on a Tuesday. The buyer was called Lucas Crane. Outside stood a cart. People watched "
        "Crane walk, and Crane wrote. Inside sat nobody.\n\nIt rained for forty days and forty nights without an end, and in the "
        "meadow the water rose, as Tobias had feared it might."
    )
    (tmp_path / "debates").mkdir()
    (tmp_path / "debates" / "lords.txt").write_text("\n\n".join(turns), encoding="utf-8")
    (tmp_path / "stories").mkdir()
    (tmp_path / "stories" / "orchard.txt").write_text(story, encoding="utf-8")
    sources = [{"path": str(tmp_path / "debates"), "domain": "Debates", "labels": "speakers"}, str(tmp_path / "stories")]
    for tokens in (32, 64):
        spec = {"kind": "ethic_build", "texts": sources, "tasks": ["Recalling"], "chunk_tokens": tokens, "executor": "inline"}
        built = summhay_ray.run(spec, store=str(tmp_path / "store"))
        made = summhay_ray.table(built.run, "ethic_records", str(tmp_path / "store"))
        gold = {one["record"]: one["answer"] for one in made.to_dicts()}
        assert gold["lords"] == ["smith", "basildon", "kerr", "edward", "leigh", "speaker", "worcester", "king"]
        # The other part of a name is known if the chunk has the full name.
        assert {"crane", "tobias", "venn"} <= set(gold["orchard"]) <= {"crane", "lucas", "tobias", "venn"}
        labels = summhay_ray.table(built.run, "ethic_labels", str(tmp_path / "store")).to_dicts()
        assert not any("answer" in one["labels"] or "question" in one["labels"] for one in labels)


def test_documents_of_no_other_review_have_no_gold(tmp_path: Path) -> None:
    reviews = [
        {
            "id": name,
            "background": f"A review of {name}.",
            "documents": [{"id": number, "text": f"Trial of {name}."} for number in ids],
        }
        for name, ids in (("pills", (1, 2, 3)), ("pills again", (2, 3, 4)), ("glaciers", (8, 9)))
    ]
    spec = {"kind": "ethic_build", "collections": [{"path": written(tmp_path, *reviews), "labels": "none"}], "executor": "inline"}
    built = summhay_ray.run(spec, store=str(tmp_path / "store"))
    made = summhay_ray.table(built.run, "ethic_records", str(tmp_path / "store"))
    assert made.filter(pl.col("task") == "Summarizing").height == 3
    answers = {one["record"]: one["answer"] for one in made.to_dicts() if one["task"] == "Attributing"}
    assert answers == {"pills": ["[2]", "[3]"], "pills again": ["[2]", "[3]"], "glaciers": ["None"]}


def test_a_record_names_its_maker_and_sources(built: tuple[str, str]) -> None:
    store, run_id = built
    made = summhay_ray.table(run_id, "ethic_records", store)
    told = {(one["task"], one["domain"]): {**json.loads(one["meta"]), "context": one["context"]} for one in made.to_dicts()}
    recalling, speakers = told["Recalling", "Books"], told["Recalling", "Debates"]
    assert (recalling["labeler"], recalling["labeler_revision"], speakers["labeler"]) == ("offline/names", "2", "speakers")
    assert told["Organizing", "Books"]["summarizer"] == "offline/support" and "summarizer" not in recalling
    assert not {"labeler", "summarizer", "chunks"} & told["Attributing", "Medicine"].keys()
    assert "labeler" not in told["Summarizing", "Books"] and len(recalling["chunks"]) == recalling["context"].count("<Section ")
    assert all(
        f"[{number}]" in told["Attributing", "Medicine"]["context"] for number in told["Attributing", "Medicine"]["documents"]
    )
