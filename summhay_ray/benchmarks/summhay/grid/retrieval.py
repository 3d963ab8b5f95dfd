"""The benchmark `retrieval`: rank the documents of haystacks or BEIR corpora, and measure the rankings (paper, section 5.1)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from pydantic import Field, model_validator

from summhay_ray.benchmark import Inputs, Part, Planner, RunStore, SpecError, Store, Text, semantic_hash
from summhay_ray.benchmarks.retrieval import UNORDERED, Corpora, RetrievalFields, Retrieving, files
from summhay_ray.benchmarks.retrieval.retrieval_run import RetrievingStorage
from summhay_ray.benchmarks.summhay.grid.checks import check_retrievers_of
from summhay_ray.benchmarks.summhay.haystacks.metadata import FIELDS_OF_HAYSTACKS, objects_of_haystacks
from summhay_ray.benchmarks.summhay.haystacks.read_haystacks import by_store, doubts_of, haystacks_of, with_made
from summhay_ray.benchmarks.summhay.haystacks.tables import BY_NAME
from summhay_ray.benchmarks.summhay.spec import SummhaySpec
from summhay_ray.plugins import unknown
from summhay_ray.retrieve import (
    CORPUS,
    QRELS,
    QUERIES,
    BadTrec,
    Corpus,
    corpus_of,
    query_names,
    read_beir,
    read_qrels,
    with_qrels,
)


class RetrievalSpec(RetrievalFields):
    """Spec of a run that ranks haystacks x queries x retrievers and writes no summary."""

    kind: str = Field(default="retrieval", description="the benchmark: its name")
    haystacks: list[str] = Field(
        default=[], description="released JSON files from the spec's folder, sample/NAME, or store/SHA256/NAME"
    )
    corpora: list[Text] = Field(
        default=[], description="BEIR folders from the spec's folder: corpus.jsonl, queries.jsonl, qrels/test.tsv"
    )

    qrels: Text | None = Field(
        default=None,
        description="TREC qrels from the spec's folder: gold documents instead of the corpora's own",
    )

    @model_validator(mode="after")
    def _has_corpora(self) -> RetrievalSpec:
        if not self.haystacks and not self.corpora:
            raise ValueError("haystacks: is empty; name haystacks, or BEIR folders as corpora")
        return self


class _Beir(NamedTuple):
    """A BEIR folder."""

    folder: str
    """As written in the spec."""
    queries: Sequence[str]
    """Ids."""
    digest: str
    """Hash of its queries and their gold documents."""


class HaystackRetrievalStorage(RetrievingStorage["HaystackRetrieval"]):
    fields: ClassVar[Mapping[str, Any]] = {**RetrievingStorage.fields, **FIELDS_OF_HAYSTACKS, UNORDERED: list[str] | None}

    def record(self, store: Store) -> dict[str, Any]:
        return {
            "spec": self.workload.spec.model_dump(mode="json"),
            "inputs": self.workload.inputs.keep(store, self.workload._files()),
            **self.workload.haystacks.recorded(store),
            UNORDERED: sorted(self.workload.retrievers.unordered),
        }

    def by_store(self) -> Mapping[str, str]:
        return by_store(self.workload.spec.haystacks, self.workload.haystacks)

    def keep_by_store(self, store: Store) -> None:
        self.workload.haystacks.keep(store)

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        """See `Storage`: the haystacks and their metadata."""
        yield from super().objects(run)
        yield from objects_of_haystacks(run.record)


class HaystackRetrievalPlanner(Planner["HaystackRetrieval"]):
    def doubts(self) -> Sequence[str]:
        return doubts_of(self.workload.haystacks)


class HaystackCorpora(Corpora["HaystackRetrieval"]):
    def queries(self) -> Mapping[str, Sequence[str]]:
        own = {one.haystack_id: [subtopic.subtopic_id for subtopic in one.subtopics] for one in self.workload.haystacks.metadata}
        return {**own, **{corpus_id: known.queries for corpus_id, known in self.folders.items()}}

    def corpus(self, corpus_id: str) -> Corpus:
        return self._corpus(corpus_id)

    @functools.cached_property
    def _corpus(self) -> Callable[[str], Corpus]:
        def read(corpus_id: str) -> Corpus:
            known = self.folders
            found = self._read(known[corpus_id].folder) if corpus_id in known else corpus_of(self.workload.haystacks[corpus_id])
            return with_qrels(found, self.qrels) if self.qrels else found

        return functools.lru_cache(maxsize=2)(read)

    @functools.cached_property
    def qrels(self) -> Mapping[str, Mapping[str, float]]:
        """The spec's qrels; empty without. Raises SpecError."""
        if self.workload.spec.qrels is None:
            return {}
        try:
            return read_qrels(self.workload.inputs.text(self.workload.spec.qrels), self.workload.spec.qrels)
        except BadTrec as error:
            raise SpecError(f"spec: qrels: {error}") from error

    def relevance(self) -> str:
        return self.workload.inputs.digests()[self.workload.spec.qrels] if self.workload.spec.qrels else ""

    def queries_identity(self, corpus_id: str) -> str:
        """See `Corpora`. A haystack's id is a hash of its queries and insights, too."""
        return self.folders[corpus_id].digest if corpus_id in self.folders else ""

    @functools.cached_property
    def folders(self) -> Mapping[str, _Beir]:
        """corpus_id of a BEIR folder -> what a run keeps of it. Raises SpecError."""
        known: dict[str, _Beir] = {}
        for index, folder in enumerate(self.workload.spec.corpora):
            corpus = self._read(folder)
            queries = [(query.query_id, query.text, dict(query.gold), query.references) for query in corpus.queries]
            beir = _Beir(folder, [query.query_id for query in corpus.queries], semantic_hash(queries))
            if (other := known.setdefault(corpus.corpus_id, beir).folder) != folder:
                raise SpecError(f"spec: corpora[{index}]: {folder!r} has the same documents as {other!r}; remove one")
        return known

    def _read(self, folder: str) -> Corpus:
        try:
            if (
                (place := self.workload.inputs.folder / folder).is_dir()
                and not (place / CORPUS).exists()
                and not self.workload.inputs.settled
            ):
                mend = f"of documents without queries, summhay mine {folder} --out mine.json makes a haystack"
                raise SpecError(f"spec: corpora: {folder} is no BEIR folder: it has no {CORPUS}; {mend}")
            return self._read_beir(folder)
        except BadTrec as error:
            raise SpecError(f"spec: corpora: {error}") from error

    @functools.cached_property
    def _read_beir(self) -> Callable[[str], Corpus]:
        def read(folder: str) -> Corpus:
            return read_beir(lambda path: self.workload.inputs.text(f"{folder}/{path}"), _folder_name(folder))

        return functools.lru_cache(maxsize=2)(read)


class HaystackRetrieval(Retrieving[RetrievalSpec]):
    """Every retriever on every haystack and BEIR corpus."""

    kind = "retrieval"
    tables = (*Retrieving.tables, BY_NAME["failures"])
    storage = Part(HaystackRetrievalStorage)
    planner = Part(HaystackRetrievalPlanner)
    corpora = Part(HaystackCorpora)

    def __init__(self, spec: RetrievalSpec, inputs: Inputs) -> None:
        super().__init__(with_made(spec, inputs), inputs)
        self.haystacks = haystacks_of(self.spec.haystacks, inputs)
        if inputs.record is None:
            check_retrievers_of(self.retrievers, self.haystacks.metadata)
            self._check_qrels()

    def _check_qrels(self) -> None:
        """Raises SpecError for a query of the qrels that no corpus has."""
        if qrels := self.corpora.qrels:
            named = {haystack.haystack_id: haystack.name for haystack in self.haystacks.metadata}
            named |= {corpus_id: _folder_name(known.folder) for corpus_id, known in self.corpora.folders.items()}
            corpora = self.corpora.queries().items()
            known = {name for corpus_id, ids in corpora for one in ids for name in query_names(named[corpus_id], corpus_id, one)}
            if strangers := qrels.keys() - known:
                raise SpecError(f"spec: qrels: {self.spec.qrels}: no corpus has a query {min(strangers)!r}; remove its lines")

    def _files(self) -> list[str]:
        beir = [f"{folder}/{path}" for folder in self.spec.corpora for path in (CORPUS, QUERIES, QRELS)]
        return [*files(self.spec.retrievers), *beir, *([self.spec.qrels] if self.spec.qrels else ())]


def _folder_name(folder: str) -> str:
    return folder.rstrip("/").rpartition("/")[2]


class GridCorpora(Corpora[Any]):
    @classmethod
    def alone(cls, fields: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """Those fields of a SummHay spec that a retrieval spec has too. Raises SpecError for a field that neither kind has."""
        own, others = RetrievalSpec.model_fields, SummhaySpec.model_fields
        for name in fields:
            if name not in own and name not in others:
                raise SpecError(f"{where}: {unknown('field', name, {*own, *others})}")
        return {**{name: value for name, value in fields.items() if name in own}, "kind": HaystackRetrieval.kind}
