"""The input of retrievers: ordered documents, and queries with or without gold documents."""

import functools
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from summhay_ray.records import Document, Haystack, Subtopic

T = TypeVar("T")

LONGEST_QUERY = 1_000_000
"""Maximum number of characters of a query. Every retriever and prompt repeats the query, so one as long as a book would take
hours."""


def query_flaw(text: str) -> str:
    """Return why the text cannot be a query, or an empty string if it can."""
    if len(text) <= LONGEST_QUERY:
        return ""
    return f"has {len(text):,} characters, and a query at most {LONGEST_QUERY:,}; give the question alone"


@dataclass(frozen=True, slots=True)
class Query:
    """A query to a corpus."""

    query_id: str
    """Unique within its corpus."""
    text: str
    """The search text."""
    gold: Mapping[str, float] = field(default_factory=dict)
    """document_id -> grade of relevance. If a judged query has no relevant document, all grades are 0. Empty if unknown."""
    stored: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Retriever name -> document_id -> score stored in the source."""
    references: tuple[str, ...] = ()
    """Reference answers, if the source has any; no retriever reads them."""
    split: str = ""
    """train, dev or test; empty if the source has no splits."""


@dataclass(frozen=True)
class Corpus:
    """Documents and queries about them. The order of the documents breaks ties in rankings."""

    name: str
    document_ids: tuple[str, ...]
    texts: tuple[str, ...] = field(repr=False)
    """The text of each document."""
    queries: tuple[Query, ...] = field(default=(), repr=False)
    graded: bool = False
    """Whether nDCG uses the grades in `gold`. If not, relevance is binary."""
    topic: str = ""
    """Topic of all documents. Random retrieval uses it as part of its seed."""
    source: Haystack | None = field(default=None, repr=False)
    """The haystack from which the corpus was made, if any."""
    titles: tuple[str, ...] = field(default=(), repr=False)
    """The title of each document, or empty. A document's text begins with its title (see `with_title`)."""
    ignore_identical_ids: bool = False
    """Whether a document is left out of the ranking of a query with the same id, as in BEIR's evaluation."""

    def grades(self, query: Query) -> dict[str, float]:
        """Return document_id -> grade of relevance to a query, for metrics and files; 1 if relevance is binary.

        Only relevant documents are included. If a judged query has none, its judged documents are included with grade 0.
        """
        relevant = {name: grade if self.graded else 1.0 for name, grade in query.gold.items() if grade > 0}
        return relevant or dict.fromkeys(query.gold, 0.0)

    @functools.cached_property
    def corpus_id(self) -> str:
        """Content hash of the documents. Corpora with equal ids have the same documents in the same order."""
        if self.source is not None:
            return self.source.haystack_id
        content = json.dumps([self.document_ids, self.texts]).encode("ascii")
        return hashlib.sha256(content).hexdigest()

    @functools.cached_property
    def haystack(self) -> Haystack:
        """The corpus as a haystack, with queries as subtopics, for retrievers with `Retriever.rank`."""
        if self.source is not None:
            return self.source
        identity = self.corpus_id
        documents = (
            Document(identity, name, number, text, ())
            for number, (name, text) in enumerate(zip(self.document_ids, self.texts, strict=True), start=1)
        )
        return Haystack(
            haystack_id=identity,
            name=self.name,
            topic_id="",
            topic=self.topic,
            domain="generic",
            participants=(),
            documents=tuple(documents),
            subtopics=tuple(Subtopic(identity, one.query_id, place, "", "", one.text) for place, one in enumerate(self.queries)),
            insights=(),
            released_scores={one.query_id: one.stored for one in self.queries},
        )


def with_title(title: str, text: str) -> str:
    """Return a document's text with its title before it, as BEIR's own loaders pass it to retrievers."""
    return f"{title} {text}".strip() if title else text


def corpus_of(haystack: Haystack) -> Corpus:
    """Convert a haystack to a corpus. Subtopics become queries; a document's grade is the number of the subtopic's insights in
    it."""
    return Corpus(
        name=haystack.name,
        document_ids=tuple(document.document_id for document in haystack.documents),
        texts=tuple(document.text for document in haystack.documents),
        queries=tuple(query_of(subtopic, haystack) for subtopic in haystack.subtopics),
        topic=haystack.topic,
        source=haystack,
    )


def query_of(subtopic: Subtopic, haystack: Haystack) -> Query:
    """Convert a subtopic to a query. The search text is the query and the subtopic, joined by a space."""
    n_insights_of = zip(haystack.documents, haystack.oracle_scores(subtopic.subtopic_id), strict=True)
    return Query(
        query_id=subtopic.subtopic_id,
        text=subtopic.search_text,
        gold={document.document_id: float(n_insights) for document, n_insights in n_insights_of if n_insights},
        stored=haystack.released_scores.get(subtopic.subtopic_id, {}),
    )


@dataclass(eq=False)
class PerCorpus(Generic[T]):
    """A thread-safe cache of `build(corpus)`, such as an index, by corpus_id (a content hash). It keeps the `kept` most recently
    used corpora."""

    build: Callable[[Corpus], T]
    kept: int = 4
    _made: OrderedDict[str, T] = field(init=False, default_factory=OrderedDict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __call__(self, corpus: Corpus) -> T:
        with self._lock:
            if corpus.corpus_id not in self._made:
                self._made[corpus.corpus_id] = self.build(corpus)
                while len(self._made) > self.kept:
                    self._made.popitem(last=False)
            self._made.move_to_end(corpus.corpus_id)
            return self._made[corpus.corpus_id]
