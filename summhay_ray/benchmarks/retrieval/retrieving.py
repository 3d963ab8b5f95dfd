"""A run that retrieves and measures, and does nothing else: `summhay retrieve SPEC`, for any benchmark with corpora."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field, model_validator

from summhay_ray.benchmark import (
    Ask,
    Benchmark,
    Counted,
    Item,
    ModelSpec,
    Prepared,
    Queue,
    Rows,
    Section,
    Spec,
    SpecError,
    Stage,
    Table,
    Tables,
    semantic_hash,
)
from summhay_ray.benchmarks.retrieval.entries import RetrieverEntry, own_code, services
from summhay_ray.benchmarks.retrieval.measure import retrieval_details, retrieval_section, retrieval_table
from summhay_ray.benchmarks.retrieval.rows import RANKING_TABLES, ranking_rows, retrieved_of
from summhay_ray.benchmarks.retrieval.with_retrievers import WithRetrievers, check_retrievers, no_ranking
from summhay_ray.retrieve import Corpus, Query, Ranked


class RetrievalFields(Spec):
    """What every spec of retrieval alone has."""

    retrievers: list[RetrieverEntry] = Field(
        min_length=1, description="random, bm25, vector, oracle, full, released/NAME, {bm25: split}, {embed: MODEL}, ..."
    )
    k: list[Annotated[int, Field(ge=1)]] = Field(default=[1, 5, 10], description="how many documents count, of each ranking")
    token_budget: int = Field(default=15000, ge=1, description="cl100k tokens of documents that retrieval may show")
    depth: int = Field(default=1000, ge=1, description="documents of a ranking that are kept, at most")

    def model_entries(self) -> Sequence[ModelSpec]:
        """See `Spec`: the retrievers' models that somebody serves."""
        return list(services(self.retrievers).values())

    @model_validator(mode="after")
    def _retrievers_differ(self) -> RetrievalFields:
        check_retrievers(self.retrievers)
        return self


STAGE = "retrieve"
"""In which a retriever that raises fails its items."""

S = TypeVar("S", bound=RetrievalFields)


class Retrieving(WithRetrievers, Benchmark[S]):
    """Rankings of every retriever over every corpus. A class of a benchmark's own says what its corpora are."""

    stages = (Stage("embed"), Stage("rerank"), Stage(STAGE))
    tables: ClassVar[Sequence[Table]] = RANKING_TABLES
    counted = Counted("corpora")

    @staticmethod
    def retrieval_fields(fields: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """A spec's fields as `summhay retrieve` runs them: of this kind, as they are. Raises SpecError."""
        return fields

    def corpus_queries(self) -> Mapping[str, Sequence[str]]:
        """Every corpus by a hash of its content -> its queries' ids; nothing large is read."""
        raise NotImplementedError

    def corpus(self, corpus_id: str) -> Corpus:
        """A corpus with its queries."""
        raise NotImplementedError

    def own_code(self) -> Sequence[str]:
        """See `Workload`."""
        return [*super().own_code(), *own_code(self.spec.retrievers)]

    def identity(self) -> Any:
        """See `Workload`. Corpora and files are known by their content."""
        names = ("k", "token_budget", "depth", "seed")
        return {
            "kind": self.kind,
            "corpora": sorted(self.corpus_queries()),
            "retrievers": self.known_retrievers(),
            **{name: getattr(self.spec, name) for name in names},
        }

    def items(self) -> Iterator[Item]:
        """Every corpus by every retriever, all queries at once; one by one where a service is asked."""
        known = functools.cache(self.known)
        for corpus_id, queries in self.corpus_queries().items():
            for retriever in self.retrievers:
                content = {"corpus": corpus_id, "retriever": known(retriever), "seed": self.spec.seed}
                content |= {"depth": self.spec.depth, "token_budget": self.spec.token_budget}
                source = semantic_hash(content)[:32]
                data = {"corpus": corpus_id, "retriever": retriever}
                if retriever not in self.asking:
                    yield Item(source, data={**data, "queries": len(queries)}, source=source, size=len(queries))
                    continue
                for query_id in queries:
                    item_id = semantic_hash({**content, "query": query_id})[:32]
                    yield Item(item_id, data={**data, "query": query_id, "queries": 1}, source=source)

    def queues(self) -> Mapping[str, Queue]:
        """See `Workload`."""
        return {"": Queue(tuple(self.services))}

    def prepare(self, source: str, items: Sequence[Item]) -> Prepared:
        """See `Workload`: the rankings of a corpus; of a retriever that asks, what is computed beside."""
        corpus_id, retriever = items[0].data["corpus"], items[0].data["retriever"]
        try:
            corpus = self.corpus(corpus_id)
            if retriever in self.asking:
                self.compute_beside(corpus, retriever)
                return Prepared()
            rankings = self.rankings(corpus, retriever)
        # The border to a person's own retrievers: what goes wrong there is a row, and stops no other row.
        except BaseException as error:  # noqa: BLE001
            return Prepared(problem=no_ranking(error), stage=STAGE)
        return Prepared(self._rows(corpus, retriever, zip(corpus.queries, rankings, strict=True)))

    def computing(self, items: Sequence[Item]) -> Sequence[Mapping[str, Any]]:
        """See `Workload`: a part for each corpus that models in this process read."""
        return self.corpora_to_compute((item.data["corpus"], item.data["retriever"]) for item in items)

    def compute(self, part: Mapping[str, Any]) -> None:
        """See `Workload`: the vectors and scores that the rankings of a corpus need."""
        self.compute_part(self.corpus(part["corpus"]), part)

    def sketch(self, source: str, items: Sequence[Item]) -> Prepared:
        """See `Workload`: what is planned depends on no ranking."""
        return Prepared()

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """See `Workload`: the ranking of a retriever that asks; those of any other were there before."""
        if (retriever := item.data["retriever"]) not in self.asking:
            return {}
        corpus = await asyncio.to_thread(self.corpus, item.data["corpus"])
        query = next(one for one in corpus.queries if one.query_id == item.data["query"])
        ranking = await self.asked_or_failed(ask, corpus, retriever, query, STAGE)
        return {} if ranking is None else self._rows(corpus, retriever, [(query, ranking)])

    def _rows(self, corpus: Corpus, retriever: str, found: Iterable[tuple[Query, Sequence[Ranked]]]) -> Rows:
        whole, budget = self.is_whole(retriever), self.spec.token_budget
        depth = max(self.spec.depth, *self.spec.k)
        each = [ranking_rows(corpus, retriever, *one, whole=whole, token_budget=budget, depth=depth) for one in found]
        return {table.name: [row for rows in each for row in rows[table.name]] for table in RANKING_TABLES}

    def score(self, tables: Tables) -> Tables:
        """A row for each retriever and k."""
        items = tables["items"]
        expected = {name: int(items.filter(retriever=name)["queries"].sum()) for name in self.retrievers}
        ranked, ks = retrieved_of(tables, max(self.spec.k)), self.spec.k
        return {"retrieval": retrieval_table(ranked, ks, expected, self.spec.seed, self.unordered)}

    def details(self, scores: Tables) -> Mapping[str, Any]:
        """The rows as `summhay retrieve --json` has them."""
        return retrieval_details(scores["retrieval"])

    def report(self, scores: Tables) -> Sequence[Section]:
        """The retrieval table."""
        return [retrieval_section(scores["retrieval"], self.spec.token_budget)]


def retrieval_alone(benchmark: type[Any], fields: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """A spec's fields as those of a run that retrieves alone. Raises SpecError where its benchmark offers none."""
    change: Callable[[Mapping[str, Any], str], Mapping[str, Any]] | None = getattr(benchmark, "retrieval_fields", None)
    if change is None:
        raise SpecError(f"{where}: a spec of kind {benchmark.kind!r} has nothing to retrieve from; give one with retrievers")
    return change(fields, where)
