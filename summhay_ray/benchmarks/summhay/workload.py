"""The SummHay benchmark for the engine: how the cells of its grid are prepared, answered, judged and read.

`Summaries` reads a run of summaries, made here or imported; `SummHay` makes one.
"""

import functools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import polars as pl

from summhay_ray import benchmark, retrieve
from summhay_ray.benchmarks import retrieval
from summhay_ray.benchmarks.retrieval import own_code
from summhay_ray.benchmarks.summarizing import INPUT, strategy_name, unused_retrievers
from summhay_ray.benchmarks.summhay.grid.grid import STAGE as JUDGE_STAGE
from summhay_ray.benchmarks.summhay.grid.grid import Cell, Grid, OfHaystacks, Unit
from summhay_ray.benchmarks.summhay.grid.judgments import judge_all
from summhay_ray.benchmarks.summhay.grid.replay import Replay
from summhay_ray.benchmarks.summhay.grid.retrieval import HaystackRetrieval, RetrievalSpec
from summhay_ray.benchmarks.summhay.grid.summaries import ask_context, make_context, summarize_cell
from summhay_ray.benchmarks.summhay.haystacks.export import export
from summhay_ray.benchmarks.summhay.haystacks.metadata import TABLES, HaystackMetadata, haystack_rows, keep_metadata
from summhay_ray.benchmarks.summhay.haystacks.sources import BY_GRAMMAR, by_store, expand_entries, haystack_warnings
from summhay_ray.benchmarks.summhay.results.compare import scores_of_record
from summhay_ray.benchmarks.summhay.results.explain import explain, places
from summhay_ray.benchmarks.summhay.results.judges import judge_of_record
from summhay_ray.benchmarks.summhay.results.labels import read_labels
from summhay_ray.benchmarks.summhay.results.other_figures import absent_queries, claims_section
from summhay_ray.benchmarks.summhay.results.scores import ScoreResult, score_run
from summhay_ray.benchmarks.summhay.spec import SummhaySpec
from summhay_ray.errors import SpecError
from summhay_ray.metrics import MAY_BE_UNREAD, Compat, read_citations
from summhay_ray.plugins import unknown
from summhay_ray.records import CitedAnswer, CitedAnswers, Context, system_label
from summhay_ray.sections import Samples
from summhay_ray.text import semantic_hash

S = TypeVar("S", bound=benchmark.Spec)

SHORTEST_BULLET = 10
"""Tokens of the shortest bullet that a plan assumes. A summary of only such bullets makes its judge's prompt the longest."""
_BULLET = "- " + "one of the words of a bullet point " * 4 + "[12][34][56]"
_SHORT_BULLET = "- six words of a short bullet"


def _unread_citations(run: benchmark.RunStore, compat: Compat) -> Iterator[str]:
    """Warn about each system whose text has brackets that look like citations, but could not be read or refer to no document."""
    if compat == "release":
        return
    by_label: dict[str, list[str]] = {}
    named = ["retriever", "ordering", "model"]
    for piece in run.pieces("summaries", [*named, "bullets"]):
        bullets = piece.explode("bullets").filter(pl.col("bullets").str.contains(MAY_BE_UNREAD))
        for *system, bullet in bullets.select(*named, "bullets").iter_rows():
            read = read_citations(bullet)
            by_label.setdefault(system_label(*system), []).extend([*read.unread, *read.unknown])
    for label, some in sorted(by_label.items()):
        if some:
            brackets = "bracket was" if len(some) == 1 else "brackets were"
            mend = "docs/explanation/numbers.md lists the forms that are"
            yield f"{label}: {len(some)} {brackets} not read as a citation, such as {some[0][:80]!r}; {mend}"


def _missing_documents(run: benchmark.RunStore, metadata: Sequence[HaystackMetadata]) -> list[str]:
    """A warning if summaries cite numbers that no document of their haystack has, which scores count as wrong citations."""
    sizes = pl.DataFrame([(one.haystack_id, one.n_documents) for one in metadata], ["haystack_id", "size"], orient="row")
    numbers = pl.col("bullets").str.extract_all(r"\[\d{1,9}(?:[,;\s]+\d{1,9})*\]").list.join(" ").str.extract_all(r"\d+")
    absent = (pl.col("number").cast(pl.Int64) < 1) | (pl.col("number").cast(pl.Int64) > pl.col("size"))
    named = ["retriever", "ordering", "model"]
    cited = (
        piece.explode("bullets").with_columns(number=numbers)
        for piece in run.pieces("summaries", ["haystack_id", *named, "bullets"])
    )
    found = [one for piece in cited if (one := piece.explode("number").join(sizes, on="haystack_id").filter(absent)).height]
    if not found:
        return []
    number, size, *system = found[0].select("number", "size", *named).row(0)
    n = sum(one.height for one in found)
    such = f"such as [{number}] by {system_label(*system)}, where the haystack has {size} documents"
    return [f"{n:,} citations name no document, {such}" if n > 1 else f"1 citation names no document, {such}"]


class Summaries(OfHaystacks[S]):
    """A run of summaries of haystacks, made here or imported."""

    grid: Grid | None = None
    """The cells of a run that is made here."""

    def score(self, tables: benchmark.RunTables) -> ScoreResult:
        """See `Workload`. Returns the scores of every system (section 4.1, Table 2); the report also needs those by later
        judges."""
        options = tables.options
        labels = read_labels(Path(options.labels)) if options.labels else None
        workload = None if self.grid is None else self
        return score_run(tables.run, options.compat, rejudged=options.whole, labels=labels, workload=workload)

    def report(self, scores: ScoreResult) -> Sequence[benchmark.Section]:
        """See `Workload`. Returns claims and retrieval; the terminal has its own tables for scores."""
        budget = scores.stored.record.get("spec", {}).get("token_budget")
        claims = claims_section(scores.by_query, scores.judge)
        ranked = None if scores.retrieval is None else retrieval.retrieval_section(scores.retrieval, budget)
        return [section for section in (claims, ranked) if section is not None]

    def full_report(self, scores: ScoreResult, tables: benchmark.RunTables) -> Sequence[benchmark.Section]:
        from summhay_ray.benchmarks.summhay.results.paper_tables import sections

        return sections(scores, tables.options.judge)

    def details(self, scores: ScoreResult) -> Mapping[str, Any]:
        return scores.details()

    def results(self, tables: benchmark.RunTables) -> benchmark.Results:
        """See `Workload`. Adds warnings about the haystacks: limits of confidence in mined ones, their flaws, and whether
        templates or a model wrote their prose. Also adds queries in which word retrievers find nothing, and texts that models
        do not fully read."""
        results = super().results(tables)
        metadata: Sequence[HaystackMetadata] = results.scores.metadata
        n = sum(haystack.by_grammar for haystack in metadata)
        notes = (f"the prose of {n} of {len(metadata)} haystacks is {BY_GRAMMAR}",) if n else ()
        mined = any(haystack.facts for haystack in metadata)
        warnings = [
            *(results.scores.health().lines() if mined else ()),
            *(warning for haystack in metadata for warning in haystack.warnings),
            *_unread_citations(tables.run, tables.options.compat),
            *_missing_documents(tables.run, metadata),
        ]
        if self.grid is not None:
            absent = absent_queries(metadata)
            warnings += self.grid.retrievers.unmatched_words(tables.run, "rankings", *absent.columns, apart=absent)
            warnings += retrieval.cut_warnings(tables.run)
        judge = judge_of_record(tables.run, tables.options.judge)
        compared = scores_of_record(results.scores, tables.options.judge) if tables.options.whole else None
        return replace(results, warnings=tuple(warnings), notes=notes, judge=judge, compared=compared)

    def samples(self, run: benchmark.RunStore, judge: str = "") -> Samples:
        """See `Workload`. Returns each summary with its judgments."""
        from summhay_ray.benchmarks.summhay.results.samples import samples

        return samples(None if self.imported else self, run, judge)

    def explain(self, run: benchmark.RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
        """See `Workload`. Prompts are absent if no call was made."""
        return explain(None if self.imported else self, run, run, key, compat)

    def places(self, run: benchmark.RunStore, item_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        return places(run, item_ids, None if self.imported else self)

    def cited_answers(self, run: benchmark.RunStore) -> CitedAnswers:
        """See `Workload`. Returns the summaries, and the documents shown for each, if the run has them."""
        contexts = dict(run.table("contexts").select("context_id", "numbers").iter_rows())
        texts = run.table("documents").sort("haystack_id", "number")
        documents = {
            str(name): list(of.select("document_id", "text").iter_rows())
            for (name,), of in texts.group_by("haystack_id", maintain_order=True)
        }
        rows = run.table("summaries").with_columns(
            pl.when(pl.col("repeat") > 0).then(pl.format("{}#{}", "system", "repeat")).otherwise("system").alias("system")
        )
        answers = [
            CitedAnswer(
                row["haystack_id"],
                row["subtopic_id"],
                row["system"],
                tuple(row["bullets"]),
                tuple(documents[row["haystack_id"]][number - 1][0] for number in contexts[row["context_id"]])
                if row["context_id"] in contexts
                else None,
                system_label(row["retriever"], row["ordering"], row["model"]) + (f"#{row['repeat']}" if row["repeat"] else ""),
                *(row["model"], row["retriever"], row["ordering"]),
            )
            for row in rows.sort("haystack_id", "subtopic_id", "system").iter_rows(named=True)
        ]
        return CitedAnswers(documents, answers)

    def export(self, run: benchmark.RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`. Writes JSON files in the released format."""
        return export(run, folder, judge)


class SummHay(Summaries[SummhaySpec]):
    """A grid of cells: retrieve, order, summarize, judge, score."""

    kind = "summhay"
    stages = (
        benchmark.Stage("context"),
        benchmark.Stage("embed"),
        benchmark.Stage("rerank"),
        benchmark.Stage("search"),
        benchmark.Stage("summarize"),
        JUDGE_STAGE,
    )
    tables = (*TABLES, retrieval.CUT_TEXTS)
    counted = benchmark.Counted("cells", "judgments")
    record_fields: ClassVar[Mapping[str, Any]] = {**OfHaystacks.record_fields, retrieval.UNORDERED: list[str] | None}
    grid: Grid

    def __init__(self, spec: SummhaySpec, inputs: benchmark.Inputs) -> None:
        super().__init__(retrieval.with_retrievers(expand_entries(spec, inputs), inputs), inputs)
        self.grid = Grid(self.spec, inputs, self.models)
        self.own_models = (lambda: Replay(self.grid.haystacks.file),)
        self._ranked = functools.lru_cache(maxsize=64)(self._rank)
        self._computed: set[tuple[str, str]] = set()

    @classmethod
    def retrieval_fields(cls, fields: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """Return the fields of a spec that `summhay retrieve` uses. Raises SpecError for a field that neither kind has."""
        own, others = RetrievalSpec.model_fields, SummhaySpec.model_fields
        for name in fields:
            if name not in own and name not in others:
                raise SpecError(f"{where}: {unknown('field', name, {*own, *others})}")
        return {**{name: value for name, value in fields.items() if name in own}, "kind": HaystackRetrieval.kind}

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

    def items(self) -> Iterator[benchmark.Item]:
        """See `Workload`. Yields a cell for each unit, summarizer and repeat. Goes haystack by haystack, so that calls with a
        common prompt prefix are adjacent."""
        grid, retrievers = self.grid, self.grid.retrievers
        ways = [(retriever, ordering) for retriever in retrievers for ordering in grid.orderings_of(retriever)]
        units = (
            (Unit(haystack.haystack_id, subtopic.subtopic_id, retriever, ordering), n_insights * len(self.spec.judges))
            for haystack in grid.haystacks.metadata
            for retriever, ordering in ways
            for subtopic, n_insights in zip(haystack.subtopics, haystack.n_insights, strict=True)
        )
        summarizers = [(summarizer.label, grid.entries.semantic(summarizer)) for summarizer in self.spec.summarizers]
        named, known = functools.cache(grid.named), functools.cache(retrievers.identity)
        for unit, size in units:
            shared = f"{unit.haystack_id}/{unit.retriever}/{unit.ordering}" if unit.retriever in retrievers.unordered else ""
            content = {
                "haystack_id": unit.haystack_id,
                "subtopic_id": unit.subtopic_id,
                "retriever": known(unit.retriever),
                "ordering": named(unit.ordering),
                "seed": self.spec.seed,
                "token_budget": self.spec.token_budget,
            }
            place = (unit.haystack_id, unit.subtopic_id, unit.retriever, unit.ordering)
            source = "/".join(place)
            for index, (label, semantic) in enumerate(summarizers):
                system, first = grid.systems[unit.retriever, unit.ordering, index], ""
                for repeat in range(self.spec.repeats):
                    cell_id = semantic_hash({**content, "summarizer": semantic, "repeat": repeat})[:32]
                    data = {"unit": place, "summarizer": index, "repeat": repeat, "system": system}
                    yield benchmark.Item(cell_id, label, data, source, shared, size, first, unit.haystack_id)
                    first = first or cell_id

    def n_items(self) -> int:
        """See `Workload`. Returns the number of cells without listing them."""
        n_ways = sum(len(self.grid.orderings_of(retriever)) for retriever in self.grid.retrievers)
        queries = sum(len(haystack.n_insights) for haystack in self.grid.haystacks.metadata)
        n: int = queries * n_ways * len(self.spec.summarizers) * self.spec.repeats
        return n

    def queues(self) -> Mapping[str, benchmark.Queue]:
        """See `Workload`. Returns one queue per summarizer. Each also needs every judge's model, and the retrievers' services."""
        settings = self.models.settings()
        others = tuple(dict.fromkeys([*(part.model for part in self.spec.parts()), *self.grid.retrievers.services]))
        return {
            summarizer.label: benchmark.Queue((*summarizer.models, *others), computes=settings[summarizer.model].local)
            for summarizer in self.spec.summarizers
        }

    def prepare(self, source: str, items: Sequence[benchmark.Item], planned: bool = False) -> benchmark.Prepared:
        """See `Workload`. Makes the ranking and the context of a unit. If the retriever calls a service, `answer` makes both,
        and this computes only what local models contribute. `planned`: make a context of the real length, without vectors."""
        unit, retrievers, haystacks = Unit(*items[0].data["unit"]), self.grid.retrievers, self.grid.haystacks
        if unit.retriever not in retrievers.asking:
            # Retrievers that only rank in batches rank all queries of a haystack together.
            context, rankings, problem = make_context(
                self.grid,
                haystacks[unit.haystack_id],
                unit,
                lambda: self._ranked(
                    unit.haystack_id,
                    unit.retriever,
                    unit.subtopic_id if hasattr(retrievers.retriever(unit.retriever), "rank") else None,
                    planned,
                )[unit.subtopic_id],
            )
            if context is None:
                return benchmark.Prepared(problem=problem, stage="context")
            cut = retrievers.cut_rows(unit.haystack_id, unit.retriever)
            return benchmark.Prepared({"rankings": rankings, "contexts": [context], **cut}, shared=asdict(context))
        place = (unit.haystack_id, unit.retriever)
        try:
            if not planned and place not in self._computed:
                retrievers.compute_local_part(retrieve.corpus_of(haystacks[unit.haystack_id]), unit.retriever)
                self._computed.add(place)
        # User-defined retrievers run here. Any exception becomes a failure row.
        except BaseException as error:  # noqa: BLE001
            return benchmark.Prepared(problem=retrieval.no_ranking(error), stage="context")
        return benchmark.Prepared()

    def sketch(self, source: str, items: Sequence[benchmark.Item]) -> benchmark.Prepared:
        """See `Workload`. Makes a context as long as the real one, without computing vectors."""
        return self.prepare(source, items, planned=True)

    def _rank(
        self, haystack_id: str, retriever: str, subtopic_id: str | None, planned: bool
    ) -> Mapping[str, Sequence[retrieve.Ranked]]:
        """Map each query to its ranking, for one query of a haystack or for all of them."""
        corpus = retrieve.corpus_of(self.grid.haystacks[haystack_id])
        queries = [query for query in corpus.queries if subtopic_id is None or query.query_id == subtopic_id]
        rankings = self.grid.retrievers.planned_rankings if planned else self.grid.retrievers.rankings
        return dict(zip((query.query_id for query in queries), rankings(corpus, retriever, queries), strict=True))

    def input_rows(self, name: str) -> benchmark.Rows:
        """See `Workload`. Returns the rows of a haystack."""
        return haystack_rows(self.grid.haystacks.file(name))

    async def answer(self, item: benchmark.Item, ask: benchmark.Ask) -> benchmark.Rows:
        """See `Workload`. Answers one cell. Returns the rows of its summary, its judgments and its scores."""
        cell = Cell.of(item)
        rows: benchmark.Rows = {}
        if cell.unit.retriever in self.grid.retrievers.asking:
            context, rows = await ask_context(self.grid, cell.unit, ask)
            if context is None:
                return {}
        else:
            context = Context(**{**ask.prepared, "numbers": tuple(ask.prepared["numbers"])})
        # The haystack is in memory only during summarizing. A cell that waits to be judged keeps the small reference.
        summary, truth = await summarize_cell(self.grid, cell, context, ask)
        if summary is None:
            return rows
        return {**rows, "summaries": [summary], **await judge_all(self.grid.entries, cell, summary, truth, ask)}

    def computations(self, items: Sequence[benchmark.Item], actors: int = 1) -> Sequence[Mapping[str, Any]]:
        """See `Workload`. Returns one part per haystack that local models must embed or score."""
        units = dict.fromkeys(Unit(*item.data["unit"]) for item in items)
        return self.grid.retrievers.corpora_to_compute(((unit.haystack_id, unit.retriever) for unit in units), actors)

    def compute(self, part: Mapping[str, Any]) -> Mapping[str, float]:
        """See `Workload`. Computes the vectors and scores that the rankings of one haystack need."""
        return self.grid.retrievers.compute_part(retrieve.corpus_of(self.grid.haystacks[part["corpus"]]), part)

    def warnings(self) -> Sequence[str]:
        """See `Workload`. Returns oddities of the haystacks, and retrievers that have no effect."""
        unused = unused_retrievers(self.spec.summarizers, [*self.grid.retrievers])
        return [*haystack_warnings(self.grid.haystacks), *unused]

    def query_of(self, item: benchmark.Item) -> str:
        """See `Workload`. Returns the subtopic."""
        unit = Unit(*item.data["unit"])
        return self.grid.query_ids[unit.haystack_id, unit.subtopic_id]

    def fair_order(self, items: Sequence[benchmark.Item]) -> Sequence[benchmark.Item]:
        """See `Workload`. Goes query by query, in random order over all haystacks: every system answers a query before the
        next one begins. With `--limit`, systems are then compared on the same queries."""
        queries: dict[tuple[str, str], list[benchmark.Item]] = {}
        for item in items:
            unit = Unit(*item.data["unit"])
            queries.setdefault((unit.haystack_id, unit.subtopic_id), []).append(item)
        drawn = random.Random(self.spec.seed).sample(sorted(queries), len(queries))
        return [item for query in drawn for item in sorted(queries[query], key=lambda item: item.data["repeat"])]

    async def references(self, item: benchmark.Item) -> Sequence[str]:
        """See `Workload`. Returns the texts of the subtopic's insights."""
        unit = Cell.of(item).unit
        haystack = await self.grid.haystacks.fetch(unit.haystack_id)
        return [insight.text for insight in haystack.insights_of(unit.subtopic_id)]

    def guess(self, item: benchmark.Item, stage: str, size: str) -> str | None:
        """See `Workload`. Returns a stand-in for a summary that is not written yet. The judges' prompts depend on its length."""
        if stage != "summarize":
            return None
        cell, n_insights = Cell.of(item), max(1, item.size // len(self.spec.judges))
        if size == "least":
            return "-"
        longest = self.spec.summarizers[cell.summarizer].max_tokens
        bullets = [_BULLET] * n_insights if size == "expected" else [_SHORT_BULLET] * max(longest // SHORTEST_BULLET, n_insights)
        return "\n".join(bullets)

    def record(self, store: benchmark.Store) -> dict[str, Any]:
        """See `Workload`. Stores what is needed to rebuild the grid without the spec's files."""
        given = [answers.file for answers in self.models.given_answers.values()]
        self.grid.haystacks.keep(store)
        return {
            "spec": self.spec.model_dump(mode="json"),
            **self.grid.entries.record_fields(),
            **keep_metadata(store, self.grid.haystacks.metadata),
            "inputs": self.inputs.keep(store, retrieval.files(self.spec.retrievers)),
            "answers": {file: store.put_object(INPUT, self.inputs.read(file)) for file in given},
            retrieval.UNORDERED: sorted(self.grid.retrievers.unordered),
        }

    def by_store(self) -> Mapping[str, str]:
        return by_store(self.spec.haystacks, self.grid.haystacks)

    def keep_by_store(self, store: benchmark.Store) -> None:
        self.grid.haystacks.keep(store)

    def own_code(self) -> Sequence[str]:
        spec = self.spec
        strategies = [strategy_name(summarizer.strategy) for summarizer in spec.summarizers]
        strategies += [part.strategy for part in spec.parts()]
        extracts = [part.extract.method for part in spec.parts() if part.extract]
        names = [*spec.orderings, *strategies, *extracts]
        return [*super().own_code(), *own_code(spec.retrievers), *(name for name in names if ":" in name)]
