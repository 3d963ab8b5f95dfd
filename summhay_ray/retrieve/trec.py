"""Reads and writes TREC runs and qrels; `{run: FILE}` ranks by a run file. Part of the `retrieve` room."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from summhay_ray.errors import UserError
from summhay_ray.retrieve.base import Ranked
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.per_corpus import PerCorpus
from summhay_ray.retrieve.plain import OverCorpus

Lines = Mapping[str, Mapping[str, float]]
"""Query, by its id or as in `query_names` -> document_id -> score in a run, grade in qrels."""


class BadTrec(UserError):
    """A malformed TREC or BEIR file; the message names the file and the line."""


def read_run(text: str, name: str) -> Lines:
    """The scores in a run file (lines `query Q0 document rank score tag`); the column of ranks is not read."""
    found: dict[str, dict[str, float]] = {}
    for line, fields in _lines(text, name, (6,), "query_id Q0 document_id rank score tag"):
        query_id, _, document_id, _, score, _ = fields
        scores = found.setdefault(query_id, {})
        if document_id in scores:
            raise BadTrec(f"{name}:{line}: query {query_id!r} ranks document {document_id!r} twice; remove one line")
        scores[document_id] = number_of(score, f"{name}:{line}", "score")
    return found


def read_qrels(text: str, name: str) -> dict[str, dict[str, float]]:
    """query_id -> document_id -> relevance, from lines `query 0 document relevance`; irrelevant documents are left out."""
    found: dict[str, dict[str, float]] = {}
    for line, fields in _lines(text, name, (4,), "query_id 0 document_id relevance"):
        relevance = grade_of(fields[3], f"{name}:{line}", "relevance")
        found.setdefault(fields[0], {})
        if relevance > 0:
            found[fields[0]][fields[2]] = relevance
    return found


def long_name(corpus_id: str, query_id: str) -> str:
    """The name of a query in files, where several corpora have a query of this id."""
    return f"{corpus_id[:12]}/{query_id}"


def query_names(corpus: str, corpus_id: str, query_id: str) -> tuple[str, str, str]:
    """The names by which files may call a query of a corpus, the most specific first."""
    return f"{corpus}/{query_id}", long_name(corpus_id, query_id), query_id


def found_for(query: Query, corpus: Corpus, lines: Lines) -> Mapping[str, float] | None:
    """The lines of a query; None where there are none."""
    names = query_names(corpus.name, corpus.corpus_id, query.query_id)
    return next((lines[name] for name in names if name in lines), None)


def with_qrels(corpus: Corpus, qrels: Lines) -> Corpus:
    """The corpus with the gold documents of the qrels instead of its own."""
    queries = tuple(replace(query, gold=found_for(query, corpus, qrels) or {}) for query in corpus.queries)
    graded = any(grade not in (0, 1) for query in queries for grade in query.gold.values())
    return replace(corpus, queries=queries, graded=graded)


def run_lines(query_id: str, document_ids: Iterable[str], tag: str, scores: Sequence[float] | None = None) -> str:
    """The lines of one ranking. `scores`: None where only the order is known; they then fall by one per rank.

    A score that is not below the one before it, as a 4-byte float, becomes the next number below that: trec_eval reads such
    floats, and breaks ties by document name, which would lose our order.
    """
    ranked = list(document_ids)
    names = [_word(name) for name in (query_id, *ranked, tag)]
    falling = range(len(ranked), 0, -1) if scores is None else _falling(scores)
    lines = zip(names[1:-1], falling, strict=True)
    return "".join(f"{names[0]} Q0 {name} {rank} {score} {names[-1]}\n" for rank, (name, score) in enumerate(lines, start=1))


def _falling(scores: Sequence[float]) -> Iterator[float]:
    """The scores, each below the one before it."""
    import numpy as np

    last = np.float32(np.inf)
    for score in scores:
        below = np.nextafter(last, np.float32(-np.inf))
        last = np.float32(score)
        if last > below:
            score, last = float(below), below
        yield score


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


_places = PerCorpus(lambda corpus: {name: number for number, name in enumerate(corpus.document_ids, start=1)})
"""Document's id -> its number."""


class Run(OverCorpus):
    """Ranks by the scores of a run file. A line names a query as in `query_names`."""

    whole: ClassVar[bool] = False

    def __init__(self, lines: Lines, name: str) -> None:
        self.lines = lines
        self.name = name

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """The documents that the file ranks for the query. Raises LookupError for a query without lines, or unknown documents."""
        found = found_for(query, corpus, self.lines)
        if found is None:
            raise LookupError(f"run {self.name!r} ranks nothing for query {query.query_id!r} of {corpus.name!r}")
        places = _places(corpus)
        for document_id in found:
            if document_id not in places:
                where = f"run {self.name!r}, query {query.query_id!r}"
                raise LookupError(f"{where}: ranks document {document_id!r}, which {corpus.name!r} does not hold")
        ranked = (Ranked(places[document_id], score) for document_id, score in found.items())
        return sorted(ranked, key=lambda one: (-one.score, one.number))
