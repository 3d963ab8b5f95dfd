"""`{answers: FILE, name: NAME}` in place of a model, in every kind of run: it works, or one line gives the reason."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from odsum_collections import QUERIES, meetings
from runs import summhay, write_spec

from summhay_ray.api import load, plan
from summhay_ray.engine import SpecError

pytestmark = pytest.mark.core

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MINE = {"answers": "mine.jsonl", "name": "mine"}


def given(folder: Path, texts: dict[str, str]) -> None:
    rows = ({"query_id": query, "text": text} for query, text in texts.items())
    (folder / "mine.jsonl").write_text("".join(json.dumps(row) + "\r\n" for row in rows), encoding="utf-8-sig")


def run(folder: Path, fields: dict[str, Any], code: int = 0) -> dict[str, Any]:
    return summhay("run", write_spec(folder, {**fields, "executor": "inline"}), "--store", folder / "store", code=code)


def failed(folder: Path, found: dict[str, Any]) -> list[tuple[str, str]]:
    rows = summhay("failures", found["run"], "--store", folder / "store")["failures"]
    return sorted((row["error"], row["message"]) for row in rows)


def test_a_benchmark_of_ones_own_takes_them_stage_by_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(EXAMPLES / "needle.py", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "needle", raising=False)
    line = "Day 1: The cook hid the key of the rum store in the ship's bell."
    texts = {"mine@0.0#0": "In the bell.", "mine@0.0#0/quote": line, "mine@1.0#0": "In the bell."}
    given(tmp_path, texts)
    fields = {"kind": "needle:Needle", "models": [MINE], "depths": [0, 0.5, 1], "trials": 1, "entries": 9}
    found = run(tmp_path, fields, code=4)
    assert {row["depth"]: (row["found"], row["n"], row["n_expected"]) for row in found["scores"]["by_depth"]} == {
        0.0: (1.0, 1, 1),
        0.5: (None, 0, 1),
        1.0: (None, 0, 1),
    }
    assert failed(tmp_path, found) == [
        ("missing_answer", "mine.jsonl holds no answer to query_id 'mine@0.5#0'"),
        ("missing_answer", "mine.jsonl holds no answer to query_id 'mine@1.0#0/quote'"),
    ]
    # An answer to no query of the run is refused before any call.
    given(tmp_path, {**texts, "mine@0.0#9": "?", "?": "?"})
    with pytest.raises(
        SpecError, match=r"mine.jsonl: query_id: 'mine@0.0#9' \(and 1 more\) is not a query of this run, but 'mine@0.0#0' is"
    ):
        plan({**fields, "models": [{**MINE, "answers": str(tmp_path / "mine.jsonl")}]})
    # Other answers make another run.
    given(tmp_path, {**texts, "mine@0.0#0": "Nobody knows."})
    assert run(tmp_path, fields, code=4)["run"] != found["run"]


def test_ethic_takes_them_by_task_domain_and_record(tmp_path: Path) -> None:
    fields = {"kind": "ethic", "tasks": ["Attributing"], "judges": ["offline/rater"]}
    records = load({**fields, "models": ["offline/match"]}).records
    names = [f"{one.task}/{one.domain}/{one.id}" for one in records]
    given(tmp_path, {name: f"[{', '.join(one.answer)}]" for name, one in zip(names[1:], records[1:], strict=True)})
    found = run(tmp_path, {**fields, "models": [MINE]}, code=4)
    assert failed(tmp_path, found) == [("missing_answer", f"mine.jsonl holds no answer to query_id '{names[0]}'")]
    assert sum(row["n_scored"] for row in found["tasks"]) == len(records) - 1


def test_ratings_made_elsewhere_are_a_rater_and_judges_are_asked_too_much(tmp_path: Path) -> None:
    documents = {"d": {"source": "The cook hid the key. The ship left port at dawn."}}
    pair = {"doc_id": "d", "system_id": "s", "summary": "The cook hid the key.", "scores": {"faithfulness": 4}}
    (tmp_path / "pairs.json").write_text(json.dumps({"dataset": "logs", "documents": documents, "pairs": [pair]}), "utf-8")
    fields = {"kind": "extract_evaluate", "pairs": ["pairs.json"], "methods": [], "full": ["whole"], "raters": [MINE]}
    given(tmp_path, {"logs/d/s/full/faithfulness/mine": "4"})
    assert run(tmp_path, fields)["cells"]["done"] == 1
    meetings(tmp_path / "meetings")
    odsum = {"kind": "odsum", "corpus": "meetings", "retrievers": ["oracle"], "summarizers": ["offline/lead"]}
    for refused, message in (
        ({**odsum, "metrics": [{"geval": MINE}]}, "geval: a file of answers holds one text for each query, and a rater gives"),
        ({"kind": "ethic", "models": ["offline/match"], "judges": [MINE]}, "judges.*a file holds one text for each query"),
        ({"kind": "retrieval", "corpora": ["meetings"], "retrievers": ["bm25"], "summarizers": [MINE]}, "summarizers"),
        ({**odsum, "summarizers": [{"answers": "mine.jsonl"}]}, "answers 'mine.jsonl': give them a name: NAME"),
    ):
        with pytest.raises(SpecError, match=message) as error:
            load(write_spec(tmp_path, refused))
        assert "\n" not in str(error.value)
    build = {"kind": "odsum_build", "corpus": "meetings", "contextualize": True, "least": 1, "most": 5, "model": MINE}
    given(tmp_path, {"0": "When does the bridge open?"})
    found = run(tmp_path, {**build, "threshold": 0}, code=4)
    assert failed(tmp_path, found)[0][0] in ("several_questions", "missing_answer")


def test_thinking_is_no_part_of_an_answer_in_any_kind_of_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    meetings(tmp_path / "meetings")
    odsum = {"kind": "odsum", "corpus": "meetings", "retrievers": ["oracle"], "summarizers": [MINE], "metrics": ["rouge"]}
    plain = "The bridge opens in May. [1]"
    queries = list(QUERIES)
    scores = []
    thinking = (f"[THINK]Which bridge? [2]\nThe one of May.[/THINK]{plain}", f"analysisMay [2].assistantfinal{plain}")
    for texts in ((plain,), thinking):
        given(tmp_path, dict(zip(queries, itertools.cycle(texts), strict=False)))
        scores.append(run(tmp_path, odsum)["scores"])
    assert scores[0] == scores[1]
    given(tmp_path, {**dict.fromkeys(queries, plain), queries[0]: f"<thinking>{plain}"})
    assert {error for error, _ in failed(tmp_path, run(tmp_path, odsum, code=4))} == {"unfinished_thinking"}

    (tmp_path / "a.txt").write_text("The bridge opens in May.", encoding="utf-8")
    lines = (f"The mayor said so. [1]\n</think>\n- {plain}", f"<|channel|>analysis<|message|>{plain}")
    (tmp_path / "two.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf-8")
    found = run(tmp_path, {"kind": "support", "answers": "two.jsonl", "documents": "."}, code=4)
    assert [row["n"] for row in found["scores"]["systems"]] == [1]
    assert [error for error, _ in failed(tmp_path, found)] == ["unfinished_thinking"]

    shutil.copy(EXAMPLES / "needle.py", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "needle", raising=False)
    line = "Day 1: The cook hid the key of the rum store in the ship's bell."
    given(
        tmp_path,
        {
            "mine@0.0#0": "<think>Under the bell?</think>In the bell.",
            "mine@0.0#0/quote": f"◁think▷Day 2?◁/think▷{line}",
            "mine@1.0#0": "<think>In the bell",
        },
    )
    found = run(tmp_path, {"kind": "needle:Needle", "models": [MINE], "depths": [0, 1], "trials": 1, "entries": 9}, code=4)
    assert [(row["found"], row["n"]) for row in found["scores"]["by_depth"]] == [(1.0, 1), (None, 0)]
    assert [error for error, _ in failed(tmp_path, found)] == ["unfinished_thinking"]


@pytest.mark.parametrize(
    "line,message",
    [
        ("{", r"mine.jsonl:2: is no JSON"),
        ("[1]", r"mine.jsonl:2: expected an object such as"),
        ('{"query_id": 7, "text": ""}', r"mine.jsonl:2: query_id: expected text, found 7"),
        ('{"query_id": "8"}', r"mine.jsonl:2: text: expected text, found null"),
        ('{"query_id": "7", "text": "b"}', r"mine.jsonl:2: query_id: '7' is on an earlier line, too; leave one"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "mine.jsonl").write_text(f'{{"query_id": "7", "text": "a"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(SpecError, match=message):
        load(write_spec(tmp_path, {"kind": "ethic", "models": [MINE]}))


def test_queries_of_several_haystacks_with_one_id_are_distinguished(tmp_path: Path) -> None:
    for number, name in enumerate(("north", "south")):
        document = {"document_id": "d", "document_text": f"The {name} bridge has {number + 3} lanes.", "insights_included": ["i"]}
        insight = {"insight_id": "i", "insight_name": "lanes", "insight": document["document_text"]}
        subtopic = {"subtopic_id": "s1", "subtopic_name": "b", "subtopic": "bridge", "query": "Lanes?", "insights": [insight]}
        released = {"topic_id": name, "topic": name, "topic_metadata": {}, "subtopics": [subtopic], "documents": [document]}
        (tmp_path / f"{name}.json").write_text(json.dumps(released), encoding="utf-8")
    fields = {
        "haystacks": ["north.json", "south.json"],
        "retrievers": ["none"],
        "judges": ["offline/judge"],
        "summarizers": [MINE],
    }
    given(tmp_path, {"s1": "The north bridge has 3 lanes. [1]"})
    with pytest.raises(SpecError, match="'s1' is not a query of this run, but 'north/s1' is"):
        load(write_spec(tmp_path, fields))
    given(tmp_path, {"north/s1": "The north bridge has 3 lanes. [1]", "south/s1": "The south bridge has 9 lanes. [1]"})
    found = run(tmp_path, fields)
    assert found["systems"][0]["coverage"] == pytest.approx(0.5)
