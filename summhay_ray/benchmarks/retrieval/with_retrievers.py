"""What every workload has whose spec has `retrievers`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from summhay_ray import retrieve
from summhay_ray.benchmark import Ask, Failed, Inputs, ModelSpec, NoReply, ResourcesSpec, Spec, SpecError, semantic_hash
from summhay_ray.benchmarks.retrieval.asked_models import AskedModels, AskedTexts, drawn
from summhay_ray.benchmarks.retrieval.entries import (
    Entry,
    identity_of,
    local_parts,
    make_retriever,
    models_of,
    retriever_label,
    services,
    settled,
)
from summhay_ray.benchmarks.retrieval.stored_models import STAGE, Computing, NotComputed, StoredModels, Wanted
from summhay_ray.encoders import Encoding, Scoring
from summhay_ray.errors import UserError
from summhay_ray.plugins import STOPS, told
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
    def unordered(self) -> frozenset[str]:
        """The retrievers whose ranking is the corpus itself."""
        return frozenset(filter(self.is_whole, self.made))

    @functools.cached_property
    def services(self) -> Mapping[str, ModelSpec]:
        """Model -> how it is asked, of the retrievers' models that somebody serves."""
        return services(self.spec.retrievers)

    @functools.cached_property
    def asking(self) -> frozenset[str]:
        """The retrievers that ask: their rankings are made while an item is answered, and not before."""
        return frozenset(label for label, entry in self.retrievers.items() if services([entry]))

    @functools.cached_property
    def encoders_here(self) -> list[Encoding | Scoring]:
        """The models in this process that the retrievers need, each once."""
        needed = (one for made in self.made.values() for one in models_of(made))
        return [one for one in dict.fromkeys(needed) if one.model not in self.services]

    @functools.cached_property
    def models(self) -> StoredModels:
        """The retrievers' models in this process."""
        return StoredModels(self.inputs.store, Computing.of(self.spec.resources))

    @functools.cached_property
    def known_models(self) -> StoredModels:
        """As `models`, but nothing is computed: for planning."""
        return StoredModels(self.inputs.store, None)

    @functools.cached_property
    def asked_texts(self) -> AskedTexts:
        """What services were asked about last."""
        return AskedTexts()

    # --- rankings --------------------------------------------------------------------------------------------------------

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

    async def asked_ranking(self, ask: Ask, corpus: Corpus, retriever: str, query: Query) -> list[Ranked]:
        """A query's ranking by a retriever that asks. Raises NoReply, and what `no_ranking` tells of."""
        here = self.known_models if ask.planning else self.models
        models = AskedModels(ask, self.services, here, self.asked_texts)
        (ranking,) = await retrieve.rank_all(self.made[retriever], models, [query], corpus)
        return ranking

    async def asked_or_failed(self, ask: Ask, corpus: Corpus, retriever: str, query: Query, stage: str) -> list[Ranked] | None:
        """As `asked_ranking`; None where there is none, and `ask` has the failure, of `stage`. Raises NoReply."""
        try:
            return await self.asked_ranking(ask, corpus, retriever, query)
        # The border to a person's own retrievers, of which one that asks may be made.
        except BaseException as error:
            failed = no_ranking(error)
            if ask.planning:
                raise
            ask.fail(stage, failed)
            return None

    # --- what models in this process compute -----------------------------------------------------------------------------

    @functools.cached_property
    def _computed(self) -> Mapping[str, Sequence[Any]]:
        """What tables call each retriever -> the parts of it, or it itself, that need models here, and ask nobody."""
        return {label: local_parts(made, self.services) for label, made in self.made.items()}

    def compute_beside(self, corpus: Corpus, retriever: str) -> None:
        """Of a retriever that asks, what models in this process compute and no answer is needed for."""
        for part in self._computed[retriever]:
            retrieve.rankings(part, corpus, None, self.models)

    def corpora_to_compute(self, wanted: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
        """(corpus, retriever) of items -> the parts of what models in this process compute: a corpus is one part, or as many as
        there are actors to share it."""
        found: dict[str, dict[str, None]] = {}
        for corpus_id, retriever in wanted:
            if self._computed[retriever]:
                found.setdefault(corpus_id, {})[retriever] = None
        said: ResourcesSpec | None = self.spec.resources.get(STAGE)
        n = -(-said.actors // len(found)) if said and found else 1
        # A corpus that is shared has its vectors first: what is scored is of rankings by them.
        scores = any(isinstance(one, Scoring) for one in self.encoders_here)
        steps = ["all"] if n == 1 else ["embed", "score"] if scores else ["embed"]
        return [
            {"corpus": corpus_id, "retrievers": list(names), "step": step, "share": [place, n]}
            for step in steps
            for corpus_id, names in found.items()
            for place in range(n)
        ]

    def compute_part(self, corpus: Corpus, part: Mapping[str, Any]) -> None:
        """What a part of `corpora_to_compute` says, of the corpus that it names."""
        place, n = part["share"]
        made = [one for retriever in part["retrievers"] for one in self._computed[retriever]]
        if part["step"] != "embed":
            for one in made:
                retrieve.rankings(one, corpus, corpus.queries[place::n], self.models)
            return
        wanted = Wanted()
        for one in made:
            retrieve.rankings(one, corpus, None, wanted)
        for encoding, texts in wanted.texts:
            self.models.embed_share(encoding, texts, (place, n))

    # --- what the retrievers are -----------------------------------------------------------------------------------------

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


def no_ranking(error: BaseException) -> Failed:
    """Why there is no ranking, as its failure says it. Raises what is more than that: a full disk, a cancelled call, no reply."""
    if isinstance(error, (OSError, NoReply, *STOPS)):
        raise error
    # A plain LookupError is a retriever's word for what the corpus lacks; KeyError and the like are mistakes.
    if type(error) is LookupError:
        return Failed("missing_scores", str(error), retryable=True)
    said = str(error) if isinstance(error, retrieve.BadRanking) else told(error)
    return Failed("retriever_error", said, retryable=True)


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
