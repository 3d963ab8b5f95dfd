"""Runs that only retrieve (`summhay retrieve SPEC`), for any benchmark with corpora, and their export to TREC and BEIR files."""

from __future__ import annotations

import asyncio
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field, model_validator

from summhay_ray import benchmark
from summhay_ray.benchmarks.retrieval.entries import RetrieverEntry, check_retrievers, own_code, services, with_retrievers
from summhay_ray.benchmarks.retrieval.rankings import (
    CUT_TEXTS,
    RANKING_TABLES,
    cut_texts,
    cut_warnings,
    ranking_rows,
    retrieval_by_query,
    retrieval_details,
    retrieval_section,
    retrieval_table,
    retrieved_of,
)
from summhay_ray.benchmarks.retrieval.retrievers import Retrievers, missing_scores, no_ranking
from summhay_ray.benchmarks.scripts import OfWordsSpec
from summhay_ray.errors import SpecError
from summhay_ray.inputs import write_new
from summhay_ray.retrieve import Corpus, Query, Ranked, beir_files, long_name, qrels_lines, run_lines
from summhay_ray.text import semantic_hash


class RetrievalFields(OfWordsSpec):
    """Fields of every spec of a run that only retrieves."""

    retrievers: list[RetrieverEntry] = Field(
        min_length=1, description="random, bm25, vector, oracle, full, released/NAME, {bm25: split}, {embed: MODEL}, ..."
    )
    k: list[Annotated[int, Field(ge=1)]] = Field(
        default=[1, 5, 10], description="cutoffs: numbers of top documents at which a ranking is measured"
    )
    token_budget: int = Field(default=15000, ge=1, description="maximum cl100k tokens of the retrieved documents")
    depth: int = Field(default=1000, ge=1, description="maximum number of documents to store of each ranking")

    def model_entries(self) -> Sequence[benchmark.ModelSpec]:
        return list(services(self.retrievers).values())

    @model_validator(mode="after")
    def _retrievers_differ(self) -> RetrievalFields:
        check_retrievers(self.retrievers)
        return self


BATCH_SIZE = 250
"""Number of queries whose rankings a retriever makes and stores together."""
STAGE = "retrieve"
"""The stage under which failures of a retriever are recorded."""
_UNSAFE = re.compile(r"[^\w.+,()-]+")

S = TypeVar("S", bound=RetrievalFields)


class Corpora:
    """The corpora that a benchmark with retrievers ranks."""

    def queries(self) -> Mapping[str, Sequence[str]]:
        """Map the content hash of each corpus to the ids of its queries. Must not read large files."""
        raise NotImplementedError

    def corpus(self, corpus_id: str) -> Corpus:
        raise NotImplementedError

    def relevance(self) -> str:
        """Return a hash of relevance judgments that replace the corpora's own; empty without any."""
        return ""

    def queries_identity(self, corpus_id: str) -> str:
        """Return a hash of a corpus's queries and gold documents; empty if `corpus_id` already covers them."""
        return ""


class Retrieving(benchmark.Benchmark[S]):
    """Every retriever's rankings of every corpus. A benchmark's subclass defines the corpora."""

    stages = (benchmark.Stage("embed"), benchmark.Stage("rerank"), benchmark.Stage("search"), benchmark.Stage(STAGE))
    tables: ClassVar[Sequence[benchmark.Table]] = (*RANKING_TABLES, CUT_TEXTS)
    counted = benchmark.Counted("corpora", item="corpus")

    def __init__(self, spec: S, inputs: benchmark.Inputs) -> None:
        super().__init__(with_retrievers(spec, inputs), inputs)
        self.retrievers = Retrievers(self.spec, inputs)

    @functools.cached_property
    def corpora(self) -> Corpora:
        raise NotImplementedError

    def identity(self) -> Any:
        """See `Workload`. Corpora and files are identified by their content."""
        names = ("k", "token_budget", "depth", "seed")
        queries = sorted(filter(None, map(self.corpora.queries_identity, self.corpora.queries())))
        return {
            "kind": self.kind,
            "corpora": sorted(self.corpora.queries()),
            "retrievers": self.retrievers.identities(),
            **{name: getattr(self.spec, name) for name in names},
            **_with_values(qrels=self.corpora.relevance(), queries=queries),
        }

    def items(self) -> Iterator[benchmark.Item]:
        """See `Workload`. Yields one item per corpus and retriever, or several if there are many queries. If a service is
        called, yields one item per query."""
        known = functools.cache(self.retrievers.identity)
        for corpus_id, queries in self.corpora.queries().items():
            # The spec's qrels may not judge any query of a haystack.
            if not queries:
                continue
            judged = _with_values(qrels=self.corpora.relevance(), queries=self.corpora.queries_identity(corpus_id))
            for retriever in self.retrievers:
                content = {"corpus": corpus_id, "retriever": known(retriever), "seed": self.spec.seed}
                content |= {"depth": self.spec.depth, "token_budget": self.spec.token_budget, **judged}
                source = semantic_hash(content)[:32]
                data = {"corpus": corpus_id, "retriever": retriever}
                if retriever not in self.retrievers.asking:
                    # A retriever with `rank` ranks query by query, so its items can be small. A user-defined retriever gets one
                    # item, because stored runs are read without its code.
                    own = own_code([self.retrievers[retriever]])
                    n = 1 if own or not hasattr(self.retrievers.retriever(retriever), "rank") else -(-len(queries) // BATCH_SIZE)
                    for place in range(n):
                        share = {} if n <= 1 else {"share": [place, n]}
                        item_id = source if n <= 1 else semantic_hash({**content, **share})[:32]
                        asked = len(queries[place::n])
                        yield benchmark.Item(
                            item_id, data={**data, "queries": asked, **share}, source=item_id, size=asked, reads=corpus_id
                        )
                    continue
                for query_id in queries:
                    item_id = semantic_hash({**content, "query": query_id})[:32]
                    yield benchmark.Item(item_id, data={**data, "query": query_id, "queries": 1}, source=source)

    def queues(self) -> Mapping[str, benchmark.Queue]:
        return {"": benchmark.Queue(tuple(self.retrievers.services))}

    def prepare(self, source: str, items: Sequence[benchmark.Item]) -> benchmark.Prepared:
        """See `Workload`. Returns the rankings of a corpus. For a retriever that calls a service, returns only the results of
        local models."""
        corpus_id, retriever = items[0].data["corpus"], items[0].data["retriever"]
        try:
            corpus = self.corpora.corpus(corpus_id)
            if retriever in self.retrievers.asking:
                self.retrievers.compute_local_part(corpus, retriever)
                return benchmark.Prepared()
            place, n = items[0].data.get("share", (0, 1))
            queries = corpus.queries[place::n]
            rankings, missing = self.retrievers.rankings_by_query(corpus, retriever, queries)
        # A user-defined retriever may raise anything. Its exception becomes a failure row, and the other rows continue.
        except BaseException as error:  # noqa: BLE001
            return benchmark.Prepared(problem=no_ranking(error), stage=STAGE)
        found = ((query, rankings[query.query_id]) for query in queries if query.query_id in rankings)
        rows = {**self._rows(corpus, retriever, found), **self.retrievers.cut_rows(corpus_id, retriever)}
        return benchmark.Prepared(rows, shared=missing)

    async def answer(self, item: benchmark.Item, ask: benchmark.Ask) -> benchmark.Rows:
        """See `Workload`. Returns the ranking of a retriever that calls a service. For any other retriever, reports why it
        has no ranking."""
        if (retriever := item.data["retriever"]) not in self.retrievers.asking:
            for message in (ask.prepared or {}).values():
                ask.fail(STAGE, missing_scores(message))
            return {}
        corpus = await asyncio.to_thread(self.corpora.corpus, item.data["corpus"])
        query = next(one for one in corpus.queries if one.query_id == item.data["query"])
        ranking = await self.retrievers.ranking_or_failure(ask, corpus, retriever, query, STAGE)
        if ranking is None:
            return {}
        return {
            **self._rows(corpus, retriever, [(query, ranking)]),
            **self.retrievers.cut_rows(corpus.corpus_id, retriever, query.query_id),
        }

    def _rows(self, corpus: Corpus, retriever: str, found: Iterable[tuple[Query, Sequence[Ranked]]]) -> benchmark.Rows:
        whole, budget = retriever in self.retrievers.unordered, self.spec.token_budget
        depth = max(self.spec.depth, *self.spec.k)
        by_query = [ranking_rows(corpus, retriever, *one, whole=whole, token_budget=budget, depth=depth) for one in found]
        return {table.name: [row for rows in by_query for row in rows[table.name]] for table in RANKING_TABLES}

    def score(self, tables: benchmark.RunTables) -> benchmark.Tables:
        items = tables["items"]
        expected = {name: int(items.filter(retriever=name)["queries"].sum()) for name in self.retrievers}
        ranked, ks = retrieved_of(tables, max(self.spec.k)), self.spec.k
        return {"retrieval": retrieval_table(ranked, ks, expected, self.retrievers.unordered)}

    def by_query(self, tables: benchmark.RunTables) -> benchmark.ByQuery:
        return retrieval_by_query(retrieved_of(tables, max(self.spec.k)), self.spec.k, self.retrievers.unordered, self.retrievers)

    def report(self, scores: benchmark.Tables) -> Sequence[benchmark.Section]:
        return [retrieval_section(scores["retrieval"], self.spec.token_budget)]

    def computations(self, items: Sequence[benchmark.Item], actors: int = 1) -> Sequence[Mapping[str, Any]]:
        return self.retrievers.corpora_to_compute(((item.data["corpus"], item.data["retriever"]) for item in items), actors)

    def compute(self, part: Mapping[str, Any]) -> Mapping[str, float]:
        return self.retrievers.compute_part(self.corpora.corpus(part["corpus"]), part)

    def sketch(self, source: str, items: Sequence[benchmark.Item]) -> benchmark.Prepared:
        """See `Workload`. Returns nothing, since the plan does not depend on rankings."""
        return benchmark.Prepared()

    def details(self, scores: benchmark.Tables) -> Mapping[str, Any]:
        return retrieval_details(scores["retrieval"])

    def results(self, tables: benchmark.RunTables) -> benchmark.Results:
        """See `Workload`. Adds the queries in which word retrievers find nothing, and the texts that models do not fully read."""
        results = super().results(tables)
        found = [*self.retrievers.unmatched_words(tables.run, "ranked", "corpus_id", "query_id"), *cut_warnings(tables.run)]
        return replace(
            results,
            make_details=lambda: {**results.details, "cut_texts": cut_texts(tables.run)},
            warnings=(*results.warnings, *found),
        )

    def own_code(self) -> Sequence[str]:
        return [*super().own_code(), *own_code(self.spec.retrievers)]


def _with_values(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value. Fields without a value are omitted, so that earlier identities stay the same."""
    return {name: value for name, value in fields.items() if value}


def retrieval_alone(kind: type[Any], fields: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Convert a spec's fields for a run that only retrieves. Raises SpecError if the benchmark has no such runs."""
    if issubclass(kind, Retrieving):
        return fields
    if not hasattr(kind, "retrieval_fields"):
        raise SpecError(f"{where}: a spec of kind {kind.kind!r} has no retrievers; give a spec with retrievers")
    converted: Mapping[str, Any] = kind.retrieval_fields(fields, where)
    return converted


def write_trec(run: benchmark.RunStore, folder: Path) -> list[Path]:
    """Write a run's rankings as RETRIEVER.run and its relevance as `qrels`; returns the paths. A query id that occurs in
    several corpora is prefixed with its corpus id. Raises UserError, before writing, if a file exists."""
    keys = ["retriever", "corpus_id", "query_id"]
    ranked, retrieved = run.table("ranked").sort(*keys, "rank"), run.table("retrieved").sort(*keys)
    queries = retrieved.unique(["corpus_id", "query_id"], maintain_order=True)
    shared = Counter(queries["query_id"])

    def name(corpus_id: str, query_id: str) -> str:
        return query_id if shared[query_id] == 1 else long_name(corpus_id, query_id)

    texts = {
        "qrels": "".join(
            qrels_lines(name(row["corpus_id"], row["query_id"]), dict(zip(row["gold"], row["grades"], strict=True)))
            for row in queries.iter_rows(named=True)
        )
    }
    tags: dict[str, str] = {}
    for retriever in ranked["retriever"].unique(maintain_order=True):
        tag = _UNSAFE.sub("_", retriever)
        tags[retriever] = tag if tag not in tags.values() else f"{tag}-{len(tags) + 1}"
    for (retriever, corpus_id, query_id), rows in ranked.group_by(keys, maintain_order=True):
        tag = tags[str(retriever)]
        lines = run_lines(name(str(corpus_id), str(query_id)), rows["document_id"].to_list(), tag, rows["score"].to_list())
        texts[f"{tag}.run"] = texts.get(f"{tag}.run", "") + lines
    return write_new(folder, texts)


def write_beir(workload: Any, folder: Path) -> list[Path]:
    """Write each corpus of a run as a BEIR folder with the corpus's name; returns the paths.

    `workload` has `corpora`, like `Retrieving`. Raises UserError, before writing, if a file exists.
    """
    texts: dict[str, str] = {}
    for corpus_id in workload.corpora.queries():
        corpus = workload.corpora.corpus(corpus_id)
        subfolder = _UNSAFE.sub("_", corpus.name).lstrip(".") or corpus_id[:12]
        subfolder = subfolder if f"{subfolder}/corpus.jsonl" not in texts else f"{subfolder}-{corpus_id[:12]}"
        texts |= {f"{subfolder}/{path}": text for path, text in beir_files(corpus).items()}
    return write_new(folder, texts)
