"""Reads and writes TREC runs and qrels; `{run: FILE}` ranks by a run file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from summhay_ray.errors import UserError
from summhay_ray.retrieve.base import Ranked
from summhay_ray.retrieve.baselines import OverCorpus
from summhay_ray.retrieve.corpus import Corpus, PerCorpus, Query

Lines = Mapping[str, Mapping[str, float]]
"""Query -> document_id -> score. A query is given by its id, or as in `query_names`."""


class BadTrec(UserError):
    """A malformed TREC or BEIR file. The message names the file and the line."""


def read_run(text: str, name: str) -> Lines:
    """Read the scores in a run file (lines `query Q0 document rank score tag`). The column of ranks is ignored."""
    found: dict[str, dict[str, float]] = {}
    for line, fields in _lines(text, name, (6,), "query_id Q0 document_id rank score tag"):
        query_id, _, document_id, _, score, _ = fields
        scores = found.setdefault(query_id, {})
        if document_id in scores:
            raise BadTrec(f"{name}:{line}: query {query_id!r} ranks document {document_id!r} twice; remove one line")
        scores[document_id] = number_of(score, f"{name}:{line}", "score")
    return found


@dataclass(frozen=True)
class Qrels:
    """Relevance judgments from one file, or pooled from several files."""

    name: str
    """The names of the source files, for messages."""
    grades: dict[str, dict[str, float]] = field(default_factory=dict)
    """Query -> document_id -> grade. Above 0 is relevant. A query is given by its id, or as in `query_names`."""
    contradicted: set[str] = field(default_factory=set)
    """Queries for which a document has two different judgments."""

    def add(self, query: str, document_id: str, grade: float) -> None:
        """Add a judgment. It replaces an earlier one of the same document, as in BEIR's loader and ir_measures."""
        known = self.grades.setdefault(query, {})
        if known.get(document_id, grade) != grade:
            self.contradicted.add(query)
        known[document_id] = grade

    @classmethod
    def pool(cls, several: Sequence[Qrels]) -> Qrels:
        """Combine the judgments of several files, which may judge the same queries."""
        pool = cls(" and ".join(one.name for one in several))
        for one in several:
            pool.contradicted.update(one.contradicted)
            for query, grades in one.grades.items():
                for document_id, grade in grades.items():
                    pool.add(query, document_id, grade)
        return pool


def read_qrels(text: str, name: str) -> Qrels:
    """Read the judgments in lines `query 0 document relevance`. Raise BadTrec."""
    qrels = Qrels(name)
    for line, fields in _lines(text, name, (4,), "query_id 0 document_id relevance"):
        qrels.add(fields[0], fields[2], number_of(fields[3], f"{name}:{line}", "relevance", whole=True))
    return qrels


def long_name(corpus_id: str, query_id: str) -> str:
    """Return the name of a query in files, for ids that occur in several corpora."""
    return f"{corpus_id[:12]}/{query_id}"


def query_names(corpus: str, corpus_id: str, query_id: str) -> tuple[str, str, str]:
    """Return the names that files may use for a query of a corpus, most specific first."""
    return f"{corpus}/{query_id}", long_name(corpus_id, query_id), query_id


def with_qrels(corpus: Corpus, qrels: Qrels, ignore_identical_ids: bool = False) -> tuple[Corpus, list[str]]:
    """Return the corpus with only the queries that the qrels judge, and one sentence for each oddity of the judgments.
    `ignore_identical_ids`: see `Corpus`."""
    documents = set(corpus.document_ids)
    queries, unjudged, empty, identical, contradicted, absent = [], [], [], [], [], []
    for query in corpus.queries:
        names = query_names(corpus.name, corpus.corpus_id, query.query_id)
        name = next((one for one in names if one in qrels.grades), None)
        if name is None:
            unjudged.append(query.query_id)
            continue
        grades = qrels.grades[name]
        relevant = {document_id: grade for document_id, grade in grades.items() if grade > 0}
        queries.append(replace(query, gold=relevant or dict.fromkeys(grades, 0.0)))
        empty += [] if relevant else [query.query_id]
        contradicted += [query.query_id] if name in qrels.contradicted else []
        identical += [query.query_id] if ignore_identical_ids and query.query_id in documents else []
        absent += [document_id for document_id in relevant if document_id not in documents]
    many = "queries", "query"
    notes = [
        (unjudged, many, f"without a judgment in {qrels.name}: not asked, not counted"),
        (contradicted, many, f"with contradicting judgments in {qrels.name}: the last one counts"),
        (empty, many, f"judged in {qrels.name} without a relevant document: measured as 0, as trec_eval does"),
        (identical, many, "with the id of a document, which is left out of the query's ranking (ignore_identical_ids)"),
        (absent, ("relevant documents", "relevant document"), "missing from the corpus: counted as not retrieved"),
    ]
    shown = [f"{corpus.name}: {len(ids)} {names[len(ids) == 1]} (such as {ids[0]!r}) {what}" for ids, names, what in notes if ids]
    graded = any(grade not in (0, 1) for query in queries for grade in query.gold.values())
    return replace(corpus, queries=tuple(queries), graded=graded, ignore_identical_ids=bool(identical)), shown


def corpus_of_runs(runs: Iterable[Lines], qrels: Qrels) -> Corpus:
    """Make a corpus of the documents that run files and qrels name, without texts. They are in descending order of ids, so that
    ties are broken as in trec_eval."""
    lines = [qrels.grades, *runs]
    named = {document_id for one in lines for scores in one.values() for document_id in scores}
    queries = tuple(Query(query_id, "") for query_id in dict.fromkeys(query_id for one in lines for query_id in one))
    return Corpus(qrels.name, tuple(sorted(named, reverse=True)), ("",) * len(named), queries)


def run_lines(query_id: str, document_ids: Iterable[str], tag: str, scores: Sequence[float] | None = None) -> str:
    """Return the lines of one ranking.

    `scores`: None if only the order is known; then scores fall by one per rank. trec_eval reads scores as 4-byte floats, and
    breaks ties by name. So scores that do not fall as 4-byte floats are lowered to the next smaller number.
    """
    import numpy as np

    ranked = list(document_ids)
    query_id, *names, tag = [_word(name) for name in (query_id, *ranked, tag)]
    falling = range(len(ranked), 0, -1) if scores is None else scores
    lines, last = [], np.float32(np.inf)
    for rank, (name, score) in enumerate(zip(names, falling, strict=True), start=1):
        below, last = np.nextafter(last, np.float32(-np.inf)), np.float32(score)
        if last > below:
            score, last = float(below), below
        lines.append(f"{query_id} Q0 {name} {rank} {score} {tag}\n")
    return "".join(lines)


def qrels_lines(query_id: str, gold: Mapping[str, float]) -> str:
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


def number_of(text: str, where: str, what: str, whole: bool = False) -> float:
    """Parse the finite number in a field. Raise BadTrec, which names `where`.

    `whole`: accept only whole numbers, for grades of relevance, since nDCG supports no others.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadTrec(f"{where}: the {what} is {text!r}; expected a number")
    if whole and not number.is_integer():
        raise BadTrec(f"{where}: the {what} is {text!r}; expected a whole number, since nDCG weighs whole grades only")
    return number


_places = PerCorpus(lambda corpus: {name: number for number, name in enumerate(corpus.document_ids, start=1)})
"""Document id -> its number."""


@dataclass(frozen=True)
class Run(OverCorpus):
    """Ranks by the scores of a run file. A line names a query as in `query_names`."""

    whole: ClassVar[bool] = False

    lines: Lines
    name: str

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """Return the documents that the file ranks for the query. Raise LookupError for a query without lines, or unknown
        documents."""
        import numpy as np

        names = query_names(corpus.name, corpus.corpus_id, query.query_id)
        found = next((self.lines[name] for name in names if name in self.lines), None)
        if found is None:
            raise LookupError(f"run {self.name!r} ranks nothing for query {query.query_id!r} of {corpus.name!r}")
        places = _places(corpus)
        for document_id in found:
            if document_id not in places:
                where = f"run {self.name!r}, query {query.query_id!r}"
                raise LookupError(f"{where}: ranks document {document_id!r}, which {corpus.name!r} does not hold")
        ranked = (Ranked(places[document_id], score) for document_id, score in found.items())
        # Scores that are equal as 4-byte floats are ties, since trec_eval reads such floats.
        return sorted(ranked, key=lambda one: (-np.float32(one.score), one.number))
