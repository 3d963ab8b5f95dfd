"""Reads and writes TREC runs and qrels; `{run: FILE}` ranks by a run file. Part of the `retrieve` room."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from summhay_ray.errors import UserError
from summhay_ray.retrieve.base import Ranked
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.plain import OverCorpus

RunLines = Mapping[str, Sequence[tuple[str, float]]]
"""query_id -> (document_id, score), best first."""


class BadTrec(UserError):
    """A malformed TREC or BEIR file; the message names the file and the line."""


def read_run(text: str, name: str) -> RunLines:
    """The rankings in a run file (lines `query Q0 document rank score tag`), ordered by score, ties in the file's order."""
    found: dict[str, dict[str, float]] = {}
    for line, fields in _lines(text, name, (6,), "query_id Q0 document_id rank score tag"):
        query_id, _, document_id, _, score, _ = fields
        scores = found.setdefault(query_id, {})
        if document_id in scores:
            raise BadTrec(f"{name}:{line}: query {query_id!r} ranks document {document_id!r} twice; remove one line")
        scores[document_id] = number_of(score, f"{name}:{line}", "score")
    return {query_id: sorted(scores.items(), key=lambda one: -one[1]) for query_id, scores in found.items()}


def read_qrels(text: str, name: str) -> dict[str, dict[str, float]]:
    """query_id -> document_id -> relevance, from lines `query 0 document relevance`; irrelevant documents are left out."""
    found: dict[str, dict[str, float]] = {}
    for line, fields in _lines(text, name, (4,), "query_id 0 document_id relevance"):
        relevance = grade_of(fields[3], f"{name}:{line}", "relevance")
        found.setdefault(fields[0], {})
        if relevance > 0:
            found[fields[0]][fields[2]] = relevance
    return found


def run_lines(query_id: str, document_ids: Iterable[str], tag: str) -> str:
    """The lines of one ranking. Scores fall by one per rank, so that readers that break ties by document name keep our order."""
    ranked = list(document_ids)
    names = [_word(name) for name in (query_id, *ranked, tag)]
    return "".join(
        f"{names[0]} Q0 {name} {rank} {len(ranked) - rank + 1} {names[-1]}\n" for rank, name in enumerate(names[1:-1], start=1)
    )


def qrels_lines(query_id: str, gold: Mapping[str, float]) -> str:
    """The lines of one query's relevant documents."""
    return "".join(f"{_word(query_id)} 0 {_word(name)} {grade:g}\n" for name, grade in gold.items())


def _word(name: str) -> str:
    if not name or name.split() != [name]:
        raise BadTrec(f"a TREC file cannot hold the name {name!r}, which is empty or contains white space; give it another name")
    return name


def _lines(text: str, name: str, widths: Sequence[int], form: str) -> Iterable[tuple[int, list[str]]]:
    for line, content in enumerate(text.split("\n"), start=1):
        fields = content.split()
        if fields and len(fields) not in widths:
            raise BadTrec(f"{name}:{line}: expected {form!r}, found {len(fields)} fields")
        if fields:
            yield line, fields


def number_of(text: str, where: str, what: str) -> float:
    """The finite number in a field. Raises BadTrec, naming `where`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadTrec(f"{where}: the {what} is {text!r}; expected a number")
    return number


def grade_of(text: str, where: str, what: str) -> float:
    """The relevance grade in a field. Raises BadTrec for anything but a whole number, since nDCG weighs whole grades only."""
    grade = number_of(text, where, what)
    if not grade.is_integer():
        raise BadTrec(f"{where}: the {what} is {text!r}; expected a whole number, since nDCG weighs whole grades only")
    return grade


class Run(OverCorpus):
    """Ranks by a run file. A line names a query by its id, or by CORPUS/ID where several corpora share the id."""

    whole: ClassVar[bool] = False

    def __init__(self, lines: RunLines, name: str) -> None:
        self.lines = lines
        self.name = name

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """The documents that the file ranks for the query. Raises LookupError for a query without lines, or unknown documents."""
        found = self.lines.get(f"{corpus.name}/{query.query_id}", self.lines.get(query.query_id))
        if found is None:
            raise LookupError(f"run {self.name!r} ranks nothing for query {query.query_id!r} of {corpus.name!r}")
        places = {document_id: number for number, document_id in enumerate(corpus.document_ids, start=1)}
        for document_id, _ in found:
            if document_id not in places:
                where = f"run {self.name!r}, query {query.query_id!r}"
                raise LookupError(f"{where}: ranks document {document_id!r}, which {corpus.name!r} does not hold")
        return [Ranked(places[document_id], score) for document_id, score in found]
