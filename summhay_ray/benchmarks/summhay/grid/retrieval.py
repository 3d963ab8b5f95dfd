"""The benchmark `retrieval`: rank the documents of haystacks or BEIR corpora, and measure the rankings (paper, section 5.1)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from pydantic import Field, model_validator

from summhay_ray import retrieve
from summhay_ray.benchmark import Inputs, Results, RunStore, RunTables, Store, Text
from summhay_ray.benchmarks import retrieval
from summhay_ray.benchmarks.retrieval.entries import RunEntry
from summhay_ray.benchmarks.summhay.grid.grid import check_retrievers_of
from summhay_ray.benchmarks.summhay.haystacks.metadata import BY_NAME, FIELDS_OF_HAYSTACKS, keep_metadata, objects_of_haystacks
from summhay_ray.benchmarks.summhay.haystacks.sources import Haystacks, by_store, expand_entries, haystack_warnings, haystacks_of
from summhay_ray.errors import SpecError
from summhay_ray.text import semantic_hash


class RetrievalSpec(retrieval.RetrievalFields):
    """The spec of a run that ranks haystacks x queries x retrievers and writes no summary."""

    kind: str = Field(default="retrieval", description="the benchmark: its name")
    haystacks: list[str] = Field(
        default=[],
        description="released JSON or nuggets files, relative to the spec's folder; sample/NAME, hub:OWNER/NAME or store/SHA256",
    )
    documents: str = Field(default="", description="the folder of the documents that files of nuggets refer to")
    corpora: list[Text] = Field(
        default=[], description="BEIR folders, relative to the spec's folder: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv"
    )
    split: Text | list[Text] | None = Field(
        default=None, description="the split of the BEIR folders; several are pooled; by default test, or a folder's only split"
    )
    ignore_identical_ids: bool = Field(
        default=True, description="BEIR folders: leave a document out of the ranking of the query with the same id, as BEIR does"
    )
    qrels: Text | None = Field(
        default=None,
        description="TREC qrels, relative to the spec's folder, with gold documents that replace the corpora's own; with run "
        "files alone, no corpus is needed",
    )

    @model_validator(mode="after")
    def _has_corpora(self) -> RetrievalSpec:
        if self.haystacks or self.corpora:
            return self
        if self.qrels is None:
            raise ValueError("haystacks: is empty; name haystacks, or BEIR folders as corpora, or qrels for run files")
        if others := [retrieval.retriever_label(one) for one in self.retrievers if not isinstance(one, RunEntry)]:
            raise ValueError(
                f"retrievers: {others[0]!r} needs a corpus; name haystacks or corpora, or measure run files: {{run: FILE}}"
            )
        return self


class _Known(NamedTuple):
    """A corpus that is not a haystack."""

    folder: str
    """The BEIR folder as written in the spec; empty for the documents of run files."""
    queries: Sequence[str]
    """Ids of the queries."""
    digest: str
    """Hash of its queries and their gold documents."""


NOTES = "notes"
"""The field of a run's record with notes on the corpora's judgments."""


class HaystackCorpora(retrieval.Corpora):
    """The haystacks and BEIR folders of a spec."""

    def __init__(self, spec: RetrievalSpec, inputs: Inputs, haystacks: Haystacks) -> None:
        self.spec, self.inputs, self.haystacks = spec, inputs, haystacks
        self._corpus = functools.lru_cache(maxsize=2)(self._read_corpus)
        self._judged = functools.lru_cache(maxsize=2)(self._read_folder)

    def queries(self) -> Mapping[str, Sequence[str]]:
        """See `Corpora`. If the spec has qrels, returns only the queries that they judge; otherwise, the queries that some
        document answers."""
        judged = None if self.qrels is None else self.qrels.grades.keys()
        own = {
            one.haystack_id: [
                subtopic.subtopic_id
                for subtopic in one.subtopics
                if (
                    not subtopic.absent
                    if judged is None
                    else not judged.isdisjoint(retrieve.query_names(one.name, one.haystack_id, subtopic.subtopic_id))
                )
            ]
            for one in self.haystacks.metadata
        }
        return {**own, **{corpus_id: known.queries for corpus_id, known in self.folders.items()}}

    def names(self) -> set[str]:
        """All names under which qrels may judge a query of the corpora, whether or not the query is asked."""
        named = [(one.name, one.haystack_id, topic.subtopic_id) for one in self.haystacks.metadata for topic in one.subtopics]
        for corpus_id, known in self.folders.items():
            named += [(known.folder.rstrip("/").rpartition("/")[2], corpus_id, query) for query in known.queries]
        return {name for place in named for name in retrieve.query_names(*place)}

    def corpus(self, corpus_id: str) -> retrieve.Corpus:
        return self._corpus(corpus_id)[0]

    def _read_corpus(self, corpus_id: str) -> tuple[retrieve.Corpus, list[str]]:
        if corpus_id in self.folders:
            return self._judged(self.folders[corpus_id].folder)
        haystack = self.haystacks[corpus_id]
        corpus = retrieve.corpus_of(haystack)
        if self.qrels is not None:
            return retrieve.with_qrels(corpus, self.qrels)
        absent = {subtopic.subtopic_id for subtopic in haystack.subtopics if subtopic.absent}
        return replace(corpus, queries=tuple(query for query in corpus.queries if query.query_id not in absent)), []

    def notes(self) -> list[str]:
        """Notes on the corpora's judgments, one sentence each."""
        return [note for corpus_id in self.folders for note in self._corpus(corpus_id)[1]]

    @functools.cached_property
    def qrels(self) -> retrieve.Qrels | None:
        """The spec's qrels, or None. Raises SpecError."""
        name = self.spec.qrels
        try:
            return None if name is None else retrieve.read_qrels(self.inputs.text(name), name)
        except retrieve.BadTrec as error:
            raise SpecError(f"spec: qrels: {error}") from error

    def relevance(self) -> str:
        return self.inputs.digests[self.spec.qrels] if self.spec.qrels else ""

    def queries_identity(self, corpus_id: str) -> str:
        """See `Corpora`. Empty for a haystack, whose id is also a hash of its queries and insights."""
        return self.folders[corpus_id].digest if corpus_id in self.folders else ""

    @functools.cached_property
    def folders(self) -> Mapping[str, _Known]:
        """corpus_id of a BEIR folder, or of run files without a corpus -> what a run stores about it. Raises SpecError."""
        spec, known = self.spec, dict[str, _Known]()
        for index, folder in enumerate(spec.corpora if spec.corpora or spec.haystacks else [""]):
            corpus, _ = self._judged(folder)
            queries: list[Any] = [(query.query_id, query.text, dict(query.gold), query.references) for query in corpus.queries]
            # The option matters only for a corpus in which a query has the id of a document. Other corpora keep their identity.
            digest = semantic_hash([*queries, *(["ignore_identical_ids"] if corpus.ignore_identical_ids else [])])
            found = _Known(folder, [query.query_id for query in corpus.queries], digest)
            if (other := known.setdefault(corpus.corpus_id, found).folder) != folder:
                raise SpecError(f"spec: corpora[{index}]: {folder!r} has the same documents as {other!r}; remove one")
        return known

    def _read_folder(self, folder: str) -> tuple[retrieve.Corpus, list[str]]:
        """Return (the corpus of a BEIR folder with its judged queries, notes on the judgments). If `folder` is empty, the
        corpus is that of the run files."""
        spec, text = self.spec, self.inputs.text
        try:
            if not folder:
                assert self.qrels is not None, "a spec without corpora has qrels"
                return retrieve.with_qrels(
                    retrieve.corpus_of_runs(
                        (retrieve.read_run(text(name), name) for name in retrieval.files(spec.retrievers)), self.qrels
                    ),
                    self.qrels,
                )
            name = folder.rstrip("/").rpartition("/")[2]
            own = [retrieve.read_beir_qrels(text(f"{folder}/{path}"), f"{name}/{path}") for path in self.judgments(folder)]
            corpus = retrieve.read_beir(lambda path: text(f"{folder}/{path}"), name)
            qrels = retrieve.Qrels.pool(own) if self.qrels is None else self.qrels
            if self.qrels is None and (strangers := qrels.grades.keys() - {query.query_id for query in corpus.queries}):
                raise retrieve.BadTrec(f"{qrels.name}: query {min(strangers)!r} is not in {retrieve.QUERIES}; remove its lines")
            corpus, notes = retrieve.with_qrels(corpus, qrels, spec.ignore_identical_ids)
            if own and not corpus.queries:
                raise retrieve.BadTrec(f"{qrels.name}: judges no query; name another split")
            if not spec.split and own and retrieve.QRELS not in qrels.name:
                notes.insert(0, f"{name}: measured by {qrels.name}, its only split")
            return corpus, notes
        except retrieve.BadTrec as error:
            raise SpecError(f"spec: {'corpora' if folder else 'retrievers'}: {error}") from error

    def judgments(self, folder: str) -> list[str]:
        """Return the paths of the judgments used in a BEIR folder; empty if the spec has qrels. Raises SpecError."""
        inputs, split, names = self.inputs, self.spec.split, f"{folder}/qrels/"
        if inputs.settled:
            return sorted(name.removeprefix(f"{folder}/") for name in inputs.digests if name.startswith(names))
        place = inputs.path(folder)
        if not (place / retrieve.CORPUS).exists():
            mend = f"of documents without queries, summhay mine {folder} --out mine.json makes a haystack"
            raise SpecError(f"spec: corpora: {folder} is no BEIR folder: it has no {retrieve.CORPUS}; {mend}")
        if self.qrels is not None:
            return []
        there = sorted(one.stem for one in (place / "qrels").glob("*.tsv"))
        chosen = [split] if isinstance(split, str) else split or (["test"] if "test" in there or len(there) != 1 else there)
        if lacking := [one for one in chosen if one not in there]:
            mend = f"write split: {' or '.join(there)}" if there else "put qrels/test.tsv there, or name qrels: FILE"
            raise SpecError(f"spec: corpora: {folder} has no qrels/{lacking[0]}.tsv; {mend}")
        return [f"qrels/{one}.tsv" for one in chosen]


class HaystackRetrieval(retrieval.Retrieving[RetrievalSpec]):
    """Ranks every haystack and BEIR corpus with every retriever."""

    kind = "retrieval"
    tables = (*retrieval.Retrieving.tables, BY_NAME["failures"])
    record_fields: ClassVar[Mapping[str, Any]] = {
        **retrieval.Retrieving.record_fields,
        **FIELDS_OF_HAYSTACKS,
        retrieval.UNORDERED: list[str] | None,
        NOTES: list[str],
    }

    def __init__(self, spec: RetrievalSpec, inputs: Inputs) -> None:
        super().__init__(expand_entries(spec, inputs), inputs)
        self.haystacks = haystacks_of(self.spec.haystacks, inputs, self.spec.documents)
        if inputs.record is None:
            check_retrievers_of(self.retrievers, self.haystacks.metadata)
            corpora, spec = self.corpora, self.spec
            if (
                corpora.qrels
                and (spec.haystacks or spec.corpora)
                and (strangers := corpora.qrels.grades.keys() - corpora.names())
            ):
                raise SpecError(f"spec: qrels: {spec.qrels}: no corpus has a query {min(strangers)!r}; remove its lines")

    @functools.cached_property
    def corpora(self) -> HaystackCorpora:
        return HaystackCorpora(self.spec, self.inputs, self.haystacks)

    def warnings(self) -> Sequence[str]:
        return [*haystack_warnings(self.haystacks), *self.corpora.notes()]

    def results(self, tables: RunTables) -> Results:
        """See `Workload`. Adds notes on the judgments."""
        results = super().results(tables)
        return replace(results, warnings=(*results.warnings, *tables.run.record.get(NOTES, ())))

    def record(self, store: Store) -> dict[str, Any]:
        spec, folders = self.spec, self.spec.corpora
        beir = [
            f"{folder}/{path}"
            for folder in folders
            for path in (retrieve.CORPUS, retrieve.QUERIES, *self.corpora.judgments(folder))
        ]
        named = [*retrieval.files(spec.retrievers), *beir, *([spec.qrels] if spec.qrels else ())]
        self.haystacks.keep(store)
        return {
            "spec": spec.model_dump(mode="json"),
            "inputs": self.inputs.keep(store, named),
            **keep_metadata(store, self.haystacks.metadata),
            retrieval.UNORDERED: sorted(self.retrievers.unordered),
            NOTES: self.corpora.notes(),
        }

    def by_store(self) -> Mapping[str, str]:
        return by_store(self.spec.haystacks, self.haystacks)

    def keep_by_store(self, store: Store) -> None:
        self.haystacks.keep(store)

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        yield from super().objects(run)
        yield from objects_of_haystacks(run.record)
