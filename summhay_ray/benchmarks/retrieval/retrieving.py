"""A run that retrieves and measures, and does nothing else: `summhay retrieve SPEC`, for any benchmark with corpora."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field, model_validator

from summhay_ray.benchmark import (
    Ask,
    Benchmark,
    Counted,
    Failed,
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
from summhay_ray.benchmarks.retrieval.measure import Retrieved, retrieval_details, retrieval_section, retrieval_table
from summhay_ray.benchmarks.retrieval.with_retrievers import WithRetrievers, check_retrievers
from summhay_ray.plugins import told
from summhay_ray.retrieve import Corpus, Ranked
from summhay_ray.text import count_tokens


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


S = TypeVar("S", bound=RetrievalFields)


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """One document's place in what a retriever returns for a query."""

    corpus_id: Annotated[str, "content hash of the corpus"]
    query_id: Annotated[str, "the query, unique within its corpus"]
    retriever: Annotated[str, "retriever as the spec names it"]
    rank: Annotated[int, "place in the ranking, from 1; ties stand in document order"]
    number: Annotated[int, "document number in the corpus, from 1"]
    document_id: Annotated[str, "document identifier"]
    score: Annotated[float, "the retriever's relevance score"]


@dataclass(frozen=True, slots=True)
class RetrievedQuery:
    """One query as one retriever answered it: what its ranking is measured by."""

    corpus_id: Annotated[str, "content hash of the corpus"]
    query_id: Annotated[str, "the query, unique within its corpus"]
    retriever: Annotated[str, "retriever as the spec names it"]
    shown: Annotated[int, "documents at the ranking's beginning that fit into the token budget, the one that it cuts included"]
    tokens: Annotated[int, "cl100k tokens of those"]
    ordered: Annotated[bool, "whether the ranking has an order of its own"]
    gold: Annotated[tuple[str, ...], "the relevant documents, as far as anybody knows"]
    grades: Annotated[tuple[float, ...], "how relevant each is; 1 where relevance is yes or no"]


class Retrieving(WithRetrievers, Benchmark[S]):
    """Rankings of every retriever over every corpus. A class of a benchmark's own says what its corpora are."""

    stages = (Stage("embed"), Stage("rerank"), Stage("retrieve"))
    tables: ClassVar[Sequence[Table]] = (
        Table("ranked", RankedDocument, ("corpus_id", "retriever", "query_id", "rank")),
        Table("retrieved", RetrievedQuery, ("corpus_id", "retriever", "query_id")),
    )
    counted = Counted("corpora")

    @staticmethod
    def retrieval_fields(fields: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """A spec's fields as `summhay retrieve` runs them: of this kind, as they are. Raises SpecError."""
        return fields

    def corpus_ids(self) -> Sequence[tuple[str, int]]:
        """Every corpus by a hash of its content, and how many queries it has; nothing large is read."""
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
            "corpora": sorted(name for name, _ in self.corpus_ids()),
            "retrievers": self.known_retrievers(),
            **{name: getattr(self.spec, name) for name in names},
        }

    def items(self) -> Iterator[Item]:
        """Every corpus by every retriever, all queries at once."""
        known = functools.cache(self.known)
        for corpus_id, n_queries in self.corpus_ids():
            for retriever in self.retrievers:
                content = {"corpus": corpus_id, "retriever": known(retriever), "seed": self.spec.seed}
                item_id = semantic_hash({**content, "depth": self.spec.depth, "token_budget": self.spec.token_budget})[:32]
                data = {"corpus": corpus_id, "retriever": retriever, "queries": n_queries}
                yield Item(item_id, data=data, source=item_id, size=n_queries)

    def queues(self) -> Mapping[str, Queue]:
        """See `Workload`."""
        return {"": Queue(tuple(self.services))}

    def prepare(self, source: str, items: Sequence[Item]) -> Prepared:
        """See `Workload`: the rankings of a corpus, by a retriever that asks nobody."""
        return self._prepared(items[0], self.rankings)

    def computing(self, items: Sequence[Item]) -> Sequence[Mapping[str, Any]]:
        """See `Workload`: a part for each corpus that models in this process read."""
        return self.corpora_to_compute((item.data["corpus"], item.data["retriever"]) for item in items)

    def compute(self, part: Mapping[str, Any]) -> None:
        """See `Workload`: the vectors and scores that the rankings of a corpus need."""
        for retriever in part["retrievers"]:
            self.rankings(self.corpus(part["corpus"]), retriever)

    def sketch(self, source: str, items: Sequence[Item]) -> Prepared:
        """See `Workload`: what is planned depends on no ranking."""
        return Prepared()

    def _prepared(self, item: Item, rank: Callable[[Corpus, str], Sequence[Sequence[Ranked]]]) -> Prepared:
        corpus_id, retriever = item.data["corpus"], item.data["retriever"]
        if retriever in self.asking:
            return Prepared()
        try:
            corpus = self.corpus(corpus_id)
            return Prepared(self._rows(corpus, retriever, rank(corpus, retriever)))
        except OSError:
            raise
        # The border to a person's own retrievers: what goes wrong there is a row, and stops no other row.
        except BaseException as error:  # noqa: BLE001
            # A plain LookupError is a retriever's word for what the corpus lacks; KeyError and the like are mistakes.
            known = type(error) is LookupError
            problem = Failed(*(("missing_scores", str(error)) if known else ("retriever_error", told(error))), retryable=True)
            return Prepared(problem=problem, stage="retrieve")

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """See `Workload`: the rankings of a retriever that asks; those of any other were there before."""
        if (retriever := item.data["retriever"]) not in self.asking:
            return {}
        corpus = await asyncio.to_thread(self.corpus, item.data["corpus"])
        return self._rows(corpus, retriever, await self.asked_rankings(ask, corpus, retriever))

    def _rows(self, corpus: Corpus, retriever: str, rankings: Sequence[Sequence[Ranked]]) -> Rows:
        ranked: list[RankedDocument] = []
        retrieved: list[RetrievedQuery] = []
        whole = self.is_whole(retriever)
        for query, ranking in zip(corpus.queries, rankings, strict=True):
            _check(corpus, retriever, ranking)
            shown, tokens = self._shown(corpus, ranking, whole)
            kept = ranking if whole else ranking[: max(self.spec.depth, shown, *self.spec.k)]
            here = corpus.corpus_id, query.query_id, retriever
            ranked += [
                RankedDocument(*here, rank, one.number, corpus.document_ids[one.number - 1], float(one.score))
                for rank, one in enumerate(kept, start=1)
            ]
            gold = {name: grade if corpus.graded else 1.0 for name, grade in query.gold.items() if grade > 0}
            retrieved.append(RetrievedQuery(*here, shown, tokens, not whole, tuple(gold), tuple(gold.values())))
        return {"ranked": ranked, "retrieved": retrieved}

    def _shown(self, corpus: Corpus, ranking: Sequence[Ranked], whole: bool) -> tuple[int, int]:
        """How many documents the token budget shows, and their tokens; the last one may be cut."""
        total = 0
        for place, one in enumerate(ranking, start=1):
            total += count_tokens(corpus.texts[one.number - 1])
            if not whole and total >= self.spec.token_budget:
                return place, self.spec.token_budget
        return len(ranking), total

    def score(self, tables: Tables) -> Tables:
        """A row for each retriever and k."""
        items = tables["items"]
        expected = {name: int(items.filter(retriever=name)["queries"].sum()) for name in self.retrievers}
        return {"retrieval": retrieval_table(_retrieved(tables), self.spec.k, expected, self.spec.seed)}

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


def _check(corpus: Corpus, retriever: str, ranking: Sequence[Ranked]) -> None:
    numbers = [one.number for one in ranking]
    if wrong := [number for number in numbers if not 1 <= number <= len(corpus.texts)]:
        raise ValueError(f"retriever {retriever!r} ranks document {wrong[0]}; {corpus.name!r} has no such number")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"retriever {retriever!r} ranks a document of {corpus.name!r} twice; rank each once")


def _retrieved(tables: Tables) -> Iterator[Retrieved]:
    keys = ["corpus_id", "retriever", "query_id"]
    ranked = {key: part["document_id"].to_list() for key, part in tables["ranked"].sort(*keys, "rank").group_by(keys)}
    for row in tables["retrieved"].iter_rows(named=True):
        key = row["corpus_id"], row["retriever"], row["query_id"]
        yield Retrieved(
            retriever=row["retriever"],
            query=f"{row['corpus_id']}/{row['query_id']}",
            document_ids=ranked.get(key, []),
            gold=dict(zip(row["gold"], row["grades"], strict=True)),
            shown=row["shown"],
            tokens=row["tokens"],
            ordered=row["ordered"],
        )
