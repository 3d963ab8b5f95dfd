"""A collection: documents, and queries with gold documents and reference summaries (ODSum, section 3)."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from summhay_ray.errors import UserError
from summhay_ray.retrieve import Corpus, query_flaw
from summhay_ray.retrieve import Query as Searched
from summhay_ray.text import parsed_json

_UNSAFE = re.compile(r"[^\w.+,()=@-]+")
SHOWN = 5
"""Number of names that a warning lists; it also gives the total."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document of the collection."""

    document_id: str
    text: str = field(repr=False)
    split: str = ""
    """train, dev or test; empty if documents have no split."""
    title: str = ""
    """The title in a BEIR folder, otherwise empty. `text` begins with it."""

    @property
    def blank(self) -> bool:
        return not self.text.strip()


@dataclass(frozen=True, slots=True)
class Query:
    """A query of the collection."""

    query_id: str
    text: str
    references: tuple[str, ...] = ()
    """Reference summaries. The summaries of a query without any are not scored."""
    gold: tuple[str, ...] = ()
    """Ids of the documents that the answer needs, in the source's order; empty if unknown."""
    split: str = ""


@dataclass(frozen=True)
class Collection:
    """Documents and queries, both in the source's order, which also breaks ties between documents."""

    name: str
    documents: tuple[Document, ...] = field(repr=False)
    queries: tuple[Query, ...] = field(repr=False)
    attribution: str = ""
    """Source and licence of the texts, shown in reports and exports."""
    n_dropped: int = 0
    """Number of blank documents that were removed."""
    warnings: tuple[str, ...] = ()

    def of_splits(self, splits: Sequence[str] | None) -> Collection:
        """Keep only the queries of these splits (None: all). All documents are kept, since retrieval searches them. Raises
        ValueError for a split without queries."""
        there = dict.fromkeys(query.split for query in self.queries if query.split)
        for split in splits or ():
            if split not in there:
                raise ValueError(
                    f"splits: no query belongs to {split!r}; splits of this collection: {', '.join(there) or 'none'}"
                )
        return self if splits is None else replace(self, queries=tuple(query for query in self.queries if query.split in splits))

    def drop_blank(self) -> Collection:
        """Remove blank documents from the collection, also from `gold`."""
        blank = {document.document_id for document in self.documents if document.blank}
        kept = tuple(document for document in self.documents if not document.blank)
        queries = tuple(replace(query, gold=tuple(name for name in query.gold if name not in blank)) for query in self.queries)
        return replace(self, documents=kept, queries=queries, n_dropped=len(blank), warnings=_flaws(kept, queries, len(blank)))

    @functools.cached_property
    def by_id(self) -> Mapping[str, Query]:
        return {query.query_id: query for query in self.queries}

    @functools.cached_property
    def corpus(self) -> Corpus:
        """Return the collection as a corpus for retrievers.

        A query's gold documents are graded by their position, so that the oracle keeps the source's order. Metrics treat every
        grade above 0 as relevant.
        """
        return Corpus(
            name=self.name,
            document_ids=tuple(document.document_id for document in self.documents),
            texts=tuple(document.text for document in self.documents),
            queries=tuple(
                Searched(
                    query.query_id,
                    query.text,
                    {name: float(len(query.gold) - index) for index, name in enumerate(query.gold)},
                    references=query.references,
                    split=query.split,
                )
                for query in self.queries
            ),
            titles=tuple(document.title for document in self.documents),
        )

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=True, separators=(",", ":")).encode("ascii")

    @classmethod
    def from_bytes(cls, content: bytes) -> Collection:
        """Read what `to_bytes` wrote. Raises ValueError, TypeError or KeyError for other content."""
        fields: dict[str, Any] = parsed_json(content)
        queries = tuple(
            Query(**{**query, "references": tuple(query["references"]), "gold": tuple(query["gold"])})
            for query in fields["queries"]
        )
        documents = tuple(Document(**document) for document in fields["documents"])
        return cls(**{**fields, "documents": documents, "queries": queries, "warnings": tuple(fields["warnings"])})

    def files(self) -> dict[str, str]:
        """Return a folder that `read_collection` reads, as a mapping from path to text, with the attribution. Raises
        UserError if file names clash."""
        files = {f"documents/{as_file_name(document.document_id)}.txt": document.text for document in self.documents}
        if len(files) < len(self.documents):
            raise UserError("two document ids map to the same file name; use ids of letters and digits")
        named = {document.document_id: as_file_name(document.document_id) for document in self.documents}
        rows = [
            {
                "query_id": query.query_id,
                "text": query.text,
                "references": list(query.references),
                "gold": [named.get(name, name) for name in query.gold],
                "split": query.split,
            }
            for query in self.queries
        ]
        files["queries.jsonl"] = json_lines(rows)
        if self.attribution:
            files["ATTRIBUTION"] = f"{self.attribution}\n"
        return files

    @functools.cached_property
    def digest(self) -> str:
        """Return the sha256 (hex) of documents and queries. It does not depend on the collection's name or location."""
        documents = [{name: value for name, value in asdict(document).items() if name != "title"} for document in self.documents]
        content = [documents, [asdict(query) for query in self.queries]]
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode("ascii")).hexdigest()


def as_file_name(name: str) -> str:
    """Replace the characters that a file name may not have by `_`."""
    return _UNSAFE.sub("_", name)


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def check_collection(name: str, documents: Sequence[Document], queries: Sequence[Query], attribution: str = "") -> Collection:
    """Return a collection with warnings about its flaws. Raises ValueError for a duplicate id, a query that is too long, or
    no documents."""
    for what, ids in (
        ("document", [document.document_id for document in documents]),
        ("query", [query.query_id for query in queries]),
    ):
        seen: set[str] = set()
        for one in ids:
            if one in seen:
                raise ValueError(f"two {'documents' if what == 'document' else 'queries'} have the id {one!r}; give each its own")
            seen.add(one)
    for query in queries:
        if flaw := query_flaw(query.text):
            raise ValueError(f"query {query.query_id!r}: {flaw}")
    if not documents:
        raise ValueError("the collection has no documents; expected at least one")
    return Collection(Path(name).name, tuple(documents), tuple(queries), attribution, warnings=_flaws(documents, queries, 0))


def _flaws(documents: Sequence[Document], queries: Sequence[Query], n_dropped: int) -> tuple[str, ...]:
    """Return the warnings of a collection. They are stored with it, so rewording one changes the collection's store/SHA256."""
    blank = {document.document_id for document in documents if document.blank}
    known = {document.document_id for document in documents}
    ids_by_text: dict[str, list[str]] = {}
    for document in documents:
        if not document.blank:
            ids_by_text.setdefault(document.text.strip(), []).append(document.document_id)
    repeated = [ids[0] for ids in ids_by_text.values() if len(ids) > 1]
    absent = sorted({name for query in queries for name in query.gold} - known)
    example = f" ({absent[0]!r}; an id is a file's name without .txt)" if absent else ""
    flaws = {
        f"{n_dropped} blank documents were dropped, from gold too": [""] * n_dropped,
        f"{len(blank)} of {len(documents)} documents are blank; drop_blank: true takes them out": sorted(blank),
        "gold points at a blank document": [query.query_id for query in queries if blank.intersection(query.gold)],
        f"gold names a document that is not there{example}": [
            query.query_id for query in queries if not known.issuperset(query.gold)
        ],
        "no gold document: retrieval is not scored": [query.query_id for query in queries if not query.gold],
        "no reference: no summary is scored against one": [
            query.query_id for query in queries if not any(map(str.strip, query.references))
        ],
        "the same text as another document": repeated,
    }
    warnings = []
    for what, names in flaws.items():
        some = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
        if not any(names):
            warnings += [what] if names else []
        elif what.startswith(f"{len(names)} "):
            warnings.append(f"{what}: {some}")
        else:
            warnings.append(f"{what}: {len(names)} ({some})")
    return tuple(warnings)
