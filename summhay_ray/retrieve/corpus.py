"""What retrievers search: ordered documents, and queries that may know their relevant documents. Part of the `retrieve` room."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from summhay_ray.records import Haystack, Subtopic


@dataclass(frozen=True, slots=True)
class Query:
    """A question to a corpus."""

    query_id: str
    """Unique within its corpus."""
    text: str
    """What is searched for."""
    gold: Mapping[str, float] = field(default_factory=dict)
    """document_id -> how relevant the document is, above 0; empty where nobody knows."""
    stored: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Retriever name -> document_id -> score, as the source stores them."""
    references: tuple[str, ...] = ()
    """What a right answer says, where the source has some; no retriever reads it."""


@dataclass(frozen=True)
class Corpus:
    """Documents in their order, by which ties are broken, and the queries that are put to them."""

    name: str
    document_ids: tuple[str, ...]
    texts: tuple[str, ...] = field(repr=False)
    """One a document."""
    queries: tuple[Query, ...] = field(default=(), repr=False)
    graded: bool = False
    """Whether a query's `gold` holds grades that nDCG weighs; otherwise a document is relevant or it is not."""
    topic: str = ""
    """What all documents are about: part of what random retrieval draws by."""
    source: Haystack | None = field(default=None, repr=False)
    """The haystack that the corpus is made of, where it is made of one."""
    titles: tuple[str, ...] = field(default=(), repr=False)
    """One a document, where documents have some: its text begins with it (see `titled`)."""

    def grades(self, query: Query) -> dict[str, float]:
        """Document -> how relevant it is to a query, as measures and files have it: 1 where relevance is yes or no."""
        return {name: grade if self.graded else 1.0 for name, grade in query.gold.items() if grade > 0}

    @functools.cached_property
    def corpus_id(self) -> str:
        """A content hash of the documents: corpora with one id have the same documents in the same order."""
        if self.source is not None:
            return self.source.haystack_id
        content = json.dumps([self.document_ids, self.texts]).encode("ascii")
        return hashlib.sha256(content).hexdigest()

    def as_haystack(self) -> Haystack:
        """The corpus as retrievers of a person's own see it that rank one subtopic of a haystack: a query is a subtopic."""
        return self.source or self._haystack

    @functools.cached_property
    def _haystack(self) -> Haystack:
        from summhay_ray.records import Document

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


def titled(title: str, text: str) -> str:
    """A document's text with its title before it, as BEIR's own loaders show it to retrievers."""
    return f"{title} {text}".strip() if title else text


def untitled(title: str, text: str) -> str:
    """A document's text without the title that `titled` put before it."""
    return text[len(title.lstrip()) :].removeprefix(" ") if title else text


def corpus_of(haystack: Haystack) -> Corpus:
    """A haystack as a corpus: its subtopics are the queries, and a document is as relevant as it holds insights of theirs."""
    return Corpus(
        name=haystack.name,
        document_ids=tuple(document.document_id for document in haystack.documents),
        texts=tuple(document.text for document in haystack.documents),
        queries=tuple(query_of(subtopic, haystack) for subtopic in haystack.subtopics),
        topic=haystack.topic,
        source=haystack,
    )


def query_of(subtopic: Subtopic, haystack: Haystack) -> Query:
    """A subtopic as a query: what retrieval searches for is the query and the subtopic, joined by a space."""
    held = zip(haystack.documents, haystack.oracle_scores(subtopic.subtopic_id), strict=True)
    return Query(
        query_id=subtopic.subtopic_id,
        text=subtopic.search_text,
        gold={document.document_id: float(n_insights) for document, n_insights in held if n_insights},
        stored=haystack.released_scores.get(subtopic.subtopic_id, {}),
    )
