"""Reads nuggets in the formats of TREC RAG, ARGUE and RAGTIME as a haystack in the released format.

A query becomes a subtopic; a nugget or an answer becomes an insight. `nuggets` is a list of statements with their importance.
`nugget_bank` has claims, or questions with answers, each with its importance and its supporting documents (`references`). A file
has one query, a list of queries, or one query per line.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from summhay_ray.haystack.check import Node, parse

NUGGETS = "nuggets"
"""The field that marks a haystack's source as read from nuggets. Such a source may have no documents."""
UNREAD = "unread"
"""The field of such a source that lists unreadable documents, one line for each."""
_BANK = "nugget_bank"
_QUERY_IDS = ("qid", "query_id", "topic_id", "narrative_id", "request_id")
_QUERIES = ("query", "title_query", "text", "title", "narrative")


def holds_nuggets(source: bytes | str) -> bool:
    """Whether the first query of a file has nuggets. The file may be damaged after it."""
    text = source if isinstance(source, str) else source.decode("utf-8-sig", "replace")
    if f'"{NUGGETS}"' not in text and f'"{_BANK}"' not in text:
        return False
    try:
        first = json.JSONDecoder().raw_decode(text.removeprefix("\ufeff").lstrip())[0]
    except (ValueError, RecursionError):
        return False
    first = first[0] if isinstance(first, list) and first else first
    return isinstance(first, dict) and "subtopics" not in first and (NUGGETS in first or _BANK in first)


def read_nuggets(source: bytes, file: str, documents: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Convert the nuggets in `source`, JSON or JSON lines, to the JSON of a released haystack. Raise InvalidHaystack.

    `documents`: (id, text) of the documents that references may name, by id, by id without a file extension if it is unique, or
    by a line's file name (`FILE#ID`). Other references are left out.
    """
    forms = [{name, name.rpartition(".")[0], name.rpartition("#")[2]} for name, _ in documents]
    uses = Counter(form for own in forms for form in own)
    ids = {form: name for (name, _), own in zip(documents, forms, strict=True) for form in own if uses[form] == 1 or form == name}
    gold: dict[str, list[str]] = {name: [] for name, _ in documents}
    subtopics = []
    for node in _queries(source, file):
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
                    gold[ids[one]].append(insight["insight_id"])
        subtopics.append({"subtopic_id": query_id, "subtopic": query, "query": query, "insights": insights})
    shown = [
        {"document_id": name, "document_text": text, "insights_included": [*dict.fromkeys(gold[name])]}
        for name, text in documents
    ]
    return {"topic": PurePosixPath(file).stem, NUGGETS: True, "subtopics": subtopics, "documents": shown}


def _queries(source: bytes, file: str) -> list[Node]:
    """Return the queries of a file, one per line if the first line is a whole object."""
    lines = [(f"{file} line {n}", line) for n, line in enumerate(source.split(b"\n"), start=1) if line.strip()]
    try:
        by_line = bool(lines) and isinstance(json.loads(lines[0][1]), dict)
    except ValueError:
        by_line = False
    if by_line:
        return [Node(where, "", parse(line, where)) for where, line in lines]
    whole = Node(file, "", parse(source, file))
    return whole.items() if isinstance(whole.value, list) else [whole]


def _text_of(node: Node) -> str:
    return node.entry("text").text() if isinstance(node.value, dict) else node.text()


def _insights(node: Node) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (statement, importance, ids of its documents) for each nugget of a query."""
    bank = node.optional(_BANK)
    if bank is None:
        for nugget in node.entry(NUGGETS).items("a list of nuggets"):
            yield _text_of(nugget), *_marks(nugget)
        return
    for key, entry in zip(*_entries(bank), strict=True):
        claim, answers = entry.optional("claim"), entry.optional("answers")
        if claim:
            yield claim.text(), *_marks(entry)
            continue
        question = entry.optional("question")
        asked = question.text() if question else key
        if not asked:
            raise entry.refuse("a question or a claim", "neither")
        if not answers or not answers.value:
            yield asked, *_marks(entry)
            continue
        for name, answer in zip(*_entries(answers), strict=True):
            stated = answer.optional("answer") if isinstance(answer.value, dict) else answer
            importance, references = _marks(answer)
            yield f"{asked} {stated.text() if stated else name}", importance or _marks(entry)[0], references


def _marks(node: Node) -> tuple[str, list[str]]:
    """Return the importance of a nugget, question or answer (empty if it has none), and the ids of its documents."""
    if not isinstance(node.value, dict):
        return "", []
    importance, listed = node.optional("importance"), node.optional("references")
    references = [] if listed is None else listed.items() if isinstance(listed.value, list) else [listed]
    return str(importance.value) if importance else "", [_document(one) for one in references]


def _entries(node: Node) -> tuple[list[str], list[Node]]:
    """Return the keys and values of an object. For a list, return its items with empty keys."""
    values = node.entries() if isinstance(node.value, dict) else node.items("a list or an object")
    return list(node.value) if isinstance(node.value, dict) else [""] * len(values), values


def _document(node: Node) -> str:
    return node.entry("doc_id").text() if isinstance(node.value, dict) else node.text()
