"""Small collections of every layout, for the tests of ODSum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MEETINGS = {
    "m1": "chair: The ferry to Elsin was late. clerk: The ferry needs a new engine before the winter.",
    "m2": "chair: The bridge at Elsin was closed for nine weeks. clerk: The bridge opens in May.",
    "m3": "",
    "m4": "chair: The library gets new windows. clerk: The windows of the library cost nine thousand.",
}
QUERIES: dict[str, dict[str, Any]] = {
    "0": {"query": "When does the bridge at Elsin open?", "answer": "The bridge opens in May.", "meetings_list": ["m2"]},
    "1": {"query": "What is said of ferry and library?", "answer": "A new engine, new windows.", "meetings_list": ["m4", "m1"]},
    "2": {"query": "What of the blank day?", "answer": "Summary: nothing was said.", "meetings_list": ["m3", "m2"]},
    "3": {"query": "How much do the windows cost?", "answer": "Nine thousand.", "meetings_list": ["m4"]},
    "4": {"query": "Why was the ferry late?", "answer": "Its engine is old.", "meetings_list": ["m1"]},
}


def meetings(folder: Path, queries: Any = QUERIES) -> Path:
    """The layout of the release's raw meetings."""
    (folder / "documents").mkdir(parents=True)
    for name, text in MEETINGS.items():
        (folder / "documents" / f"{name}.txt").write_text(text, encoding="utf-8")
    (folder / "queries.json").write_text(json.dumps(queries), encoding="utf-8")
    return folder


def stories(folder: Path) -> Path:
    """The layout of the release's raw stories: two in train, one each in test and dev."""
    (folder / "documents").mkdir(parents=True)
    lines = []
    for split, passages in (("train", ["11", "12"]), ("test", ["13"]), ("dev", ["14"])):
        told = []
        for passage in passages:
            parts = [f"Part one of story {passage}, by the sea.", "\n", f"Part three of story {passage}, in the hills."]
            title = f"STORY {passage}"
            told.append({"metadata": {"passage_id": passage}, "title": title, "divided_document": parts, "questions": []})
            responses = [{"response_text": f"Answer {n} to story {passage}."} for n in range(4)]
            lines.append(
                [
                    {"question_text": f"What of {passage}, {n}?", "question_number": n, "title": title, "responses": responses}
                    for n in (1, 2)
                ]
            )
        (folder / "documents" / f"{split}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in told), encoding="utf-8")
    (folder / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return folder


def beir(folder: Path) -> Path:
    """A BEIR folder, whose queries' metadata may have references."""
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": "d1", "title": "Ferry", "text": "It is late."}, {"_id": "d2", "title": "", "text": "The bridge is closed."}]
    queries = [
        {"_id": "q1", "text": "Is the ferry late?", "metadata": {"references": ["It is late."]}},
        {"_id": "q2", "text": "Is the bridge open?"},
    ]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td2\t1\n", encoding="utf-8")
    return folder


def own(folder: Path) -> Path:
    """Texts with a file of queries: one query with all fields, one with only its text."""
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("The tram stops at nine.", encoding="utf-8")
    (folder / "b.txt").write_text("The tram line is repaired in May.", encoding="utf-8")
    rows = [
        {"query_id": "1", "text": "When is the line repaired?", "references": ["In May."], "gold": ["b"], "split": "test"},
        {"query_id": "2", "text": "When does the tram stop?"},
    ]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "ATTRIBUTION").write_text("Made for a test.\n", encoding="utf-8")
    return folder
