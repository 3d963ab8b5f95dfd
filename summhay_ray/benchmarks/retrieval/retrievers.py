"""The retrievers that a run's spec names: makes them, ranks by them, and computes the vectors that they need."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from summhay_ray import retrieve
from summhay_ray.benchmark import Ask, Inputs, ModelSpec, NoReply, Rows, RunStore, Spec
from summhay_ray.benchmarks.retrieval.entries import (
    Entry,
    identity_of,
    local_parts,
    make_retriever,
    models_of,
    of_words,
    own_code,
    retriever_label,
    services,
    settled,
)
from summhay_ray.benchmarks.retrieval.service_models import EmbeddedTexts, LengthChanged, ServiceModels, placeholder
from summhay_ray.benchmarks.retrieval.stored_models import (
    Computing,
    Cut,
    NotComputed,
    Noting,
    RequestedTexts,
    StoredModels,
)
from summhay_ray.benchmarks.retrieval.tables import CUT_TEXTS, CutTexts
from summhay_ray.benchmarks.scripts import MEND_SCRIPT, unmatched
from summhay_ray.encoders import Encoding, Scoring
from summhay_ray.outcome import Failed
from summhay_ray.plugins import STOPS, error_line
from summhay_ray.retrieve import Corpus, Query, Ranked
from summhay_ray.text import semantic_hash

UNORDERED = "unordered"
"""The field of a run's record with the names of the retrievers whose ranking is the corpus itself."""

S = TypeVar("S", bound=Spec)


class Retrievers(Mapping[str, str | Entry]):
    """Name in tables -> the retriever's entry in the spec. Makes the retrievers, ranks with them, and computes their local
    models' vectors."""

    def __init__(self, spec: Any, inputs: Inputs) -> None:
        self._spec, self._inputs, self.seed = spec, inputs, spec.seed
        self._entries: dict[str, str | Entry] = {retriever_label(entry): entry for entry in spec.retrievers}

    def __getitem__(self, label: str) -> str | Entry:
        return self._entries[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @functools.cached_property
    def made(self) -> Callable[[str], Any]:
        """Name in tables -> the retriever, made on first use: user code is not imported earlier."""

        def make(label: str) -> Any:
            one = make_retriever(self[label], self.seed, self.run_file)
            for part in of_words(one):
                part.script = self._spec.script
            return one

        return functools.cache(make)

    def is_whole(self, retriever: str) -> bool:
        """Whether a retriever's ranking is the corpus itself, unordered."""
        return retriever in self.unordered

    @functools.cached_property
    def unordered(self) -> frozenset[str]:
        """Names of the retrievers whose ranking is the corpus itself. A stored run's record says this of user-defined ones."""
        record = self._inputs.record
        own = () if record is None else [label for label, entry in self.items() if own_code([entry])]
        kept = () if record is None else record.get(UNORDERED, ())
        return frozenset(label for label in self if (label in kept if label in own else self.made(label).whole))

    @functools.cached_property
    def services(self) -> Mapping[str, ModelSpec]:
        """Model name -> how to call it, for the retrievers' service models."""
        return services(self._spec.retrievers)

    @functools.cached_property
    def asking(self) -> frozenset[str]:
        """Names of the retrievers that call a service. Their rankings are made in `answer`, all others in `prepare`."""
        return frozenset(label for label, entry in self.items() if services([entry]))

    @functools.cached_property
    def encoders_here(self) -> list[Encoding | Scoring]:
        """The local models that the retrievers need, without repeats."""
        needed = (one for label in self for one in models_of(self.made(label)))
        return [one for one in dict.fromkeys(needed) if one.model not in self.services]

    @functools.cached_property
    def models(self) -> StoredModels:
        """The retrievers' local models."""
        return StoredModels(self._inputs.store, Computing.of(self._spec))

    @functools.cached_property
    def known_models(self) -> StoredModels:
        """Like `models`, but computes nothing: for planning."""
        return StoredModels(self._inputs.store, None)

    @functools.cached_property
    def embedded_texts(self) -> EmbeddedTexts:
        """Cache of the lists of texts that services embedded most recently."""
        return EmbeddedTexts()

    # --- rankings --------------------------------------------------------------------------------------------------------

    def rankings(self, corpus: Corpus, retriever: str, queries: Sequence[Query] | None = None) -> list[Sequence[Ranked]]:
        """One ranking per query (default: all queries), by a retriever that calls no service."""
        noting = Noting(self.models)
        found = retrieve.rankings(self.made(retriever), corpus, queries, noting)
        self._note_cuts(corpus, retriever, "", noting.cuts)
        return found

    def _note_cuts(self, corpus: Corpus, retriever: str, query_id: str, cuts: Mapping[str, Cut]) -> None:
        self._cut_texts[corpus.corpus_id, retriever, query_id] = [
            CutTexts(corpus.corpus_id, retriever, query_id, model, cut.texts, cut.cut, cut.tokens)
            for model, cut in cuts.items()
            if cut.cut
        ]

    @functools.cached_property
    def _cut_texts(self) -> dict[tuple[str, str, str], list[CutTexts]]:
        return {}

    def cut_rows(self, corpus_id: str, retriever: str, query_id: str = "") -> Rows:
        """Rows about texts that were cut in the latest ranking of a corpus, or of one query if a service is called."""
        return {CUT_TEXTS.name: self._cut_texts.get((corpus_id, retriever, query_id), [])}

    def planned_rankings(self, corpus: Corpus, retriever: str, queries: Sequence[Query] | None = None) -> list[Sequence[Ranked]]:
        """Like `rankings`; if vectors are not computed yet, the documents in pseudo-random order."""
        wanted = corpus.queries if queries is None else queries
        try:
            return retrieve.rankings(self.made(retriever), corpus, wanted, self.known_models)
        except NotComputed:
            # The order differs by retriever and query, as in the run: equal contexts would be planned as one request.
            ids = corpus.document_ids
            return [retrieve.by_score([placeholder(retriever, query.query_id, one) for one in ids]) for query in wanted]

    def rankings_by_query(
        self, corpus: Corpus, retriever: str, queries: Sequence[Query] | None = None, planned: bool = False
    ) -> tuple[dict[str, Sequence[Ranked]], dict[str, str]]:
        """(query id -> its ranking, query id -> what is missing): run files and stored scores may leave out some queries.

        `planned`: see `planned_rankings`. Raises LookupError if no query has a ranking.
        """
        rank = self.planned_rankings if planned else self.rankings
        wanted = corpus.queries if queries is None else queries
        try:
            return dict(zip((query.query_id for query in wanted), rank(corpus, retriever, wanted), strict=True)), {}
        except LookupError as error:
            if type(error) is not LookupError:
                raise
            found: dict[str, Sequence[Ranked]] = {}
            missing: dict[str, str] = {}
            for query in wanted:
                try:
                    [found[query.query_id]] = rank(corpus, retriever, [query])
                except LookupError as lack:
                    if type(lack) is not LookupError:
                        raise
                    missing[query.query_id] = str(lack)
            if not found:
                raise
            return found, missing

    def check_found(self, retriever: str, query_id: str, ranking: Sequence[Ranked]) -> None:
        """Raises NothingFound for an empty ranking, unless the retriever is `none`: the model would see no document."""
        if not ranking and (why := self.nothing_found(retriever, query_id)):
            raise NothingFound(why)

    def nothing_found(self, retriever: str, query_id: str) -> str:
        """Why an empty ranking is the retriever's failure; empty for `none`, whose rankings are always empty."""
        if isinstance(self.made(retriever), retrieve.Nothing):
            return ""
        mend = "let it return its nearest documents, or name `none` to show none"
        return f"retriever {retriever!r} found no document for query {query_id!r}; {mend}"

    async def service_ranking(self, ask: Ask, corpus: Corpus, retriever: str, query: Query) -> Sequence[Ranked]:
        """A query's ranking by a retriever that calls a service. Raises NoReply, and the errors that `no_ranking` describes."""
        try:
            return await self._service_ranking(ask, corpus, retriever, query)
        except LengthChanged:
            return await self._service_ranking(ask, corpus, retriever, query)

    async def _service_ranking(self, ask: Ask, corpus: Corpus, retriever: str, query: Query) -> Sequence[Ranked]:
        here = self.known_models if ask.planning else self.models
        models = ServiceModels(ask, self.services, here, self.embedded_texts)
        (ranking,) = await retrieve.rank_all(self.made(retriever), models, [query], corpus)
        self._note_cuts(corpus, retriever, query.query_id, models.cuts)
        return ranking

    async def ranking_or_failure(
        self, ask: Ask, corpus: Corpus, retriever: str, query: Query, stage: str
    ) -> Sequence[Ranked] | None:
        """Like `service_ranking`; on an error, None, with the failure reported to `ask` in `stage`. Raises NoReply."""
        try:
            ranking = await self.service_ranking(ask, corpus, retriever, query)
            self.check_found(retriever, query.query_id, ranking)
            return ranking
        # A retriever that calls a service may contain a user-defined retriever, which may raise anything.
        except BaseException as error:
            failed = no_ranking(error)
            if ask.planning:
                raise
            ask.fail(stage, failed)
            return None

    # --- local models -----------------------------------------------------------------------------

    @functools.cached_property
    def _computed(self) -> Mapping[str, Sequence[Any]]:
        """Name in tables -> the retriever's parts that need local models and call no service; possibly the whole retriever."""
        return {label: local_parts(self.made(label), self.services) for label in self}

    def compute_local_part(self, corpus: Corpus, retriever: str) -> None:
        """For a retriever that calls a service: compute the local models' part, as far as it needs no answer of the service."""
        for part in self._computed[retriever]:
            retrieve.rankings(part, corpus, None, self.models)

    def corpora_to_compute(self, wanted: Iterable[tuple[str, str]], actors: int) -> list[dict[str, Any]]:
        """The parts of the local models' work for (corpus id, retriever) pairs; with more actors than corpora, each corpus is
        split into shares."""
        found: dict[str, dict[str, None]] = {}
        for corpus_id, retriever in wanted:
            if self._computed[retriever]:
                found.setdefault(corpus_id, {})[retriever] = None
        n = -(-actors // len(found)) if found else 1
        # A shared corpus is embedded before it is scored, because scoring reranks rankings by its vectors.
        scores = any(isinstance(one, Scoring) for one in self.encoders_here)
        steps = ["all"] if n == 1 else ["embed", "score"] if scores else ["embed"]
        return [
            {"corpus": corpus_id, "retrievers": list(names), "step": step, "share": [place, n]}
            for step in steps
            for corpus_id, names in found.items()
            for place in range(n)
        ]

    def compute_part(self, corpus: Corpus, part: Mapping[str, Any]) -> Mapping[str, float]:
        """Compute one part of `corpora_to_compute` over its corpus. Returns what `Workload.compute` does."""
        before = replace(self.models.computed)
        self._compute_part(corpus, part)
        return self.models.computed.since(before)

    def _compute_part(self, corpus: Corpus, part: Mapping[str, Any]) -> None:
        place, n = part["share"]
        made = [one for retriever in part["retrievers"] for one in self._computed[retriever]]
        if part["step"] != "embed":
            for one in made:
                retrieve.rankings(one, corpus, corpus.queries[place::n], self.models)
            return
        requested = RequestedTexts()
        for one in made:
            retrieve.rankings(one, corpus, None, requested)
        for encoding, texts in requested.texts:
            self.models.embed_share(encoding, texts, (place, n))

    # --- identity of the retrievers -----------------------------------------------------------------------------------------

    def run_file(self, path: str) -> str:
        """The text of a file of rankings that the spec names."""
        return self._inputs.text(path)

    def identity(self, retriever: str) -> Any:
        """The identity of a retriever, as part of a run's identity."""
        entry = self[retriever]
        known = identity_of(entry, {**self._inputs.digests(), **{name: self._inputs.code(name) for name in own_code([entry])}})
        script = self._spec.script
        return known if script == "auto" or not of_words(self.made(retriever)) else {"retriever": known, "script": script}

    def unmatched_words(self, run: RunStore, table: str, *query: str) -> list[str]:
        """Warnings about retrievers that find no word of a query. `query`: the columns of a `table` of rankings that name one."""
        mend = "" if self._spec.script == "auto" else f"; {MEND_SCRIPT}"
        # A stored run is read without its own code.
        built_in = [name for name, entry in self.items() if not own_code([entry])]
        names = [name for name in built_in if isinstance(self.made(name), retrieve.OfWords)]
        return unmatched(run.pieces(table, [*query, "retriever", "score"]), query, names, mend) if names else []

    def identities(self) -> list[Any]:
        """The identities of the run's retrievers, independent of their order in the spec."""
        return sorted(map(self.identity, self), key=_in_order)


def _in_order(known: Any) -> tuple[bool, str]:
    """Sort key of retrievers' identities: names first, then mappings by hash."""
    return (False, known) if isinstance(known, str) else (True, semantic_hash(known))


class NothingFound(retrieve.BadRanking):
    """A retriever returned no document for a query."""


def no_ranking(error: BaseException) -> Failed:
    """The failure for a retriever's error. Raises errors that are not the retriever's: OSError, NoReply, cancellation."""
    if isinstance(error, (OSError, NoReply, *STOPS)):
        raise error
    # A plain LookupError means that the corpus lacks something (see `Retriever.rank`); KeyError and the like are bugs.
    if type(error) is LookupError:
        return missing_scores(str(error))
    message = str(error) if isinstance(error, retrieve.BadRanking) else error_line(error)
    return Failed("nothing_found" if isinstance(error, NothingFound) else "retriever_error", message, retryable=True)


def missing_scores(message: str) -> Failed:
    """A query for which a retriever has no scores becomes this failure."""
    return Failed("missing_scores", message, retryable=True)


def with_retrievers(spec: S, inputs: Inputs) -> S:
    """The spec with its retrievers resolved on this machine (see `settled`); a stored run's already are. Raises SpecError."""
    if inputs.record is not None:
        return spec
    return spec.model_copy(update={"retrievers": settled(spec.retrievers, inputs)})  # type: ignore[attr-defined]


def check_retrievers(entries: Any) -> None:
    """Raises ValueError if two retrievers share a name in tables, or a service model has two different settings."""
    labels = [retriever_label(entry) for entry in entries]
    for index, (entry, label) in enumerate(zip(entries, labels, strict=True)):
        if label in labels[:index]:
            mend = "remove one" if isinstance(entry, str) else "give one of them another name: NAME"
            raise ValueError(f"retrievers: {label!r} is listed twice; {mend}")
    services(entries)
