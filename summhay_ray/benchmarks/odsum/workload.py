"""ODSum as a workload of the engine: make, measure and score the rankings and summaries of a run.

An item is one query x retriever x k x summarizer (paper, section 4). A summarizer is a model with a strategy (section 7). A run
without summarizers only ranks documents and measures the rankings.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from summhay_ray import benchmark, retrieve, summarize
from summhay_ray.benchmarks import retrieval, summarizing
from summhay_ray.benchmarks.odsum import measures
from summhay_ray.benchmarks.odsum.collection import Collection, as_file_name, json_lines
from summhay_ray.benchmarks.odsum.on_collection import COLLECTION, OnCollection
from summhay_ray.benchmarks.odsum.report import sections
from summhay_ray.benchmarks.odsum.retrieval import RETRIEVE, RankedCollection, shown_numbers
from summhay_ray.benchmarks.odsum.scores import by_query, details, frames
from summhay_ray.benchmarks.odsum.spec import BertScoreSpec, OdsumSpec, RougeSpec
from summhay_ray.benchmarks.odsum.tables import TABLES, DocumentRow, QueryRow, SummaryRow
from summhay_ray.benchmarks.rating import TOKENS_A_RATING, RatingTable
from summhay_ray.encoders import known_revision
from summhay_ray.errors import SpecError
from summhay_ray.inputs import write_new
from summhay_ray.local_models import check_model
from summhay_ray.outcome import Answer
from summhay_ray.plugins import UnknownName
from summhay_ray.records import CitedAnswer, CitedAnswers, Subtopic
from summhay_ray.summarize import Reducer, Shown, Task, make_summarizer
from summhay_ray.text import count_tokens, semantic_hash, sentences

_WORD = "word "
"""One token. A plan estimates an unknown summary by repeating it."""


@dataclass(frozen=True)
class OdsumCorpora(retrieval.Corpora):
    """The single corpus of an ODSum run."""

    collection: Collection

    def queries(self) -> Mapping[str, Sequence[str]]:
        collection = self.collection
        return {collection.corpus.corpus_id: [query.query_id for query in collection.queries]}

    def corpus(self, corpus_id: str) -> retrieve.Corpus:
        return self.collection.corpus


class Odsum(OnCollection[OdsumSpec]):
    """A grid over one collection: retrieve, summarize, measure."""

    kind = "odsum"
    stages = (
        *(benchmark.Stage("embed"), benchmark.Stage("rerank"), benchmark.Stage("search"), benchmark.Stage(RETRIEVE)),
        *(benchmark.Stage("summarize", output_tokens=300), benchmark.Stage("rate", output_tokens=TOKENS_A_RATING, example="3")),
    )
    tables = TABLES
    rates = RatingTable("odsum_ratings", ("item_id", "criterion", "reference"), "rater")
    record_fields: ClassVar[Mapping[str, Any]] = {**OnCollection.record_fields, retrieval.UNORDERED: list[str] | None}

    def __init__(self, spec: OdsumSpec, inputs: benchmark.Inputs) -> None:
        super().__init__(retrieval.with_retrievers(spec, inputs), inputs)
        self.retrievers = retrieval.Retrievers(self.spec, inputs)
        self._prompts = {entry.prompt: inputs.text(entry.prompt) for entry in spec.model_entries() if entry.prompt}
        self._ranked = RankedCollection(self.collection, self.retrievers, self.spec)
        # Stored runs are also read on machines without the models.
        if inputs.settled:
            return
        try:
            for summarizer in self.spec.summarizers:
                summarizing.check_strategy(summarizer.strategy)
                if summarizer.prompt:
                    summarize.check_prompt(self._prompts[summarizer.prompt])
            for model in self.spec.model_entries():
                check_model(model.model, self.inputs.folder)
            for index, entry in enumerate(self.spec.retrievers):
                with retrieval.located_errors(index):
                    retrieval.make_retriever(entry, self.spec.seed, self.retrievers.run_file)
            measures.check(self.spec)
        except (UnknownName, ValueError) as error:
            raise SpecError(f"spec: {error}") from error

    # --- identity of the run -----------------------------------------------------------------------------------------------

    @functools.cached_property
    def collection(self) -> Collection:
        collection = self._whole.drop_blank() if self.spec.drop_blank else self._whole
        try:
            return collection.of_splits(self.spec.splits)
        except ValueError as error:
            raise SpecError(f"spec: {error}") from error

    @functools.cached_property
    def corpora(self) -> retrieval.Corpora:
        """Return the collection, for `summhay export --kind beir`."""
        return OdsumCorpora(self.collection)

    @classmethod
    def retrieval_fields(cls, fields: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """Return a spec's fields for `summhay retrieve`: without summarizers, strategies and metrics."""
        others = ("summarizers", "strategies", "metrics", "words")
        return {name: value for name, value in fields.items() if name not in others}

    def identity(self) -> Any:
        """See `Workload`. The collection, prompts and files are identified by their content."""
        spec = self.spec.semantic()
        bert = self.spec.metric(BertScoreSpec)
        weights = known_revision(bert.bertscore) if bert else ""
        return {
            "kind": self.kind,
            "code": [self.inputs.code(name) for name in self.own_code()],
            "collection": self._whole.digest,
            "spec": {**spec, "summarizers": sorted(map(self._semantic, self.spec.summarizers), key=semantic_hash)},
            "retrievers": self.retrievers.identities(),
            "prompts": {
                "answer": summarize.prompt_identity("", "answer", steps=True),
                **{name: measures.criterion(name).prompt_hash for name in measures.CRITERIA},
            },
            **({"bertscore": weights} if weights else {}),
            # Runs that cut the oracle's rankings at k have another identity.
            **({"oracle": "all gold"} if self.spec.summarizers and any(map(self._ranked.is_oracle, self.retrievers)) else {}),
        }

    def _semantic(self, summarizer: summarizing.SummarizerSpec) -> dict[str, Any]:
        own = summarizer.model_dump(
            mode="json", include={"model", "name", "max_tokens", "temperature", "seed", "extra", "strategy"}
        )
        own |= {"prompt": self._prompts.get(summarizer.prompt or "", ""), **self.models.revision(summarizer.model)}
        if (merger := summarizer.reduce) is not None:
            own[summarizing.REDUCE] = {**merger.semantic(), **self.models.revision(merger.model)}
        return own

    # --- items ---------------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[benchmark.Item]:
        """Yield, for each retriever, its rankings and then its summaries. Answers from files come last, once per query.

        Rankings are items if a service makes them (one item per query), or if there are no summarizers (one item per
        retriever). Other rankings are made in `prepare`.
        """
        asked = [(place, summarizer) for place, summarizer in enumerate(self.spec.summarizers) if summarizer.answers is None]
        for retriever in self.retrievers:
            if retriever in self.retrievers.asking:
                for query in self.collection.queries:
                    data = {"query_id": query.query_id, "retriever": retriever}
                    yield benchmark.Item(f"retrieve/{retriever}/{query.query_id}", data=data, source=retriever)
            elif not asked:
                yield benchmark.Item(f"retrieve/{retriever}", data={"retriever": retriever}, source=retriever)
            # Go query by query: the prompts of a query share documents, whose sentences and token counts are cached for a while.
            for query in self.collection.queries:
                for k in self._ranked.cuts(retriever):
                    for place, summarizer in asked:
                        yield self._item(query.query_id, place, summarizer, retriever, k)
        # Answers from a file are attributed to a retriever and a k only if the spec has exactly one of each.
        only = next(iter(self.retrievers)) if len(self.retrievers) == 1 else None
        only = only if only and len(self._ranked.cuts(only)) == 1 else None
        for place, summarizer in enumerate(self.spec.summarizers):
            if summarizer.answers is not None:
                for query in self.collection.queries:
                    yield self._item(query.query_id, place, summarizer, only, self._ranked.cuts(only)[0] if only else None)

    def _item(
        self, query_id: str, place: int, summarizer: summarizing.SummarizerSpec, retriever: str | None, k: int | None
    ) -> benchmark.Item:
        cut = f"{retriever}@{k}/" if k else f"{retriever}/"
        where = cut if retriever and summarizer.answers is None else ""
        data = {
            "query_id": query_id,
            "retriever": retriever,
            "k": k,
            "strategy": summarizer.strategy_label,
            "summarizer": place,
            "called": summarizer.model_label,
        }
        source = retriever if retriever and summarizer.answers is None else ""
        return benchmark.Item(f"{query_id}/{where}{summarizer.label}", summarizer.model_label, data, source or "")

    def n_items(self) -> int:
        given = sum(summarizer.answers is not None for summarizer in self.spec.summarizers)
        asked, queries = len(self.spec.summarizers) - given, len(self.collection.queries)
        ranked = len(self.retrievers.asking) * queries + (0 if asked else len(self.retrievers) - len(self.retrievers.asking))
        return ranked + queries * (asked * sum(len(self._ranked.cuts(retriever)) for retriever in self.retrievers) + given)

    def queues(self) -> Mapping[str, benchmark.Queue]:
        """See `Workload`. Returns one queue per model, shared by its strategies; it includes the models that rate the model's
        summaries."""
        settings = self.models.settings()
        raters = tuple(rater.model for rater in self.spec.raters())
        models = {
            summarizer.model_label: benchmark.Queue((*summarizer.models, *raters), computes=settings[summarizer.model].local)
            for summarizer in self.spec.summarizers
        }
        return {"": benchmark.Queue(tuple(self.retrievers.services), computes=not self.retrievers.services), **models}

    def prepare(self, source: str, items: Sequence[benchmark.Item]) -> benchmark.Prepared:
        """Return a retriever's rankings for all queries, their scores at each k, and the document numbers per item. If the
        retriever calls a service, return only the vectors and scores of local models."""
        if not source:
            return benchmark.Prepared()
        corpus = self.collection.corpus
        try:
            if source in self.retrievers.asking:
                self.retrievers.compute_local_part(corpus, source)
                return benchmark.Prepared()
            rankings, missing = self._ranked.rankings(source)
        # A user-defined retriever may raise anything. Its exception becomes a failure row, and the other rows continue.
        except BaseException as error:  # noqa: BLE001
            return benchmark.Prepared(problem=retrieval.no_ranking(error), stage=RETRIEVE)
        rows = {**self._ranked.rows(source, rankings), **self.retrievers.cut_rows(corpus.corpus_id, source)}
        return benchmark.Prepared(rows, own=shown_numbers(rankings, missing, items))

    def sketch(self, source: str, items: Sequence[benchmark.Item]) -> benchmark.Prepared:
        """See `Workload`. Returns the document numbers per item for a plan. They are arbitrary if vectors are not computed
        yet."""
        if not source or source in self.retrievers.asking:
            return benchmark.Prepared()
        try:
            rankings, missing = self._ranked.rankings(source, planned=True)
        # A user-defined retriever may raise anything.
        except BaseException as error:  # noqa: BLE001
            return benchmark.Prepared(problem=retrieval.no_ranking(error), stage=RETRIEVE)
        return benchmark.Prepared(own=shown_numbers(rankings, missing, items))

    # --- summaries (sections 4.2 and 5.2) --------------------------------------------------------------------------------

    async def answer(self, item: benchmark.Item, ask: benchmark.Ask) -> benchmark.Rows:
        """See `Workload`. Returns the summary and its scores. For an item without a summarizer, returns the ranking if a
        service makes it."""
        prepared = ask.prepared or {}
        numbers: Sequence[int] = prepared.get("numbers", ())
        for message in (missing := prepared.get("missing", ())):
            ask.fail(RETRIEVE, retrieval.missing_scores(message))
        if missing:
            return {}
        if item.source in self.retrievers.asking:
            search_query = self._search_queries[item.data["query_id"]]
            ranking = await self.retrievers.ranking_or_failure(ask, self.collection.corpus, item.source, search_query, RETRIEVE)
            if ranking is None:
                return {}
            if "summarizer" not in item.data:
                cut = self.retrievers.cut_rows(self.collection.corpus.corpus_id, item.source, search_query.query_id)
                return {**self._ranked.rows(item.source, {search_query.query_id: ranking}), **cut}
            numbers = [ranked.number for ranked in ranking[: item.data["k"]]]
        if "summarizer" not in item.data:
            return {}
        spec = self.spec.summarizers[item.data["summarizer"]]
        query = self.collection.by_id[item.data["query_id"]]
        async with ask.turn("summarize", spec.model, spec.model_label):
            bare = ask.of("summarize")
            task = self._task(item, spec, numbers)
            answer = await summarizing.guard(
                "strategy_error",
                lambda: make_summarizer(spec.strategy).summarize(task, bare),
                spec.strategy_label if ask.planning else "",
            )
            outcome = summarizing.read_summary(answer)
        if not isinstance(outcome, Answer):
            ask.fail("summarize", outcome)
            return {}
        text = outcome.value.text
        data = item.data
        summary = SummaryRow(
            item_id=item.id,
            query_id=query.query_id,
            retriever=data["retriever"],
            k=data["k"],
            strategy=data["strategy"],
            model=data["called"],
            text=text,
            n_tokens=count_tokens(text),
            key=outcome.key,
        )
        score, ratings = await measures.measure(self.spec, item.id, text, query.references, ask, self.models.sampling)
        return {"odsum_summaries": [summary], "odsum_scores": [score], "odsum_ratings": ratings}

    @functools.cached_property
    def _search_queries(self) -> Mapping[str, retrieve.Query]:
        return {query.query_id: query for query in self.collection.corpus.queries}

    def _task(self, item: benchmark.Item, spec: summarizing.SummarizerSpec, numbers: Sequence[int]) -> Task:
        corpus, query = self.collection.corpus, self.collection.by_id[item.data["query_id"]]
        return Task(
            haystack=corpus.haystack,
            subtopic=Subtopic(corpus.corpus_id, query.query_id, 0, "", "", query.text),
            shown=tuple(Shown(number, corpus.texts[number - 1]) for number in numbers),
            model=spec.model,
            prompt=self._prompts.get(spec.prompt or "", ""),
            sampling=self.models.sampling(spec),
            reducer=Reducer(spec.reduce.model, self.models.sampling(spec.reduce)) if spec.reduce else None,
            token_budget=self.spec.token_budget,
            form="answer",
            n_words=self.spec.words,
        )

    # --- scores and reports ------------------------------------------------------------------------------------------------

    def score(self, tables: benchmark.RunTables) -> benchmark.Tables:
        return frames(tables, self.spec, self.retrievers.unordered)

    def by_query(self, tables: benchmark.RunTables) -> benchmark.ByQuery:
        """See `Workload`. A system is a retriever with its k, a model and a strategy; without summarizers, it is a retriever."""
        return by_query(tables, self.spec, self.retrievers.unordered)

    def report(self, scores: benchmark.Tables) -> Sequence[benchmark.Section]:
        return sections(scores, self.collection, self.spec.token_budget)

    def computations(self, items: Sequence[benchmark.Item], actors: int = 1) -> Sequence[Mapping[str, Any]]:
        """See `Workload`. Returns the collection once for all retrievers that need local models, since they may share a model."""
        if not any(item.source for item in items):
            return ()
        return self.retrievers.corpora_to_compute(((self.collection.corpus.corpus_id, name) for name in self.retrievers), actors)

    def compute(self, part: Mapping[str, Any]) -> Mapping[str, float]:
        return self.retrievers.compute_part(self.collection.corpus, part)

    def warnings(self) -> Sequence[str]:
        return summarizing.unused_retrievers(self.spec.summarizers, [*self.retrievers])

    async def references(self, item: benchmark.Item) -> Sequence[str]:
        return self.collection.by_id[item.data["query_id"]].references

    def guess(self, item: benchmark.Item, stage: str, size: str) -> str | None:
        """See `Workload`. A summary is expected to have `words` tokens, and at most its model's `max_tokens`."""
        if stage != "summarize":
            return super().guess(item, stage, size)
        spec: summarizing.SummarizerSpec = self.spec.summarizers[item.data["summarizer"]]
        words = {"least": 1, "expected": int(self.spec.words), "most": spec.max_tokens}
        return _WORD * words[size]

    def cited_answers(self, run: benchmark.RunStore) -> CitedAnswers:
        """See `Workload`. Returns the sentences of every summary, and the collection."""
        named = ("strategy", "model", "retriever", "k")
        rows = run.table("odsum_summaries").sort("query_id", *named).iter_rows(named=True)
        answers = [
            CitedAnswer(
                COLLECTION,
                row["query_id"],
                " ".join(str(row[name]) for name in named if row[name] is not None),
                tuple(sentences(row["text"])),
            )
            for row in rows
        ]
        documents = [(document.document_id, document.text) for document in self.collection.documents]
        return CitedAnswers({COLLECTION: documents}, answers)

    def details(self, scores: benchmark.Tables) -> Mapping[str, Any]:
        return details(scores)

    def results(self, tables: benchmark.RunTables) -> benchmark.Results:
        results = super().results(tables)
        found = [*self.retrievers.unmatched_words(tables.run, "ranked", "query_id"), *retrieval.cut_warnings(tables.run)]
        if self.spec.metric(RougeSpec) is not None and self.spec.script != "auto":
            summaries = tables.run.table("odsum_summaries").select("query_id", "text").iter_rows()
            texts = ((text, *self.collection.by_id[query_id].references) for query_id, text in summaries)
            found += self.spec.warn_of_foreign("rouge: summaries with their references", texts)
        return replace(
            results,
            make_details=lambda: {**results.details, "cut_texts": retrieval.cut_texts(tables.run)},
            warnings=(*results.warnings, *self.collection.warnings, *found),
        )

    def export(self, run: benchmark.RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`. Writes the collection with its attribution, and one file of summaries per system (for `{answers:
        FILE}`)."""
        files = {f"collection/{name}": text for name, text in self.collection.files().items()}
        for row in run.table("odsum_summaries").sort("item_id").iter_rows(named=True):
            where = f"{row['retriever']}@{row['k']}+" if row["retriever"] else ""
            system = as_file_name(f"{where}{row['strategy']}+{row['model']}")
            name = f"summaries/{system}.jsonl"
            files[name] = files.get(name, "") + json_lines([{"query_id": row["query_id"], "text": row["text"]}])
        return write_new(folder, files)

    def places(self, run: benchmark.RunStore, item_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        wanted = set(item_ids)
        names = ("query_id", "retriever", "k", "strategy", "called")
        return {
            item.id: {name: str(item.data[name]) for name in names if item.data.get(name) is not None}
            for item in self.items()
            if item.id in wanted
        }

    def record(self, store: benchmark.Store) -> dict[str, Any]:
        return {**super().record(store), retrieval.UNORDERED: sorted(self.retrievers.unordered)}

    def on_open(self, run: benchmark.RunStore) -> None:
        if COLLECTION not in run.finished(COLLECTION):
            documents = [
                DocumentRow(document.document_id, number, document.split, count_tokens(document.text), document.blank)
                for number, document in enumerate(self.collection.documents, start=1)
            ]
            queries = [
                QueryRow(query.query_id, query.split, query.text, query.gold, query.references)
                for query in self.collection.queries
            ]
            run.commit_units(COLLECTION, {COLLECTION: {"odsum_documents": documents, "odsum_queries": queries}})

    def own_code(self) -> Sequence[str]:
        strategies = [summarizing.strategy_name(summarizer.strategy) for summarizer in self.spec.summarizers]
        extracts = [geval.extract.method for geval in self.spec.gevals.values() if geval.extract]
        return [
            *super().own_code(),
            *retrieval.own_code(self.spec.retrievers),
            *(name for name in (*strategies, *extracts) if ":" in name),
        ]
