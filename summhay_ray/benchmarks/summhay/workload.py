"""The SummHay benchmark for the engine: how the cells of its grid are prepared, answered, judged and read."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from summhay_ray import retrieve
from summhay_ray.benchmark import Ask, Counted, Inputs, Item, Prepared, Queue, Results, Rows, RunStore, RunTables, Stage, Store
from summhay_ray.benchmarks.rating import extract_code
from summhay_ray.benchmarks.retrieval import (
    CUT_TEXTS,
    UNORDERED,
    cut_warnings,
    files,
    own_code,
    with_retrievers,
)
from summhay_ray.benchmarks.summarizing import keep_answers, strategy_name, unused_retrievers
from summhay_ray.benchmarks.summhay.grid.cells import Cell, Unit
from summhay_ray.benchmarks.summhay.grid.checks import check_grid
from summhay_ray.benchmarks.summhay.grid.contexts import Contexts
from summhay_ray.benchmarks.summhay.grid.entries import STAGE as JUDGE_STAGE
from summhay_ray.benchmarks.summhay.grid.entries import OfHaystacks
from summhay_ray.benchmarks.summhay.grid.grid import Grid
from summhay_ray.benchmarks.summhay.grid.judgments import judge_all
from summhay_ray.benchmarks.summhay.grid.replay import Replay
from summhay_ray.benchmarks.summhay.grid.retrieval import fields_for_retrieval
from summhay_ray.benchmarks.summhay.grid.summaries import summarize_cell
from summhay_ray.benchmarks.summhay.haystacks.haystack_rows import open_haystacks
from summhay_ray.benchmarks.summhay.haystacks.read_haystacks import by_store, doubts_of, with_made
from summhay_ray.benchmarks.summhay.haystacks.tables import TABLES
from summhay_ray.benchmarks.summhay.results.reader import Summaries
from summhay_ray.benchmarks.summhay.spec import SummhaySpec
from summhay_ray.records import Context
from summhay_ray.text import semantic_hash

SHORTEST_BULLET = 10
"""Tokens of the shortest bullet assumed in a plan. A summary of only such bullets makes its judge's prompt the longest."""
_BULLET = "- " + "one of the words of a bullet point " * 4 + "[12][34][56]"
_SHORT_BULLET = "- six words of a short bullet"


class SummHay(Summaries[SummhaySpec]):
    """A grid of cells: retrieve, order, summarize, judge, score."""

    kind = "summhay"
    stages = (Stage("context"), Stage("embed"), Stage("rerank"), Stage("search"), Stage("summarize"), JUDGE_STAGE)
    tables = (*TABLES, CUT_TEXTS)
    counted = Counted("cells", "judgments")
    record_fields: ClassVar[Mapping[str, Any]] = {**OfHaystacks.record_fields, UNORDERED: list[str] | None}

    def __init__(self, spec: SummhaySpec, inputs: Inputs) -> None:
        super().__init__(with_retrievers(with_made(spec, inputs), inputs), inputs)
        self.grid = Grid(self.spec, inputs, self.models)
        self.own_models = (lambda: Replay(self.grid.haystacks.file),)
        self._contexts = Contexts(self.grid)
        if inputs.record is None:
            check_grid(self.grid)

    @classmethod
    def retrieval_fields(cls, fields: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """A spec's fields for `summhay retrieve`."""
        return fields_for_retrieval(fields, where)

    def identity(self) -> Any:
        """See `Workload`. Haystacks and prompts are identified by their content."""
        spec, grid = self.spec, self.grid
        orderings = {grid.named(ordering) for name in grid.retrievers for ordering in grid.orderings_of(name)}
        return {
            "kind": self.kind,
            "haystacks": sorted(haystack.haystack_id for haystack in grid.haystacks.metadata),
            "retrievers": grid.retrievers.identities(),
            "orderings": sorted(orderings),
            "token_budget": spec.token_budget,
            "repeats": spec.repeats,
            "summarizers": sorted(map(grid.entries.semantic, spec.summarizers), key=semantic_hash),
            "judges": sorted(map(grid.entries.semantic, spec.judges), key=semantic_hash),
            "seed": spec.seed,
        }

    def items(self) -> Iterator[Item]:
        """See `Workload`: the cells."""
        return self.grid.items()

    def n_items(self) -> int:
        """See `Workload`: the number of cells."""
        return self.grid.n_items()

    def queues(self) -> Mapping[str, Queue]:
        """See `Workload`: one queue per summarizer; each also needs every judge's model, and the retrievers' services."""
        settings = self.models.settings()
        others = tuple(dict.fromkeys([*(part.model for part in self.spec.parts()), *self.grid.retrievers.services]))
        return {
            summarizer.label: Queue((*summarizer.models, *others), computes=settings[summarizer.model].local)
            for summarizer in self.spec.summarizers
        }

    def prepare(self, source: str, items: Sequence[Item]) -> Prepared:
        """See `Workload`: the ranking and the context of a unit."""
        return self._contexts.prepared(Unit(*items[0].data["unit"]))

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """See `Workload`: one cell. Returns the rows of its summary, its judgments and its scores."""
        cell = Cell.of(item)
        rows: Rows = {}
        if cell.unit.retriever in self.grid.retrievers.asking:
            context, rows = await self._contexts.asked(cell.unit, ask)
            if context is None:
                return {}
        else:
            context = Context(**{**ask.prepared, "numbers": tuple(ask.prepared["numbers"])})
        # The haystack is in memory only during summarizing; a cell that waits to be judged keeps the small reference.
        summary, truth = await summarize_cell(self.grid, cell, context, ask)
        if summary is None:
            return rows
        return {**rows, "summaries": [summary], **await judge_all(self.grid.entries, cell, summary, truth, ask)}

    def computations(self, items: Sequence[Item], actors: int = 1) -> Sequence[Mapping[str, Any]]:
        """See `Workload`: one part per haystack that local models must embed or score."""
        units = dict.fromkeys(Unit(*item.data["unit"]) for item in items)
        return self.grid.retrievers.corpora_to_compute(((unit.haystack_id, unit.retriever) for unit in units), actors)

    def compute(self, part: Mapping[str, Any]) -> Mapping[str, float]:
        """See `Workload`: compute the vectors and scores that the rankings of one haystack need."""
        return self.grid.retrievers.compute_part(retrieve.corpus_of(self.grid.haystacks[part["corpus"]]), part)

    def sketch(self, source: str, items: Sequence[Item]) -> Prepared:
        """See `Workload`: a context as long as the real one, made without computing vectors."""
        return self._contexts.prepared(Unit(*items[0].data["unit"]), planned=True)

    def warnings(self) -> Sequence[str]:
        """See `Workload`: oddities of the haystacks, and retrievers that have no effect."""
        unused = unused_retrievers(self.spec.summarizers, [*self.grid.retrievers])
        return [*doubts_of(self.grid.haystacks), *unused]

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

    async def references(self, item: Item) -> Sequence[str]:
        """See `Workload`: the texts of the subtopic's insights."""
        unit = Cell.of(item).unit
        haystack = await self.grid.haystacks.fetch(unit.haystack_id)
        return [insight.text for insight in haystack.insights_of(unit.subtopic_id)]

    def guess(self, item: Item, stage: str, size: str) -> str | None:
        """See `Workload`: a stand-in for a summary not yet written. The judges' prompts depend on its length."""
        if stage != "summarize":
            return None
        cell, n_insights = Cell.of(item), max(1, item.size // len(self.spec.judges))
        if size == "least":
            return "-"
        longest = self.spec.summarizers[cell.summarizer].max_tokens
        bullets = [_BULLET] * n_insights if size == "expected" else [_SHORT_BULLET] * max(longest // SHORTEST_BULLET, n_insights)
        return "\n".join(bullets)

    def results(self, tables: RunTables) -> Results:
        """See `Workload`. Adds queries in which word retrievers find nothing, and texts that models do not read."""
        scored = super().results(tables)
        unmatched = self.grid.retrievers.unmatched_words(tables.run, "rankings", "haystack_id", "subtopic_id")
        return replace(scored, warnings=(*scored.warnings, *unmatched, *cut_warnings(tables.run)))

    def record(self, store: Store) -> dict[str, Any]:
        """See `Workload`: enough to rebuild the grid without the spec's files."""
        return {
            "spec": self.spec.model_dump(mode="json"),
            **self.grid.entries.recorded(),
            **self.grid.haystacks.recorded(store),
            "inputs": self.inputs.keep(store, files(self.spec.retrievers)),
            "answers": keep_answers(self.models, self.inputs, store),
            UNORDERED: sorted(self.grid.retrievers.unordered),
        }

    def by_store(self) -> Mapping[str, str]:
        return by_store(self.spec.haystacks, self.grid.haystacks)

    def keep_by_store(self, store: Store) -> None:
        self.grid.haystacks.keep(store)

    def on_open(self, run: RunStore) -> None:
        """See `Workload`. Writes the tables of the haystacks."""
        open_haystacks(run, self.grid.haystacks)

    def own_code(self) -> Sequence[str]:
        spec = self.spec
        strategies = [strategy_name(summarizer.strategy) for summarizer in spec.summarizers]
        strategies += [part.strategy for part in spec.parts()]
        names = [*spec.orderings, *strategies]
        extracts_code = extract_code(*(part.extract for part in spec.parts()))
        return [*super().own_code(), *own_code(spec.retrievers), *(name for name in names if ":" in name), *extracts_code]
