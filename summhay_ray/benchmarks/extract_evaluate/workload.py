"""Extract-then-Evaluate: every summary is rated from extracts of its source, and from the whole source (paper, section 2)."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import polars as pl

from summhay_ray import benchmark, judge, plugins
from summhay_ray import extract as extracts
from summhay_ray.benchmarks.extract_evaluate.data import SAMPLE, Pair, read_pairs, sample
from summhay_ray.benchmarks.extract_evaluate.measure import PAIR, TASK, Settings, by_query, measured
from summhay_ray.benchmarks.extract_evaluate.metrics import Texts, make_metric
from summhay_ray.benchmarks.extract_evaluate.report import sections
from summhay_ray.benchmarks.extract_evaluate.spec import CUT, FULL, CriterionSpec, ExtractEvaluateSpec
from summhay_ray.benchmarks.rating import TOKENS_A_RATING, RatingTable, extracted_values, rate_text, sample_counts
from summhay_ray.benchmarks.retrieval import NotComputed, StoredModels
from summhay_ray.encoders import check_model, known_revision
from summhay_ray.errors import SpecError, UserError
from summhay_ray.extract import named_layers
from summhay_ray.outcome import Answer, Failed
from summhay_ray.text import Script, count_tokens


@dataclass(frozen=True, slots=True)
class ExtractRow:
    """A row of table `extracts`: the extract of one source for one summary."""

    dataset: Annotated[str, "the file's dataset"]
    doc_id: Annotated[str, "the source"]
    system_id: Annotated[str, "who wrote the summary"]
    method: Annotated[str, "the extraction method"]
    budget: Annotated[int, "maximum tokens of the extract"]
    index: Annotated[tuple[int, ...], "numbers of the sentences in the source, from 0, in the order shown"]
    tokens: Annotated[int, "cl100k tokens of the extract"]
    n_sentences: Annotated[int, "sentences of the source"]


@dataclass(frozen=True, slots=True)
class RatingRow:
    """A row of table `extract_ratings`: one rating of one summary."""

    dataset: Annotated[str, "the file's dataset"]
    doc_id: Annotated[str, "the source"]
    system_id: Annotated[str, "who wrote the summary"]
    method: Annotated[str, "the extraction method; full: the whole source; full-release: the source as the paper's code cuts it"]
    budget: Annotated[int, "maximum tokens of the extract; 0 for the full source"]
    criterion: Annotated[str, "the criterion"]
    rater: Annotated[str, "the rater"]
    rating: Annotated[float, "the rating, on the criterion's scale"]
    how: Annotated[str, "text: one answer; samples: the mean of several; logprobs: the expectation over the first token; panel"]
    votes: Annotated[tuple[float, ...], "the ratings of the readable samples, or of the members of a panel"]
    n_asked: Annotated[int, "samples that were requested"]
    mass: Annotated[float | None, "total probability of the scale's numbers; null without log probabilities"]
    prompt_tokens: Annotated[int, "cl100k tokens of the prompt"]
    usd_micros: Annotated[int, "price of the answers in millionths of a dollar"]
    key: Annotated[str, "the first raw answer"]


@dataclass(frozen=True, slots=True)
class HumanRow:
    """A row of table `human_scores`: the human score of a summary for one criterion."""

    dataset: Annotated[str, "the file's dataset"]
    doc_id: Annotated[str, "the source"]
    system_id: Annotated[str, "who wrote the summary"]
    criterion: Annotated[str, "the criterion"]
    score: Annotated[float, "the human score, as in the file"]


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A row of table `metric_scores`: the score of a summary by a metric that calls no provider."""

    dataset: Annotated[str, "the file's dataset"]
    doc_id: Annotated[str, "the source"]
    system_id: Annotated[str, "who wrote the summary"]
    metric: Annotated[str, "the metric's name in the spec"]
    score: Annotated[float | None, "null if undefined: there is no reference, or the metric returned NaN or an infinity"]


LEAD = "lead"
METRIC_BATCH = 16
"""Number of pairs whose texts a metric gets in one call."""


class ExtractEvaluate(benchmark.Benchmark[ExtractEvaluateSpec]):
    """An item is one rating: a summary, an extract (or the full source), a criterion and a rater."""

    kind = "extract_evaluate"
    stages = (benchmark.Stage("rate", output_tokens=TOKENS_A_RATING, example="4"),)
    tables = (
        benchmark.Table("extracts", ExtractRow, key=(*PAIR, "method", "budget")),
        benchmark.Table("human_scores", HumanRow, key=(*PAIR, "criterion")),
        benchmark.Table("metric_scores", MetricRow, key=(*PAIR, "metric")),
        benchmark.Table("extract_ratings", RatingRow, key=(*PAIR, "method", "budget", "criterion", "rater")),
    )
    counted = benchmark.Counted("ratings", "extract_ratings")
    rates = RatingTable("extract_ratings", (*PAIR, "method", "budget", "criterion"), "rater")

    def __init__(self, spec: ExtractEvaluateSpec, inputs: benchmark.Inputs) -> None:
        super().__init__(spec, inputs)
        try:
            self.criteria = {
                criterion.name: criterion.make(inputs.text(criterion.prompt) if criterion.prompt else "")
                for criterion in spec.criteria
            }
        except ValueError as error:
            raise SpecError(f"spec: criteria: {error}") from error
        for name in spec.pairs:
            if name.startswith(SAMPLE) and not inputs.settled:
                inputs.give(name, sample(name))
            inputs.text(name)
        self._models = StoredModels(inputs.store, spec)
        self._known_models = StoredModels(inputs.store, None)
        """The models' stored results, for planning."""

    @functools.cached_property
    def pairs(self) -> Mapping[str, Pair]:
        """All pairs by id, in the order of the files."""
        pairs = [pair for name in self.spec.pairs for pair in read_pairs(self.inputs.text(name), name)]
        for pair_id, n in Counter(pair.id for pair in pairs).items():
            if n > 1:
                mend = "give each summary a system_id of its own"
                raise SpecError(f"pairs: {pair_id!r} (dataset/doc_id/system_id) is there twice; {mend}")
        known = dict.fromkeys(pair.dataset for pair in pairs)
        for criterion in self.spec.criteria:
            for dataset in criterion.datasets:
                if dataset not in known:
                    flaw = plugins.unknown("dataset of the pairs", dataset, known)
                    raise SpecError(f"spec: criteria: {criterion.name}: {flaw}")
        return {pair.id: pair for pair in pairs}

    def identity(self) -> Any:
        """See `Workload`. Includes the prompts, user code, and revisions of local models."""
        prompts = {name: criterion.prompt_hash for name, criterion in self.criteria.items()}
        own = [*self.spec.methods, *(metric.metric for metric in self.spec.metrics)]
        code = {name: self.inputs.code(name) for name in own if ":" in name}
        every = [one for rater in self.spec.raters for one in (rater, *rater.members)]
        revisions = {rater.label: self.models.revision(rater.model) for rater in every}
        known = {label: known_revision(named_layers(name)[0]) for label, name in self._weights() if name}
        weights = {label: revision for label, revision in known.items() if revision}
        return {**super().identity(), "prompts": prompts, "own": code, "revisions": revisions, "weights": weights}

    def queues(self) -> Mapping[str, benchmark.Queue]:
        """See `Workload`. Each panel has its own queue, which waits for the models of all its members."""
        panels = [rater for rater in self.spec.raters if rater.members]
        return {
            **super().queues(),
            **{rater.label: benchmark.Queue(tuple(one.model for one in rater.members)) for rater in panels},
        }

    def _weights(self) -> Iterator[tuple[str, str]]:
        """Yield (label, folder or hub name of its model) of each method and metric. The name is empty if it uses no model."""
        for method in self.spec.methods:
            yield f"method {method}", self.spec.models.get(method) or extracts.own_model(method)
        for metric in self.spec.metrics:
            yield f"metric {metric.label}", metric.model or getattr(make_metric(metric.metric), "own_model", "")

    def items(self) -> Iterator[benchmark.Item]:
        """Yield all ratings, pair by pair, so that the extracts of a pair are made once."""
        for place, pair in enumerate(self.pairs.values()):
            for method, budget in self.spec.cells():
                for criterion in self._criteria_of(pair):
                    for rater in self.spec.raters:
                        data = {
                            "dataset": pair.dataset,
                            "doc_id": pair.doc_id,
                            "system_id": pair.system_id,
                            "method": method,
                            "budget": budget,
                            "criterion": criterion.name,
                            "rater": rater.label,
                        }
                        shown = method if method in (FULL, CUT) else f"{method}@{budget}"
                        # Items whose prompts share a prefix form a group. A prompt begins with the source or extract. If the
                        # extract depends on the summary, a group is one pair and extract; otherwise it is one document.
                        chosen = method not in (FULL, CUT, LEAD) or rater.extract is not None
                        begins = f"{pair.id}/{shown}" if chosen else f"{pair.dataset}/{pair.doc_id}"
                        yield benchmark.Item(
                            f"{pair.id}/{shown}/{criterion.name}/{rater.label}",
                            model=rater,
                            data=data,
                            source=pair.id,
                            reads=f"metrics/{place // METRIC_BATCH}" if self.spec.metrics else "",
                            group=f"{begins}/{rater.label}",
                        )

    # --- a pair: its extracts, human scores, metrics ----------------------------------------------------------------

    def prepare(self, source: str, items: Sequence[benchmark.Item]) -> benchmark.Prepared:
        """Prepare what a pair needs before it is rated: its extracts, human scores and metric scores."""
        pair = self.pairs[source]
        made = {method: self._extracts(pair, method, self._models) for method in self.spec.methods}
        n_sentences = extracts.n_sentences(pair.source, self._script)
        place = (pair.dataset, pair.doc_id, pair.system_id)
        rows = [
            ExtractRow(*place, method, budget, extract.index, extract.tokens, n_sentences)
            for method, by_budget in made.items()
            for budget, extract in by_budget.items()
        ]
        human = [(one.name, pair.scores.get(one.human) if one.human else pair.human(one.name)) for one in self._criteria_of(pair)]
        batch, place_in_batch = divmod(self._places[source], METRIC_BATCH)
        scores = [(name, found[place_in_batch]) for name, found in self._metric_scores(batch).items()]
        return benchmark.Prepared(
            {
                "extracts": rows,
                "human_scores": [HumanRow(*place, name, score) for name, score in human if score is not None],
                "metric_scores": [MetricRow(*place, name, score) for name, score in scores],
            },
            own=_shown_to(items, made),
        )

    @functools.cached_property
    def _places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.pairs)}

    @functools.cached_property
    def _metric_scores(self) -> Callable[[int], Mapping[str, Sequence[float | None]]]:
        """Return a function from the number of a batch to the scores of its pairs by each metric. One worker gets all sources
        of a batch."""
        made = {metric.label: make_metric(metric.metric, metric.model) for metric in self.spec.metrics}
        pairs = list(self.pairs.values())

        @functools.lru_cache(maxsize=4)
        def scored(batch: int) -> Mapping[str, Sequence[float | None]]:
            of = pairs[batch * METRIC_BATCH : (batch + 1) * METRIC_BATCH]
            texts = [Texts(pair.summary, pair.source, pair.reference, self._script) for pair in of]
            scores = {label: list(metric.score(texts)) for label, metric in made.items()}
            for label, found in scores.items():
                if len(found) != len(texts):
                    raise UserError(
                        f"metric {label}: `score` returned {len(found)} scores for {len(texts)} texts; return one each"
                    )
            return {
                label: [score if score is not None and math.isfinite(score) else None for score in found]
                for label, found in scores.items()
            }

        return scored

    def _extracts(self, pair: Pair, method: str, models: StoredModels) -> Mapping[int, extracts.Extract]:
        model = self.spec.models.get(method)
        return extracts.extract(
            pair.source, pair.summary, method, self.spec.budgets, self.spec.compat, model, models.rows, self.spec.script
        )

    def _reads_weights(self, method: str) -> bool:
        return isinstance(extracts.make_extractor(method, self.spec.models.get(method)), extracts.WithWeights)

    def _criteria_of(self, pair: Pair) -> list[CriterionSpec]:
        """Return the criteria by which the pair is rated."""
        return [one for one in self.spec.criteria if not one.datasets or pair.dataset in one.datasets]

    # --- a rating ------------------------------------------------------------------------------------------------------

    async def answer(self, item: benchmark.Item, ask: benchmark.Ask) -> benchmark.Rows:
        data = item.data
        pair = self.pairs[item.source]
        rater = next(rater for rater in self.spec.raters if rater.label == data["rater"])
        criterion = self.criteria[data["criterion"]]
        if ask.prepared == [] and self.spec.compat == "default":
            message = f"no sentence of the source fits into {data['budget']} tokens; take a larger budget"
            ask.fail("rate", Failed("empty_extract", message))
            return {}
        if data["method"] == FULL:
            shown = pair.source
        elif data["method"] == CUT:
            shown = cut_as_released(pair.source, pair.summary, criterion.prompt, self.spec.full_tokens)
        else:
            shown = extracts.text_of(pair.source, ask.prepared, self._script)
        values = {"SOURCE": shown, "SUMMARY": pair.summary}
        outcome = await rate_text(
            ask, "rate", rater, lambda one: one.settings(self.models.sampling(one)), criterion, values, self.spec.compat
        )
        if not isinstance(outcome, Answer):
            ask.fail("rate", outcome)
            return {}
        rating = outcome.value
        settings, extract = rater.settings(self.models.sampling(rater))
        [first, *_] = judge.rating_requests(criterion, extracted_values(extract, values), settings)
        prompt_tokens = count_tokens(first.messages[0].content)
        row = RatingRow(
            **{name: data[name] for name in ("dataset", "doc_id", "system_id", "method", "budget", "criterion", "rater")},
            rating=rating.value,
            how=rating.how,
            votes=tuple(rating.votes),
            n_asked=rating.n_asked,
            mass=rating.mass,
            prompt_tokens=prompt_tokens,
            usd_micros=outcome.usd_micros,
            key=outcome.key,
        )
        return {"extract_ratings": [row]}

    @property
    def _script(self) -> Script:
        return extracts.script_of(self.spec.script, self.spec.compat)

    # --- scores ----------------------------------------------------------------------------------------------

    def score(self, tables: benchmark.RunTables) -> benchmark.Tables:
        """See `measure.py`. With `--compat release` a malformed rating counts as 0, as in the paper's code."""
        spec, failed_as = self.spec, 0.0 if tables.options.compat == "release" else None
        settings = Settings(spec.seed, spec.resamples, spec.splits, spec.price_per_mtok, failed_as)
        scores = measured(tables, settings)
        rated, cell = tables["extract_ratings"], [*TASK, "method", "budget"]
        samples = sample_counts(rated.with_columns(n_votes=pl.col("votes").list.len()), cell)
        with_reasons = scores["correlations"].join(samples, on=cell, how="left", maintain_order="left")
        return {**scores, "correlations": with_reasons.select(pl.exclude("reason"), "reason")}

    def by_query(self, tables: benchmark.Tables) -> benchmark.ByQuery:
        return by_query(tables)

    def report(self, scores: benchmark.Tables) -> Sequence[benchmark.Section]:
        """Return Tables 2 to 5 and Figures 2, 3 and 8 of the paper, for these pairs and raters."""
        return list(sections(scores))

    def computations(self, items: Sequence[benchmark.Item], actors: int = 1) -> Sequence[Mapping[str, Any]]:
        """See `Workload`. Returns one part per pair, if any method runs a model in this process."""
        if not any(map(self._reads_weights, self.spec.methods)):
            return ()
        return [{"pair": source} for source in dict.fromkeys(item.source for item in items)]

    def compute(self, part: Mapping[str, Any]) -> Mapping[str, float]:
        """See `Workload`. Runs these models on the sentences of a pair and stores the results."""
        before = replace(self._models.computed)
        for method in filter(self._reads_weights, self.spec.methods):
            self._extracts(self.pairs[part["pair"]], method, self._models)
        return self._models.computed.since(before)

    def sketch(self, source: str, items: Sequence[benchmark.Item]) -> benchmark.Prepared:
        """See `Workload`. Loads no model: extracts that are not computed yet are replaced by stand-ins that fill their
        budgets."""
        pair, made = self.pairs[source], dict[str, Mapping[int, extracts.Extract]]()
        for method in self.spec.methods:
            try:
                made[method] = self._extracts(pair, method, self._known_models)
            except NotComputed:
                check_model(named_layers(self.spec.models.get(method) or extracts.own_model(method))[0])
                made[method] = extracts.planned_extract(
                    pair.source,
                    pair.summary,
                    method,
                    self.spec.budgets,
                    self.spec.compat,
                    self.spec.script,
                )
        return benchmark.Prepared(own=_shown_to(items, made))

    def results(self, tables: benchmark.RunTables) -> benchmark.Results:
        results = super().results(tables)
        spec = self.spec.model_copy(update={"script": self._script})
        found = spec.warn_of_foreign(
            "sources with their summaries", ((pair.source, pair.summary) for pair in self.pairs.values())
        )
        return replace(results, warnings=(*results.warnings, *found))

    def details(self, scores: benchmark.Tables) -> Mapping[str, Any]:
        """Return `criteria`: scale and prompt of each criterion. Ratings by different prompts must not be compared."""
        criteria = {
            name: {
                "scale": [criterion.scale.low, criterion.scale.high],
                "version": criterion.version,
                "prompt_hash": criterion.prompt_hash,
            }
            for name, criterion in self.criteria.items()
        }
        return {"criteria": criteria}

    def own_code(self) -> Sequence[str]:
        own = [*self.spec.methods, *(metric.metric for metric in self.spec.metrics)]
        own += [rater.extract.method for rater in self.spec.raters if rater.extract]
        return [*super().own_code(), *(name for name in own if ":" in name)]


def _shown_to(items: Sequence[benchmark.Item], made: Mapping[str, Mapping[int, extracts.Extract]]) -> dict[str, list[int]]:
    """Map each item id to the numbers of the sentences that the rater sees. Full documents are left out."""
    return {item.id: list(made[item.data["method"]][item.data["budget"]].index) for item in items if item.data["method"] in made}


def cut_as_released(source: str, summary: str, template: str, max_tokens: int) -> str:
    """Cut the source as the paper's code does if the prompt exceeds `max_tokens`: keep one character per available token."""
    others = count_tokens(template) + count_tokens(summary) + 1
    return source if others + count_tokens(source) <= max_tokens else source[: max(max_tokens - others, 0)]
