"""Reads nuggets as TREC RAG, ARGUE and RAGTIME have them as a haystack in the released format. Part of the haystack room.

A line is a query: `nuggets` is a list of statements with their importance; `nugget_bank` has questions with answers, each with
the documents that give it (`references`). A query is a subtopic, a nugget or an answer is an insight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from summhay_ray.haystack.check import Node, parse

NUGGETS = "nuggets"
"""The field of a haystack's source that says that it was read from nuggets: it may have no documents."""
_BANK = "nugget_bank"
_QUERY_IDS = ("qid", "query_id", "topic_id", "narrative_id")
_QUERIES = ("query", "title_query", "text", "title", "narrative")


def read_nuggets(source: bytes, file: str, documents: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The nuggets in `source`, JSON lines, as the JSON of a released haystack. Raises InvalidHaystack.

    `documents`: (id, text) of the documents that references name; references to others are left out.
    """
    lines = source.decode("utf-8-sig", errors="replace").split("\n")
    nodes = [
        Node(f"{file} line {n}", "", parse(line, f"{file} line {n}")) for n, line in enumerate(lines, start=1) if line.strip()
    ]
    ids = {name for name, _ in documents} | {name.rpartition(".")[0] for name, _ in documents}
    gold: dict[str, list[str]] = {}
    subtopics = []
    for node in nodes:
        query_id = next((str(found.value) for name in _QUERY_IDS if (found := node.optional(name))), "")
        if not query_id:
            raise node.refuse(f"{' or '.join(_QUERY_IDS[:2])}, the query's id", "none")
        query = next((_text_of(found) for name in _QUERIES if (found := node.optional(name))), query_id)
        insights = []
        for place, (text, importance, references) in enumerate(_insights(node), start=1):
            insight = {"insight_id": f"{query_id}/{place}", "insight": text}
            insights.append({**insight, "importance": importance} if importance else insight)
            for one in references:
                if one in ids:
                    gold.setdefault(one, []).append(insight["insight_id"])
        subtopics.append({"subtopic_id": query_id, "subtopic": query, "query": query, "insights": insights})
    shown = [
        {
            "document_id": name,
            "document_text": text,
            "insights_included": [*dict.fromkeys([*gold.get(name, ()), *gold.get(name.rpartition(".")[0], ())])],
        }
        for name, text in documents
    ]
    return {"topic": PurePosixPath(file).stem, NUGGETS: True, "subtopics": subtopics, "documents": shown}


def _text_of(node: Node) -> str:
    """A text, or that of an object with `text`."""
    return node.entry("text").text() if isinstance(node.value, dict) else node.text()


def _insights(node: Node) -> Iterator[tuple[str, str, list[str]]]:
    """(statement, importance, ids of its documents) of each nugget of a query."""
    bank = node.optional(_BANK)
    if bank is None:
        for nugget in node.entry(NUGGETS).items("a list of nuggets"):
            weight = nugget.optional("importance") if isinstance(nugget.value, dict) else None
            yield _text_of(nugget), weight.text() if weight else "", []
        return
    for key, asked in zip(*_entries(bank), strict=True):
        question = asked.optional("question")
        answers = asked.entry("answers")
        for name, answer in zip(*_entries(answers), strict=True):
            said = answer.optional("answer")
            listed = answer.optional("references")
            references = [_document(one) for one in listed.items()] if listed else []
            yield f"{question.text() if question else key} {said.text() if said else name}", "", references


def _entries(node: Node) -> tuple[list[str], list[Node]]:
    """The keys and values of an object; of a list, its items with empty keys."""
    values = node.entries() if isinstance(node.value, dict) else node.items("a list or an object")
    return list(node.value) if isinstance(node.value, dict) else [""] * len(values), values


def _document(node: Node) -> str:
    """The id of a reference: itself, or its `doc_id`."""
    return node.entry("doc_id").text() if isinstance(node.value, dict) else node.text()
