"""The SummHay benchmark for the engine: which cells a run has, and how each is answered, judged and scored.

A cell is haystack x query x retriever x ordering x summarizer x repeat (paper, sections 3.3 and 5). Ids depend on content alone:
the same spec and the same files give the same run, cells and keys on every machine.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, replace
from typing import TYPE_CHECKING, Any

from summhay_ray import retrieve
from summhay_ray.benchmark import (
    Ask,
    Compat,
    Counted,
    Inputs,
    Item,
    Prepared,
    Queue,
    Results,
    Rows,
    RunStore,
    Size,
    Stage,
    Store,
    semantic_hash,
)
from summhay_ray.benchmarks.rating import lever_code
from summhay_ray.benchmarks.retrieval import (
    CUT_TEXTS,
    UNORDERED,
    Retrievers,
    cut_warnings,
    files,
    no_ranking,
    own_code,
    with_retrievers,
)
from summhay_ray.benchmarks.summarizing import keep_answers, strategy_name
from summhay_ray.benchmarks.summhay.grid.cell import judge_all, summarize_cell
from summhay_ray.benchmarks.summhay.grid.cells import Cell, Unit
from summhay_ray.benchmarks.summhay.grid.checks import check_grid
from summhay_ray.benchmarks.summhay.grid.contexts import Ranker, make_context
from summhay_ray.benchmarks.summhay.grid.judging import STAGE as JUDGE_STAGE
from summhay_ray.benchmarks.summhay.grid.judging import prompts_of
from summhay_ray.benchmarks.summhay.grid.retrieval import retrieval_fields
from summhay_ray.benchmarks.summhay.haystacks.from_haystacks import by_store, doubts_of, haystacks_of, with_made
from summhay_ray.benchmarks.summhay.haystacks.opening import open_haystacks
from summhay_ray.benchmarks.summhay.haystacks.tables import TABLES
from summhay_ray.benchmarks.summhay.results.summarized import Summarized
from summhay_ray.benchmarks.summhay.spec import SummhaySpec
from summhay_ray.haystack import system_key
from summhay_ray.records import Context

if TYPE_CHECKING:
    from summhay_ray.citations import CitedCorpora

SHORTEST_BULLET = 10
"""Tokens of the shortest bullet assumed in a plan. A summary of only such bullets makes its judge's prompt the longest."""
_BULLET = "- " + "one of the words of a bullet point " * 4 + "[12][34][56]"
_SHORT_BULLET = "- six words of a short bullet"


class SummHay(Summarized[SummhaySpec]):
    """A grid of cells: retrieve, order, summarize, judge, score."""

    kind = "summhay"
    stages = (Stage("context"), Stage("embed"), Stage("rerank"), Stage("search"), Stage("summarize"), JUDGE_STAGE)
    tables = (*TABLES, CUT_TEXTS)
    counted = Counted("cells", "judgments")
    recorded = ("spec", "prompts", "haystacks", "cells")
    retrieval_fields = staticmethod(retrieval_fields)

    def __init__(self, spec: SummhaySpec, inputs: Inputs) -> None:
        super().__init__(with_retrievers(with_made(spec, inputs), inputs), inputs)
        self.retrievers = Retrievers(self.spec, inputs)
        self.haystacks = haystacks_of(self.spec.haystacks, inputs)
        self.prompts = prompts_of(spec.model_entries(), inputs)
        if inputs.record is None:
            check_grid(self)

    # --- what the run is: haystacks, prompts, systems -------------------------------------------------------------------

    def identity(self) -> Any:
        """See `Workload`. Haystacks and prompts are identified by their content."""
        spec = self.spec
        return {
            "kind": self.kind,
            "haystacks": sorted(source.haystack_id for source in self.haystacks.outlines),
            "retrievers": self.retrievers.identities(),
            "orderings": sorted({self._named(ordering) for name in self.retrievers for ordering in self.orderings_of(name)}),
            "token_budget": spec.token_budget,
            "repeats": spec.repeats,
            "summarizers": sorted((self.semantic(model) for model in spec.summarizers), key=semantic_hash),
            "judges": sorted((self.semantic(model) for model in spec.judges), key=semantic_hash),
            "seed": spec.seed,
        }

    def record(self, store: Store) -> dict[str, Any]:
        """See `Workload`: enough to rebuild the grid without the spec's files."""
        return {
            "spec": self.spec.model_dump(mode="json"),
            "prompts": dict(self.prompts),
            **self.haystacks.recorded(store),
            "judges": self.named_judges(),
            "inputs": self.inputs.keep(store, files(self.spec.retrievers)),
            "answers": keep_answers(self, store),
            UNORDERED: sorted(self.retrievers.unordered),
        }

    def doubts(self) -> Sequence[str]:
        return doubts_of(self.haystacks)

    def by_store(self) -> Mapping[str, str]:
        return by_store(self.spec.haystacks, self.haystacks)

    def keep_by_store(self, store: Store) -> None:
        self.haystacks.keep(store)

    def open(self, store: Store) -> RunStore:
        """See `Workload`. Writes the tables of the haystacks."""
        run = super().open(store)
        open_haystacks(run, self.haystacks)
        return run

    def own_code(self) -> Sequence[str]:
        spec = self.spec
        strategies = [strategy_name(summarizer.strategy) for summarizer in spec.summarizers]
        strategies += [part.strategy for part in spec.parts()]
        names = [*spec.orderings, *strategies]
        levers = lever_code(*(part.extract for part in spec.parts()))
        return [*super().own_code(), *own_code(spec.retrievers), *(name for name in names if ":" in name), *levers]

    @functools.cached_property
    def systems(self) -> dict[tuple[str, str, int], str]:
        """(retriever, ordering, summarizer index) -> the system's key as in the release; a longer key if two would share one."""
        combos = [
            (retriever, ordering, index)
            for retriever in self.retrievers
            for ordering in self.orderings_of(retriever)
            for index in range(len(self.spec.summarizers))
        ]
        labels = [summarizer.label for summarizer in self.spec.summarizers]
        short = {combo: system_key(combo[0], combo[1], labels[combo[2]]) for combo in combos}
        shared = Counter(short.values())
        return {combo: key if shared[key] == 1 else _long_key(combo, labels) for combo, key in short.items()}

    def _named(self, ordering: str) -> str:
        """An ordering's name; for a user's own (`module:function`) followed by the identity of its code."""
        return f"{ordering} {self.inputs.code(ordering)}".rstrip()

    def orderings_of(self, retriever: str) -> Sequence[str]:
        """Orderings apply to the whole haystack; retrieval keeps its ranking (paper, section 5.3)."""
        return self.spec.orderings if self.retrievers.is_whole(retriever) else ["given"]

    @functools.cached_property
    def support_indexes(self) -> CitedCorpora:
        """The free support judge's, for summarizers whose citations are repaired."""
        # Imported here: SciPy takes a while to load, and few runs repair citations.
        from summhay_ray.citations import CitedCorpora

        return CitedCorpora()

    # --- cells ----------------------------------------------------------------------------------------------------------

    def units(self) -> Iterator[Unit]:
        """All units, haystack by haystack, so that calls with a common prompt prefix are adjacent."""
        shown = [(retriever, ordering) for retriever in self.retrievers for ordering in self.orderings_of(retriever)]
        for source in self.haystacks.outlines:
            for retriever, ordering in shown:
                for subtopic in source.subtopics:
                    yield Unit(source.haystack_id, subtopic.subtopic_id, retriever, ordering)

    def items(self) -> Iterator[Item]:
        """See `Workload`: a cell for each unit, summarizer and repeat."""
        n_insights = self.insight_counts()
        summarizers = [(summarizer.label, self.semantic(summarizer)) for summarizer in self.spec.summarizers]
        named, known, whole = (
            functools.cache(function) for function in (self._named, self.retrievers.identity, self.retrievers.is_whole)
        )
        for unit in self.units():
            shared = f"{unit.haystack_id}/{unit.retriever}/{unit.ordering}" if whole(unit.retriever) else ""
            content = {
                **asdict(unit),
                "retriever": known(unit.retriever),
                "ordering": named(unit.ordering),
                "seed": self.spec.seed,
                "token_budget": self.spec.token_budget,
            }
            size = n_insights[unit.haystack_id, unit.subtopic_id] * len(self.spec.judges)
            for index, (label, semantic) in enumerate(summarizers):
                system, first = self.systems[unit.retriever, unit.ordering, index], ""
                named_unit = astuple(unit)
                for repeat in range(self.spec.repeats):
                    cell_id = semantic_hash({**content, "summarizer": semantic, "repeat": repeat})[:32]
                    data = {"unit": named_unit, "summarizer": index, "repeat": repeat, "system": system}
                    yield Item(cell_id, label, data, "/".join(named_unit), shared, size, first, unit.haystack_id)
                    first = first or cell_id

    def query_of(self, item: Item) -> str:
        """See `Workload`: the subtopic."""
        return Unit(*item.data["unit"]).subtopic_id

    def fair_order(self, items: Sequence[Item]) -> Sequence[Item]:
        """See `Workload`: queries in random order over all haystacks, each with every system before the next query.

        With `--limit`, systems are then compared on the same queries.
        """
        queries: dict[tuple[str, str], list[Item]] = {}
        for item in items:
            unit = Unit(*item.data["unit"])
            queries.setdefault((unit.haystack_id, unit.subtopic_id), []).append(item)
        drawn = random.Random(self.spec.seed).sample(sorted(queries), len(queries))
        return [item for query in drawn for item in sorted(queries[query], key=lambda item: item.data["repeat"])]

    def n_items(self) -> int:
        """See `Workload`: the number of cells, without listing them."""
        shown = sum(len(self.orderings_of(retriever)) for retriever in self.retrievers)
        queries = sum(len(source.subtopics) for source in self.haystacks.outlines)
        n: int = queries * shown * len(self.spec.summarizers) * self.spec.repeats
        return n

    def queues(self) -> Mapping[str, Queue]:
        """See `Workload`: one queue per summarizer; each also needs every judge's model, and the retrievers' services."""
        settings = self.models.settings()
        others = tuple(dict.fromkeys([*(part.model for part in self.spec.parts()), *self.retrievers.services]))
        return {
            summarizer.label: Queue((*summarizer.models, *others), computes=settings[summarizer.model].local)
            for summarizer in self.spec.summarizers
        }

    # --- retrieve and order (section 5.1), summarize, judge (section 4.1) ------------------------------------------------

    def prepare(self, source: str, items: Sequence[Item]) -> Prepared:
        """See `Workload`: the ranking and the context of a unit. If its retriever calls a service, `answer` makes them."""
        unit = Unit(*items[0].data["unit"])
        if unit.retriever not in self.retrievers.asking:
            return self._prepared(unit, self._ranked)
        try:
            self._computed_beside(unit.haystack_id, unit.retriever)
        # User-defined retrievers run here: any error of theirs becomes a failure row.
        except BaseException as error:  # noqa: BLE001
            return Prepared(problem=no_ranking(error), stage="context")
        return Prepared()

    def computing(self, items: Sequence[Item], actors: int = 1) -> Sequence[Mapping[str, Any]]:
        """See `Workload`: one part per haystack that local models must embed or score."""
        units = dict.fromkeys(Unit(*item.data["unit"]) for item in items)
        return self.retrievers.corpora_to_compute(((unit.haystack_id, unit.retriever) for unit in units), actors)

    def compute(self, part: Mapping[str, Any]) -> Mapping[str, float]:
        """See `Workload`: compute the vectors and scores that the rankings of one haystack need."""
        return self.retrievers.compute_part(retrieve.corpus_of(self.haystacks[part["corpus"]]), part)

    @functools.cached_property
    def _computed_beside(self) -> Callable[[str, str], None]:
        """Runs the local computations of a retriever that also calls a service, once for each haystack."""

        def compute(haystack_id: str, retriever: str) -> None:
            self.retrievers.compute_beside(retrieve.corpus_of(self.haystacks[haystack_id]), retriever)

        return functools.cache(compute)

    def sketch(self, source: str, items: Sequence[Item]) -> Prepared:
        """See `Workload`: a context as long as the real one, made without computing vectors."""
        unit = Unit(*items[0].data["unit"])
        return Prepared() if unit.retriever in self.retrievers.asking else self._prepared(unit, self._outlined)

    def _prepared(self, unit: Unit, ranked: Ranker) -> Prepared:
        context, rankings, problem = make_context(self, self.haystacks[unit.haystack_id], unit, ranked)
        if context is None:
            return Prepared(problem=problem, stage="context")
        rows: Rows = {"rankings": rankings, "contexts": [context], **self.retrievers.cut_rows(unit.haystack_id, unit.retriever)}
        return Prepared(rows, shared=asdict(context))

    @functools.cached_property
    def _ranked(self) -> Ranker:
        return self._ranker(self.retrievers.rankings)

    @functools.cached_property
    def _outlined(self) -> Ranker:
        return self._ranker(self.retrievers.planned_rankings)

    def _ranker(self, rankings: Callable[..., Sequence[Sequence[retrieve.Ranked]]]) -> Ranker:
        """A cached function that ranks one query. Retrievers that only rank in batches rank a haystack's queries together."""

        def rank(haystack_id: str, subtopic_id: str, retriever: str) -> Sequence[retrieve.Ranked]:
            corpus = retrieve.corpus_of(self.haystacks[haystack_id])
            (ranking,) = rankings(corpus, retriever, [query for query in corpus.queries if query.query_id == subtopic_id])
            return ranking

        def rank_all(haystack_id: str, retriever: str) -> Mapping[str, Sequence[retrieve.Ranked]]:
            corpus = retrieve.corpus_of(self.haystacks[haystack_id])
            return dict(zip((query.query_id for query in corpus.queries), rankings(corpus, retriever), strict=True))

        singly, at_once = functools.lru_cache(maxsize=64)(rank), functools.lru_cache(maxsize=16)(rank_all)
        return lambda haystack_id, subtopic_id, retriever: (
            singly(haystack_id, subtopic_id, retriever)
            if hasattr(self.retrievers.made(retriever), "rank")
            else at_once(haystack_id, retriever)[subtopic_id]
        )

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """See `Workload`: one cell. Returns the rows of its summary, its judgments and its scores."""
        cell = Cell.of(item)
        rows: Rows = {}
        if cell.unit.retriever in self.retrievers.asking:
            context, rows = await self._asked_context(cell.unit, ask)
            if context is None:
                return {}
        else:
            context = Context(**{**ask.prepared, "numbers": tuple(ask.prepared["numbers"])})
        # The haystack is in memory only during summarizing; a cell that waits to be judged keeps the small reference.
        summary, truth = await summarize_cell(self, cell, context, ask)
        return rows if summary is None else {**rows, "summaries": [summary], **await judge_all(self, cell, summary, truth, ask)}

    async def _asked_context(self, unit: Unit, ask: Ask) -> tuple[Context | None, Rows]:
        """The context of a unit whose retriever calls a service, and its rows; None if it failed: `ask` records the failure."""
        haystack = await self.haystacks.fetch(unit.haystack_id)
        corpus = retrieve.corpus_of(haystack)
        query = next(query for query in corpus.queries if query.query_id == unit.subtopic_id)
        ranking = await self.retrievers.ranking_or_failure(ask, corpus, unit.retriever, query, "context")
        if ranking is None:
            return None, {}
        context, rankings, problem = make_context(self, haystack, unit, lambda *_: ranking)
        if problem is not None:
            ask.fail("context", problem)
        cut = self.retrievers.cut_rows(unit.haystack_id, unit.retriever, unit.subtopic_id)
        return context, {"rankings": rankings, "contexts": [context], **cut} if context is not None else {}

    async def references(self, item: Item) -> Sequence[str]:
        """See `Workload`: the texts of the subtopic's insights."""
        unit = Cell.of(item).unit
        haystack = await self.haystacks.fetch(unit.haystack_id)
        return [insight.text for insight in haystack.insights_of(unit.subtopic_id)]

    def guess(self, item: Item, stage: str, size: Size) -> str | None:
        """See `Workload`: a stand-in for a summary not yet written. The judges' prompts depend on its length."""
        if stage != "summarize":
            return None
        cell, n_insights = Cell.of(item), max(1, item.size // len(self.spec.judges))
        if size == "least":
            return "-"
        longest = self.spec.summarizers[cell.summarizer].max_tokens
        bullets = [_BULLET] * n_insights if size == "expected" else [_SHORT_BULLET] * max(longest // SHORTEST_BULLET, n_insights)
        return "\n".join(bullets)

    # --- results and reports -----------------------------------------------------------------------------------------------

    def results(self, run: RunStore, compat: Compat = "default") -> Results:
        """See `Workload`: the scores of every system (section 4.1, Table 2)."""
        scored = super().results(run, compat)
        unmatched = self.retrievers.unmatched_words(run, "rankings", "haystack_id", "subtopic_id")
        return replace(scored, warnings=(*scored.warnings, *unmatched, *cut_warnings(run)))


def _long_key(combo: tuple[str, str, int], labels: Sequence[str]) -> str:
    retriever, ordering, index = combo
    return "_".join([retriever, *([] if ordering == "given" else [ordering]), labels[index]])
