"""What every workload has whose spec has `retrievers`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from summhay_ray import retrieve
from summhay_ray.benchmark import Ask, Inputs, ModelSpec, Spec, SpecError, semantic_hash
from summhay_ray.benchmarks.retrieval.asked_models import AskedModels, drawn
from summhay_ray.benchmarks.retrieval.entries import (
    Entry,
    identity_of,
    make_retriever,
    retriever_label,
    retrievers_models,
    services,
    settled,
)
from summhay_ray.benchmarks.retrieval.stored_models import Computing, NotComputed, StoredModels
from summhay_ray.errors import UserError
from summhay_ray.retrieve import Corpus, Query, Ranked

S = TypeVar("S", bound=Spec)


class WithRetrievers:
    """A workload whose spec has `retrievers`."""

    spec: Any
    inputs: Inputs

    @functools.cached_property
    def retrievers(self) -> dict[str, str | Entry]:
        """What tables call each retriever -> its entry in the spec."""
        return {retriever_label(entry): entry for entry in self.spec.retrievers}

    @functools.cached_property
    def made(self) -> dict[str, Any]:
        """What tables call each retriever -> the retriever."""
        return {label: make_retriever(entry, self.spec.seed, self.run_file) for label, entry in self.retrievers.items()}

    def is_whole(self, retriever: str) -> bool:
        """Whether a retriever's ranking is the corpus itself, in no order of its own."""
        return bool(self.made[retriever].whole)

    @functools.cached_property
    def services(self) -> Mapping[str, ModelSpec]:
        """Model -> how it is asked, of the retrievers' models that somebody serves."""
        return services(self.spec.retrievers)

    @functools.cached_property
    def asking(self) -> frozenset[str]:
        """The retrievers that ask: their rankings are made while an item is answered, and not before."""
        return frozenset(label for label, entry in self.retrievers.items() if services([entry]))

    @functools.cached_property
    def models(self) -> StoredModels:
        """The retrievers' models in this process."""
        return StoredModels(self.inputs.store, Computing.of(self.spec.resources))

    @functools.cached_property
    def known_models(self) -> StoredModels:
        """As `models`, but nothing is computed: for planning."""
        return StoredModels(self.inputs.store, None)

    def rankings(self, corpus: Corpus, retriever: str, queries: Sequence[Query] | None = None) -> list[list[Ranked]]:
        """A ranking a query, of all queries where none are named, by a retriever that asks nobody."""
        return retrieve.rankings(self.made[retriever], corpus, queries, self.models)

    def planned_rankings(self, corpus: Corpus, retriever: str, queries: Sequence[Query] | None = None) -> list[list[Ranked]]:
        """The rankings, or, where it takes vectors that nobody has computed yet, the documents in any order."""
        wanted = corpus.queries if queries is None else queries
        try:
            return retrieve.rankings(self.made[retriever], corpus, wanted, self.known_models)
        except NotComputed:
            # Another order for each retriever and query, as it will be: what is asked of equal contexts is one question.
            ids = corpus.document_ids
            return [retrieve.by_score([drawn(retriever, query.query_id, one) for one in ids]) for query in wanted]

    async def asked_rankings(
        self, ask: Ask, corpus: Corpus, retriever: str, queries: Sequence[Query] | None = None
    ) -> list[list[Ranked]]:
        """A ranking a query, by a retriever that asks. Raises NoReply."""
        here = self.known_models if ask.planning else self.models
        wanted = corpus.queries if queries is None else queries
        return await retrieve.rank_all(self.made[retriever], AskedModels(ask, self.services, here), wanted, corpus)

    @functools.cached_property
    def computing_retrievers(self) -> frozenset[str]:
        """The retrievers whose rankings need models in this process, and ask nobody."""
        return frozenset(label for label, made in self.made.items() if label not in self.asking and retrievers_models([made]))

    def corpora_to_compute(self, wanted: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
        """(corpus, retriever) of items -> a part for each corpus whose rankings need models in this process."""
        found: dict[str, dict[str, None]] = {}
        for corpus_id, retriever in wanted:
            if retriever in self.computing_retrievers:
                found.setdefault(corpus_id, {})[retriever] = None
        return [{"corpus": corpus_id, "retrievers": list(names)} for corpus_id, names in found.items()]

    def run_file(self, path: str) -> str:
        """The text of a file of rankings that the spec names."""
        return self.inputs.text(path)

    def known(self, retriever: str) -> Any:
        """What makes a retriever the one that it is."""
        return identity_of(self.retrievers[retriever], self.inputs.digests())

    def known_retrievers(self) -> list[Any]:
        """What makes the run's retrievers the ones that they are, whatever the order in which the spec lists them."""
        return sorted(map(self.known, self.retrievers), key=_in_order)


def _in_order(known: Any) -> tuple[bool, str]:
    """How what is known of retrievers is sorted: names by themselves, before mappings."""
    return (False, known) if isinstance(known, str) else (True, semantic_hash(known))


def with_retrievers(spec: S, inputs: Inputs) -> S:
    """The spec with its retrievers as they are here: folders of models by their content, files read. Raises SpecError."""
    try:
        return spec.model_copy(update={"retrievers": settled(spec.retrievers, inputs)})  # type: ignore[attr-defined]
    except UserError as error:
        raise SpecError(f"spec: retrievers: {error}") from error


def check_retrievers(entries: Any) -> None:
    """Raises ValueError where two retrievers would have one name in the tables."""
    labels = [retriever_label(entry) for entry in entries]
    for index, (entry, label) in enumerate(zip(entries, labels, strict=True)):
        if label in labels[:index]:
            mend = "remove one" if isinstance(entry, str) else "give one of them another name: NAME"
            raise ValueError(f"retrievers: {label!r} is listed twice; {mend}")
    services(entries)
