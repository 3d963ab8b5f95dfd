"""Reads and writes answers in the format of the TREC tracks for RAG: sentences, each with the ids of the documents it cites.

TREC RAG, RAGTIME, DRAGUN and BioGen share the format (github.com/hltcoe/rag-run-validator). Sentences are in `responses` or
`answer`. Citations are ids, `{id: score}`, or positions in `references`, from 0.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NUMBERS = re.compile(r"\s*\[[\d\s,;–-]*\d[\d\s,;–-]*\](?!\()")
"""Matches numbers in brackets inside a sentence; `citations` gives their documents."""
_TOPIC = ("topic_id", "narrative_id", "request_id", "query_id", "qid", "id")
_SYSTEM = ("run_id", "team_id", "system")
_ID = ("id", "docid", "doc_id", "document_id")
_SENTENCES = ("responses", "answer")


@dataclass(frozen=True, slots=True)
class RagAnswer:
    """A system's answer to one query."""

    query_id: str
    """The topic's id; empty if the answer has none."""
    system: str
    """The id of the run or the team; empty if the answer has neither."""
    sentences: tuple[str, ...]
    cited: tuple[tuple[str, ...], ...]
    """The ids of the documents that each sentence cites, without duplicates, in the answer's order."""

    def text(self, mark: Callable[[str], str] = "[{}]".format) -> str:
        """Return one line per sentence, followed by its citations. `mark` turns an id into a citation, by default `[ID]`."""
        lines = zip(self.sentences, self.cited, strict=True)
        return "\n".join(f"{sentence} {''.join(map(mark, ids))}".strip() for sentence, ids in lines)


def read_rag_answer(row: Mapping[str, Any]) -> RagAnswer | None:
    """Parse a line of a file of answers. Return None if the line has another format; raise ValueError, which names the field, if
    it is invalid."""
    for field in _SENTENCES:
        listed = row.get(field)
        if isinstance(listed, list) and (not listed or any(isinstance(one, dict) for one in listed)):
            break
    else:
        return None
    metadata = row.get("metadata")
    names: Mapping[str, Any] = {**row, **(metadata if isinstance(metadata, dict) else {})}
    references = [] if row.get("references") is None else row["references"]
    if not isinstance(references, list):
        raise ValueError("references: expected a list of document ids")
    ids = [_id(one, f"references: entry {place}") for place, one in enumerate(references)]
    sentences: list[str] = []
    cited: list[tuple[str, ...]] = []
    for place, one in enumerate(listed):
        where = f"{field}: entry {place}"
        sentence = one if isinstance(one, str) else one.get("text") if isinstance(one, dict) else None
        if not isinstance(sentence, str):
            raise ValueError(f"{where} has no text; give objects with `text` and `citations`")
        sentences.append(" ".join(_NUMBERS.sub("", sentence).split()))
        cited.append(_cited(one.get("citations") if isinstance(one, dict) else None, ids, f"{where}: citations"))
    return RagAnswer(_name(names, _TOPIC), _name(names, _SYSTEM), tuple(sentences), tuple(cited))


def rag_answer_json(answer: RagAnswer) -> dict[str, Any]:
    """Return the line of an answer, in the form that the tracks' validator requires. There, a run's id has no spaces."""
    run = "_".join(answer.system.split())
    responses = [{"text": text, "citations": list(ids)} for text, ids in zip(answer.sentences, answer.cited, strict=True)]
    return {
        "metadata": {"team_id": "summhay", "run_id": run, "topic_id": answer.query_id},
        "responses": responses,
        "references": list(dict.fromkeys(one for ids in answer.cited for one in ids)),
    }


def _name(names: Mapping[str, Any], fields: Sequence[str]) -> str:
    given = (names.get(field) for field in fields)
    return next((str(one) for one in given if isinstance(one, str | int) and not isinstance(one, bool) and str(one)), "")


def _id(value: Any, where: str) -> str:
    """Return the id of a document. Raise ValueError if it is not one."""
    found = _name(value, _ID) if isinstance(value, dict) else _name({"id": value}, ("id",))
    if not found:
        raise ValueError(f"{where}: expected a document's id")
    return found


def _cited(citations: Any, references: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the ids that a sentence cites. A number is a position in `references`, from 0. So is a string of digits, unless it
    is an id."""
    if not isinstance(citations, list | dict | None):
        raise ValueError(f"{where}: expected a list of ids or of positions in `references`, or an object {{id: score}}")

    def resolved(one: Any) -> str:
        own = _id(one, where)
        places = own.isascii() and own.isdecimal() and len(own) < 10 and (isinstance(one, int) or own not in references)
        return references[int(own)] if places and int(own) < len(references) else own

    return tuple(dict.fromkeys(map(resolved, citations or ())))
