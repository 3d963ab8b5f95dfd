"""Every file that a run reads is part of its id: a changed file makes another run, and another folder does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from annotated import summary
from big_haystacks import write_haystacks
from odsum_collections import meetings, own, stories
from runs import write_spec

from summhay_ray import citations
from summhay_ray.engine import load_workload

pytestmark = pytest.mark.core

PROMPT = "Answer in JSON.\n\nReference Insight:\n[[INSIGHT]]\n\nBullet Points:\n[[BULLETS]]\n"
WEIGHTS = "encoder/model.safetensors"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _encoder(folder: Path) -> None:
    """A folder that is recognized as an encoder before it is loaded."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})
    (folder / "encoder").mkdir()
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header.encode() + b"1")
    _write(folder / "encoder/config.json", '{"model_type": "bert", "architectures": ["BertModel"]}')
    _write(folder / "encoder/vocab.txt", "a\nb\n")


def _summhay(folder: Path) -> dict[str, Any]:
    write_haystacks(folder, 1, documents=4, words=30, subtopics=2, insights=2)
    _write(folder / "judge.txt", PROMPT)
    _write(folder / "a.run", "q Q0 d 1 1 x\n")
    _encoder(folder)
    return {
        "haystacks": [path.name for path in folder.glob("*.json")],
        "retrievers": [{"run": "a.run"}, {"fuse": ["bm25", {"embed": "encoder"}]}],
        "summarizers": ["offline/lead"],
        "judges": [{"model": "offline/judge", "strategy": "per_insight", "prompt": "judge.txt"}],
    }


def _beir(folder: Path) -> dict[str, Any]:
    for name in ("one", "two"):
        _write(folder / name / "corpus.jsonl", json.dumps({"_id": "d1", "text": f"a {name}"}) + '\n{"_id": "d2", "text": "b"}\n')
        _write(folder / name / "queries.jsonl", '{"_id": "q1", "text": "a"}\n{"_id": "q2", "text": "b"}\n')
        _write(folder / name / "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    _write(folder / "gold", "one/q1 0 d2 1\n")
    return {"kind": "retrieval", "corpora": ["one", "two"], "retrievers": ["bm25"], "qrels": "gold"}


def _beir_alone(folder: Path) -> dict[str, Any]:
    return {name: value for name, value in _beir(folder).items() if name != "qrels"}


def _odsum(folder: Path) -> dict[str, Any]:
    own(folder / "texts")
    _write(folder / "answers.jsonl", '{"query_id": "1", "text": "In May."}\n')
    return {"kind": "odsum", "corpus": "texts", "summarizers": [{"answers": "answers.jsonl", "name": "given"}]}


def _odsum_meetings(folder: Path) -> dict[str, Any]:
    meetings(folder / "meetings")
    return {"kind": "odsum", "corpus": "meetings", "retrievers": ["bm25"]}


def _odsum_build(folder: Path) -> dict[str, Any]:
    stories(folder / "stories")
    _encoder(folder)
    _write(folder / "answers.jsonl", '{"query_id": "1", "text": "In May."}\n')
    return {
        "kind": "odsum_build",
        "corpus": "stories",
        "embed": str(folder / "encoder"),
        "model": {"answers": "answers.jsonl", "name": "x"},
    }


def _extract_evaluate(folder: Path) -> dict[str, Any]:
    pair = {"doc_id": "1", "system_id": "a", "summary": "It is late.", "scores": {"own": 1.0}}
    documents = {"1": {"source": "The ferry is late. The bridge is not."}}
    _write(folder / "pairs.json", json.dumps({"dataset": "d", "documents": documents, "pairs": [pair]}))
    _write(folder / "own.txt", "[[SOURCE]] [[SUMMARY]]")
    criteria = [{"name": "own", "scale": [1, 5], "prompt": "own.txt"}]
    return {"kind": "extract_evaluate", "pairs": ["pairs.json"], "criteria": criteria, "raters": ["offline/rater"]}


def _ethic(folder: Path) -> dict[str, Any]:
    user = "### Context:\nAnna said so.\n\nNow, respond to the instruction.\n\n### Instruction:\nName them.\n\nAnswer:"
    record = {"ID": "a", "Domain": "Books", "Context": "Anna said so.", "User_msg": user, "Answer": ["Anna"]}
    _write(folder / "records.jsonl", json.dumps({"task": "Recalling", "System_msg": "", **record}) + "\n")
    _write(folder / "con.txt", "{{Document}} {{Summary}}")
    return {"kind": "ethic", "data": "records.jsonl", "models": ["offline/names"], "criteria": {"con": "con.txt"}}


def _ethic_build(folder: Path) -> dict[str, Any]:
    _write(folder / "book.txt", "Anna Berg said so. Then Boris Lund said so.")
    return {"kind": "ethic_build", "texts": ["book.txt"]}


def _judge_bench(folder: Path) -> dict[str, Any]:
    _write(folder / "people.json", json.dumps([summary([(1.0, 1), (0.5, 2)])]))
    _write(folder / "judge.txt", PROMPT)
    # The free judge reads no prompt.
    judge = {"model": "openai/gpt-4o", "name": "mine", "strategy": "per_insight", "prompt": "judge.txt"}
    return {"kind": "judge_bench", "file": "people.json", "names": ["mine"], "judges": [judge]}


def _synth(folder: Path) -> dict[str, Any]:
    _write(folder / "ideas.txt", "The ferry is late.")
    return {"kind": "synth", "topics": [{"topic": "ferries", "context": ["ideas.txt"]}]}


def _coverage(folder: Path) -> dict[str, Any]:
    write_spec(folder, {**_ethic(folder), "executor": "inline"}).rename(folder / "of.yaml")
    return {"kind": "coverage", "of": "of.yaml", "evaluators": ["offline/coverage"]}


def _support(folder: Path) -> dict[str, Any]:
    _write(folder / "texts/a.txt", "The ferry is late.")
    _write(folder / "answers.jsonl", '{"query_id": "1", "text": "The ferry is late [1]."}\n')
    _encoder(folder)
    judge = f"cascade(offline,nli/{folder / 'encoder'},0.1)"
    return {"kind": "support", "answers": "answers.jsonl", "documents": "texts", "judge": judge}


CHANGES: dict[Callable[[Path], dict[str, Any]], dict[str, tuple[str, str]]] = {
    _summhay: {
        "judge.txt": ("JSON", "json"),
        "a.run": ("1 1", "1 2"),
        WEIGHTS: ("}1", "}2"),
        "encoder/vocab.txt": ("b", "c"),
        "made_*.json": ('"topic": "', '"topic": "a '),
    },
    _beir: {
        "one/corpus.jsonl": ("a one", "an one"),
        "one/queries.jsonl": ('"a"', '"c"'),
        "gold": ("d2", "d1"),
    },
    _beir_alone: {"two/qrels/test.tsv": ("d1\t1", "d2\t1")},
    _odsum: {
        "texts/a.txt": ("nine", "ten"),
        "texts/queries.jsonl": ("In May.", "In June."),
        "answers.jsonl": ("May", "June"),
    },
    _odsum_meetings: {"meetings/queries.json": ("m2", "m1"), "meetings/documents/m1.txt": ("late", "early")},
    _odsum_build: {
        "stories/queries.jsonl": ("Answer 1", "Answer one"),
        "answers.jsonl": ("May", "June"),
        WEIGHTS: ("}1", "}2"),
    },
    _extract_evaluate: {"pairs.json": ("1.0", "2.0"), "own.txt": ("[[SOURCE]]", "- [[SOURCE]]")},
    _ethic: {"records.jsonl": ('["Anna"]', '["Anne"]'), "con.txt": ("{{Document}}", "- {{Document}}")},
    _ethic_build: {"book.txt": ("Boris", "Bert")},
    _judge_bench: {"people.json": ("partially_covered", "not_covered"), "judge.txt": ("JSON", "json")},
    _synth: {"ideas.txt": ("late", "early")},
    _support: {"texts/a.txt": ("late", "early"), "answers.jsonl": ("late", "early"), WEIGHTS: ("}1", "}2")},
    _coverage: {"records.jsonl": ('["Anna"]', '["Anne"]')},
}


def _id(folder: Path, spec_of: Callable[[Path], dict[str, Any]], changed: str = "", old: str = "", new: str = "") -> str:
    folder.mkdir()
    fields = spec_of(folder)
    if changed:
        (path,) = folder.glob(changed)
        content = path.read_bytes()
        assert old.encode() in content
        path.write_bytes(content.replace(old.encode(), new.encode()))
    return load_workload(write_spec(folder, fields)).run_id


@pytest.mark.parametrize("spec_of", CHANGES, ids=lambda spec_of: spec_of.__name__.strip("_"))
def test_a_changed_file_makes_another_run(tmp_path: Path, spec_of: Callable[[Path], dict[str, Any]]) -> None:
    ids = [_id(tmp_path / "as-it-is", spec_of)]
    for place, (changed, words) in enumerate(CHANGES[spec_of].items()):
        ids.append(_id(tmp_path / str(place), spec_of, changed, *words))
    assert len(set(ids)) == len(ids), list(zip(["", *CHANGES[spec_of]], ids, strict=True))
    if spec_of is not _odsum_build:
        assert _id(tmp_path / "elsewhere", spec_of) == ids[0]


def test_another_revision_of_the_judge_that_repairs_citations_makes_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_haystacks(tmp_path, 1, documents=4, words=30, subtopics=2, insights=2)
    names = [path.name for path in tmp_path.glob("*.json")]
    plain = {"haystacks": names, "retrievers": ["bm25"], "summarizers": ["offline/lead"], "judges": ["offline/judge"]}
    repaired = {**plain, "summarizers": [{"model": "offline/lead", "recite": "offline"}]}
    before = [load_workload(write_spec(tmp_path, spec)).run_id for spec in (plain, repaired)]
    monkeypatch.setattr(citations, "SUPPORT_REVISION", "another")
    after = [load_workload(write_spec(tmp_path, spec)).run_id for spec in (plain, repaired)]
    assert (after[0], len({*before, *after})) == (before[0], 3)
