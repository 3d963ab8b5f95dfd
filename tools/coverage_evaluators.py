"""Compares the offline evaluators of information coverage with people's annotations: `python tools/coverage_evaluators.py DATA`.

DATA is the folder of released data. For haystacks, each pair of document and subtopic is checked: is a chunk of the document
needed exactly if the document has an annotated insight of the subtopic? For ODSum's meetings, abstracts are the references, and
the gold documents are mixed with six others. The needed chunks should be in the gold documents, and all gold documents should be
found. `precision` is the share of needed chunks that are in gold documents; `by_chance` is this share among all chunks.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from summhay_ray.benchmark import Request
from summhay_ray.benchmarks.coverage.evaluators import EmbeddedCoverage, LexicalCoverage, verdicts, whole_question
from summhay_ray.text import chunks

CHUNK = 512
OTHERS = 6


def cut(text: str) -> list[str]:
    return [text[begin:end] for begin, end in chunks(text, CHUNK)]


def needed(evaluator: Any, documents: Sequence[Sequence[str]], query: str, references: Sequence[str]) -> list[list[bool]]:
    """Return the verdicts, document by document."""
    passages = [one for document in documents for one in document]
    answers = iter(verdicts(evaluator.answer(Request("m", whole_question(passages, query, references)))))
    return [[next(answers) for _ in document] for document in documents]


def of_haystack(path: Path, evaluator: Any) -> dict[str, Any]:
    haystack = json.loads(path.read_text(encoding="utf-8"))
    documents = [cut(one["document_text"]) for one in haystack["documents"]]
    pairs: list[tuple[bool, bool]] = []
    for subtopic in haystack["subtopics"]:
        insights = {one["insight_id"]: one["insight"] for one in subtopic["insights"]}
        found = map(any, needed(evaluator, documents, subtopic["query"], list(insights.values())))
        gold = (not insights.keys().isdisjoint(one["insights_included"]) for one in haystack["documents"])
        pairs += zip(gold, found, strict=True)
    both = sum(gold and found for gold, found in pairs)
    return {
        "data": path.stem,
        "evaluator": evaluator.name,
        "accuracy": fmean(gold == found for gold, found in pairs),
        "precision": both / sum(found for _, found in pairs),
        "found": both / sum(gold for gold, _ in pairs),
        "n": len(pairs),
    }


def of_meetings(folder: Path, evaluator: Any, n: int, seed: int) -> dict[str, Any]:
    queries = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    names = sorted(one.stem for one in (folder / "documents").iterdir())
    draws = random.Random(seed)
    rows = []
    for key in draws.sample(sorted(queries), n):
        query = queries[key]
        gold = [one for one in query["meetings_list"] if one in names]
        among = [*gold, *draws.sample([one for one in names if one not in gold], OTHERS)]
        documents = [cut((folder / "documents" / f"{one}.txt").read_text(encoding="utf-8")) for one in among]
        said = needed(evaluator, documents, query["query"], [query["answer"]])
        alone = needed(evaluator, documents[: len(gold)], query["query"], [query["answer"]])
        rows.append((len(gold), said, alone))
    hits = [(sum(map(sum, said[:gold])), sum(map(sum, said))) for gold, said, _ in rows]
    return {
        "data": "odsum_meeting",
        "evaluator": evaluator.name,
        "precision": fmean(right / every for right, every in hits if every),
        "by_chance": fmean(sum(map(len, said[:gold])) / sum(map(len, said)) for gold, said, _ in rows),
        "found": fmean(fmean(map(any, said[:gold])) for gold, said, _ in rows),
        "coverage": fmean(sum(map(sum, alone)) / sum(map(len, alone)) for _, _, alone in rows),
        "n": len(rows),
    }


def measure_evaluator(
    data: Path, evaluator: Any, haystacks: Sequence[str] = ("topic_news1", "topic_news2"), meetings: int = 60, seed: int = 11
) -> Iterator[dict[str, Any]]:
    for name in haystacks:
        yield of_haystack(data / "summhay" / f"{name}.json", evaluator)
    yield of_meetings(data / "odsum_meeting", evaluator, meetings, seed)


if __name__ == "__main__":
    chosen = {one.name: one for one in (LexicalCoverage, EmbeddedCoverage)}
    for name in sys.argv[2:] or list(chosen):
        for row in measure_evaluator(Path(sys.argv[1]), chosen[name]()):
            print(
                json.dumps({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}),
                flush=True,
            )
