"""The retrievers of a run's spec: make them, rank with them, and compute the vectors that they need."""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from summhay_ray import retrieve
from summhay_ray.benchmark import Ask, Inputs, NoReply, Rows, RunStore
from summhay_ray.benchmarks.retrieval import service_models, stored_models
from summhay_ray.benchmarks.retrieval.entries import Entry, identity_of, make_retriever, own_code, retriever_label, services
from summhay_ray.benchmarks.retrieval.rankings import CUT_TEXTS, CutTexts
from summhay_ray.benchmarks.scripts import MEND_SCRIPT
from summhay_ray.encoders import Encoding, Scoring
from summhay_ray.outcome import Failed
from summhay_ray.plugins import STOPS, error_line
from summhay_ray.retrieve import Corpus, Query, Ranked
from summhay_ray.text import semantic_hash

UNORDERED = "unordered"
"""The field of a run's record that lists the retrievers whose ranking is the corpus itself."""


class Retrievers(dict[str, str | Entry]):
    """Maps a name in tables to the retriever's entry in the spec. Makes the retrievers, ranks with them, and computes the
    vectors of their local models."""

    def __init__(self, spec: Any, inputs: Inputs) -> None:
        super().__init__({retriever_label(entry): entry for entry in spec.retrievers})
        self._spec, self._inputs, self.seed = spec, inputs, spec.seed
        self.run_file = inputs.text
        """Path of a file of rankings, as the spec names it -> its text."""
        self.services = services(spec.retrievers)
        """Model name -> how to call it, for the retrievers' models at services."""
        self.asking = frozenset(label for label, entry in self.items() if services([entry]))
        """Names of the retrievers that call a service. Their rankings are made in `answer`, all other rankings in `prepare`."""
        self._embedded_texts = functools.lru_cache(service_models.LISTS_KEPT)(service_models.EmbeddedTexts)
        self._models = functools.cache(lambda: stored_models.StoredModels(inputs.store, spec))
        self._known_models = functools.cache(lambda: stored_models.StoredModels(inputs.store, None))
        """The stored results of local models, for planning."""
        self._made: dict[str, Any] = {}
        self._cuts: dict[tuple[str, str, str], Mapping[str, stored_models.Cut]] = {}
        """(Corpus, retriever, query; "" for all queries) -> the texts that models cut in its latest ranking."""

    def retriever(self, label: str) -> Any:
        """Return the retriever of this name. It is made on first use, so that user code is not imported earlier."""
        if label not in self._made:
            retriever = make_retriever(self[label], self.seed, self.run_file)
            for part in every_part(retriever):
                if isinstance(part, retrieve.OfWords):
                    part.script = self._spec.script
            self._made[label] = retriever
        return self._made[label]

    @functools.cached_property
    def unordered(self) -> frozenset[str]:
        """Names of the retrievers whose ranking is the corpus itself. For user-defined ones, a stored run's record lists them."""
        record = self._inputs.record
        own = () if record is None else [label for label, entry in self.items() if own_code([entry])]
        names = () if record is None else record.get(UNORDERED, ())
        return frozenset(label for label in self if (label in names if label in own else self.retriever(label).whole))

    # --- rankings --------------------------------------------------------------------------------------------------------

    def rankings(self, corpus: Corpus, retriever: str, queries: Sequence[Query] | None = None) -> list[Sequence[Ranked]]:
        """Return one ranking per query (default: all queries), by a retriever that calls no service."""
        models = stored_models.NotedModels(self._models)
        rankings = retrieve.rankings(self.retriever(retriever), corpus, queries, models)
        self._cuts[corpus.corpus_id, retriever, ""] = models.cuts
        return rankings

    def cut_rows(self, corpus_id: str, retriever: str, query_id: str = "") -> Rows:
        """Return rows about the texts that were cut in the latest ranking of a corpus, or of one query if a service is called."""
        here = corpus_id, retriever, query_id
        cuts = self._cuts.get(here, {}).items()
        return {CUT_TEXTS.name: [CutTexts(*here, model, cut.texts, cut.cut, cut.tokens) for model, cut in cuts if cut.cut]}

    def planned_rankings(self, corpus: Corpus, retriever: str, queries: Sequence[Query] | None = None) -> list[Sequence[Ranked]]:
        """Rank like `rankings`. If vectors are not computed yet, return the documents in pseudo-random order."""
        wanted = corpus.queries if queries is None else queries
        try:
            return retrieve.rankings(self.retriever(retriever), corpus, wanted, stored_models.NotedModels(self._known_models))
        except stored_models.NotComputed:
            # The order differs by retriever and query, as in a run: equal contexts would be planned as a single request.
            ids = corpus.document_ids
            return [
                retrieve.by_score([service_models.placeholder(retriever, query.query_id, one) for one in ids]) for query in wanted
            ]

    def rankings_by_query(
        self, corpus: Corpus, retriever: str, queries: Sequence[Query] | None = None, planned: bool = False
    ) -> tuple[dict[str, Sequence[Ranked]], dict[str, str]]:
        """Return (query id -> its ranking, query id -> what a run file or stored scores lack). `planned`: see
        `planned_rankings`. Raises LookupError if no query has a ranking."""
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

    def nothing_found(self, retriever: str, query_id: str) -> str:
        """Explain why an empty ranking is the retriever's failure: the model would see no document. Empty for `none`, whose
        rankings are always empty."""
        if isinstance(self.retriever(retriever), retrieve.Nothing):
            return ""
        mend = "let it return its nearest documents, or name `none` to show none"
        return f"retriever {retriever!r} found no document for query {query_id!r}; {mend}"

    async def ranking_or_failure(
        self, ask: Ask, corpus: Corpus, retriever: str, query: Query, stage: str
    ) -> Sequence[Ranked] | None:
        """Return a query's ranking by a retriever that calls a service. None after an error, which is reported to `ask` in
        `stage`.

        Raises NoReply.
        """
        try:
            try:
                ranking = await self._service_ranking(ask, corpus, retriever, query)
            except service_models.LengthChanged:
                ranking = await self._service_ranking(ask, corpus, retriever, query)
            if not ranking and (why := self.nothing_found(retriever, query.query_id)):
                raise NothingFound(why)
            return ranking
        # Such a retriever may contain a user-defined one, which may raise anything.
        except BaseException as error:
            failed = no_ranking(error)
            if ask.planning:
                raise
            ask.fail(stage, failed)
            return None

    async def _service_ranking(self, ask: Ask, corpus: Corpus, retriever: str, query: Query) -> Sequence[Ranked]:
        here = stored_models.NotedModels(self._known_models if ask.planning else self._models)
        models = service_models.ServiceModels(ask, self.services, here, self._embedded_texts)
        try:
            (ranking,) = await retrieve.rank_all(self.retriever(retriever), models, [query], corpus)
        except service_models.LengthChanged:
            # The next attempt reads the vectors from the log again.
            self._embedded_texts.cache_clear()
            raise
        self._cuts[corpus.corpus_id, retriever, query.query_id] = models.cuts
        return ranking

    # --- local models -----------------------------------------------------------------------------

    def compute_local_part(self, corpus: Corpus, retriever: str) -> None:
        """Compute what a retriever that calls a service needs from local models, except where it needs the service's answers
        first."""
        for part in local_parts(self.retriever(retriever), self.services):
            retrieve.rankings(part, corpus, None, stored_models.NotedModels(self._models))

    def corpora_to_compute(self, wanted: Iterable[tuple[str, str]], actors: int) -> list[dict[str, Any]]:
        """Divide the local models' work for (corpus id, retriever) pairs into parts. If there are more actors than corpora,
        corpora are split into shares."""
        found: dict[str, dict[str, None]] = {}
        for corpus_id, retriever in wanted:
            if local_parts(self.retriever(retriever), self.services):
                found.setdefault(corpus_id, {})[retriever] = None
        n = -(-actors // len(found)) if found else 1
        # A corpus that is split is embedded before it is scored, because scoring reranks rankings that need its vectors.
        models = [model for label in self for model in models_of(self.retriever(label)) if model.model not in self.services]
        scores = any(isinstance(model, Scoring) for model in models)
        steps = ["all"] if n == 1 else ["embed", "score"] if scores else ["embed"]
        return [
            {"corpus": corpus_id, "retrievers": list(names), "step": step, "share": [place, n]}
            for step in steps
            for corpus_id, names in found.items()
            for place in range(n)
        ]

    def compute_part(self, corpus: Corpus, part: Mapping[str, Any]) -> Mapping[str, float]:
        """Compute one part of `corpora_to_compute` over its corpus. Returns what `Workload.compute` returns."""
        before = replace(self._models().computed)
        place, n = part["share"]
        made = [one for retriever in part["retrievers"] for one in local_parts(self.retriever(retriever), self.services)]
        requested = stored_models.RequestedTexts()
        for one in made:
            if part["step"] == "embed":
                retrieve.rankings(one, corpus, None, requested)
            else:
                retrieve.rankings(one, corpus, corpus.queries[place::n], stored_models.NotedModels(self._models))
        for encoding, texts in requested.texts:
            self._models().compute_share(encoding, texts, (place, n))
        return self._models().computed.since(before)

    # --- identity of the retrievers -----------------------------------------------------------------------------------------

    def identity(self, retriever: str) -> Any:
        entry = self[retriever]
        known = identity_of(entry, {**self._inputs.digests, **{name: self._inputs.code(name) for name in own_code([entry])}})
        script = self._spec.script
        if script != "auto" and any(isinstance(part, retrieve.OfWords) for part in every_part(self.retriever(retriever))):
            return {"retriever": known, "script": script}
        return known

    def unmatched_words(self, run: RunStore, table: str, *query: str, apart: pl.DataFrame | None = None) -> list[str]:
        """Warn about retrievers that find no word of a query: they score 0 for every document. `query`: the columns of the
        rankings' `table` that identify a query. `apart`: queries, in these columns, that no warning counts."""
        mend = "" if self._spec.script == "auto" else f"; {MEND_SCRIPT}"
        # A stored run is read without its own code.
        built_in = [name for name, entry in self.items() if not own_code([entry])]
        names = [name for name in built_in if isinstance(self.retriever(name), retrieve.OfWords)]
        # Each query's rows are in one piece.
        own = (piece.filter(pl.col("retriever").is_in(names)) for piece in run.pieces(table, [*query, "retriever", "score"]))
        zero = (pl.col("score") == 0).all().alias("zero")
        pieces = [piece.group_by("retriever", *query).agg(zero) for piece in own if piece.height] if names else []
        if not pieces:
            return []
        found = pl.concat(pieces)
        found = found if apart is None else found.join(apart, on=query, how="anti")
        counts = found.group_by("retriever").agg(pl.col("zero").sum(), pl.len()).sort("retriever")
        return [
            f"{retriever}: in {n_zero} of {n} queries no document has a word of the query; they rank in document order{mend}"
            for retriever, n_zero, n in counts.iter_rows()
            if n_zero
        ]

    def identities(self) -> list[Any]:
        """Return the identities of the run's retrievers, independent of their order in the spec: names first, then mappings
        sorted by hash."""
        identities = list(map(self.identity, self))
        names = sorted(one for one in identities if isinstance(one, str))
        return [*names, *sorted((one for one in identities if not isinstance(one, str)), key=semantic_hash)]


def every_part(made: Any) -> Iterator[Any]:
    """Yield a retriever and the retrievers inside it, at any depth."""
    yield made
    for part in inner_retrievers(made):
        yield from every_part(part)


def inner_retrievers(made: Any) -> Sequence[Any]:
    """Return the retrievers directly inside a fusion or reranking retriever."""
    if isinstance(made, retrieve.Fuse):
        return made.parts
    return [made.of] if isinstance(made, retrieve.Rerank) and made.of is not None else []


def models_of(made: Any) -> list[Encoding | Scoring]:
    """Return the models that a retriever needs, local or at services."""
    found: list[Encoding | Scoring] = []
    for part in every_part(made):
        found += [part.dense.encoding] if isinstance(part, retrieve.Embed) else []
        found += [part.stretched] if isinstance(part, retrieve.Longe) else []
        found += [part.scoring] if isinstance(part, retrieve.Rerank) else []
    return found


def local_parts(made: Any, services: Collection[str]) -> list[Any]:
    """Return the largest parts of a retriever (perhaps all of it) that need local models and none of the `services`."""
    models = models_of(made)
    if not any(one.model in services for one in models):
        return [made] if models else []
    return [one for part in inner_retrievers(made) for one in local_parts(part, services)]


class NothingFound(retrieve.BadRanking):
    """A retriever returned no document for a query."""


def no_ranking(error: BaseException) -> Failed:
    """Return the failure for a retriever's error. Raises errors that the retriever did not cause: OSError, NoReply,
    cancellation."""
    if isinstance(error, (OSError, NoReply, *STOPS)):
        raise error
    # A plain LookupError means that the corpus lacks something (see `Retriever.rank`). KeyError and other subclasses are bugs.
    if type(error) is LookupError:
        return missing_scores(str(error))
    message = str(error) if isinstance(error, retrieve.BadRanking) else error_line(error)
    return Failed("nothing_found" if isinstance(error, NothingFound) else "retriever_error", message, retryable=True)


def missing_scores(message: str) -> Failed:
    """Return the failure of a query for which a retriever has no scores."""
    return Failed("missing_scores", message, retryable=True)
