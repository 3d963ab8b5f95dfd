"""Answers from a file instead of a model: `{answers: FILE, name: NAME}` in a spec. Part of the engine room."""

from __future__ import annotations

import hashlib
import json

from summhay_ray.errors import SpecError
from summhay_ray.llm import LocalModel, Request
from summhay_ray.text import RagAnswer, read_rag_answer


class GivenAnswers(LocalModel):
    """A model that answers from a file of JSON lines: `{"query_id": ..., "text": ...}`, or answers in the TREC RAG format.

    A request's `lookup` is the query id.
    """

    def __init__(self, name: str, content: bytes, file: str) -> None:
        """Raises SpecError, naming the line, if the file cannot be used."""
        self.texts, self.rag = read_given_answers(content, file)
        """Query's id -> text; and -> `RagAnswer`, where the file has one."""
        self.file = file
        self.name, self.revision = name, hashlib.sha256(content).hexdigest()

    def answer(self, request: Request) -> str:
        """The text for the request's query. Raises LookupError if the file has none."""
        if request.lookup not in self.texts:
            raise LookupError(f"{self.file} holds no answer to query_id {request.lookup!r}")
        return self.texts[request.lookup]


def read_given_answers(content: bytes, file: str) -> tuple[dict[str, str], dict[str, RagAnswer]]:
    """Query's id -> text, and -> `RagAnswer` for the lines that have one. Raises SpecError, naming the line."""
    texts: dict[str, str] = {}
    listed: dict[str, RagAnswer] = {}
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise SpecError(f'{where}: no JSON; expected a line such as {{"query_id": "7", "text": "..."}}') from None
        if not isinstance(row, dict):
            raise SpecError(f"{where}: expected an object with query_id and text")
        try:
            rag = read_rag_answer(row)
        except ValueError as error:
            raise SpecError(f"{where}: {error}") from error
        if rag is not None:
            listed[rag.query_id] = rag
            row = {"query_id": rag.query_id or None, "text": rag.text()}
        for name in ("query_id", "text"):
            if not isinstance(row.get(name), str):
                raise SpecError(f"{where}: {name}: expected text, found {json.dumps(row.get(name))[:40]}")
        if row["query_id"] in texts:
            raise SpecError(f"{where}: query_id: {row['query_id']!r} stands on an earlier line, too; leave one")
        texts[row["query_id"]] = row["text"]
    return texts, listed
