"""Information coverage as a run: an item is one question for one evaluator, which judges the chunks of the question's context."""

import functools
import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import BeforeValidator, Field

from summhay_ray import benchmark
from summhay_ray.benchmarks.coverage import evaluators as evaluating
from summhay_ray.benchmarks.coverage import questions
from summhay_ray.benchmarks.coverage.evaluators import verdicts
from summhay_ray.benchmarks.coverage.questions import Question
from summhay_ray.benchmarks.summarizing import NoAnswers
from summhay_ray.local_models import check_models
from summhay_ray.metrics import kappa
from summhay_ray.text import chunks, count_tokens

SAMPLED = "questions.jsonl"
"""The input file with the sampled questions. A run is identified by these questions, not by the spec that they came from."""
ALL = "all"
OFFLINE = (evaluating.LexicalCoverage.name, evaluating.EmbeddedCoverage.name)
JUDGED, REFERENCES, QUERY, CONSTRUCTION = "judged", "references", "the query's words", "by construction"
"""The basis of a verdict: a model's judgment, the references, or the query alone. "by construction": the reference is the
whole context, so there is nothing to measure."""
PUBLISHED = {
    "ZeroSCROLLS": 56.1,
    "L-Eval": 35.4,
    "InfiniteBench": 16.5,
    "BAMBOO": 41.4,
    "Loong": 14.4,
    "LooGLE": 9.6,
    "ETHIC": 91.0,
}
"""The paper's coverage in % (Table 1): GPT-4o, 50 questions per task and domain, chunks of at most 512 tokens."""


class EvaluatorSpec(benchmark.ModelSpec):
    """A model that judges whether a chunk is needed."""

    answers: NoAnswers = Field(default=None, exclude=True)

    max_tokens: int = Field(default=500, ge=1, description="longest answer, in tokens")


class CoverageSpec(benchmark.Spec):
    """A coverage run: the benchmark whose questions are measured, the sample, and the evaluators."""

    kind: str = Field(default="coverage", description="the benchmark")
    of: benchmark.Text = Field(description="path of the spec whose questions are measured")
    overrides: list[benchmark.Text] = Field(default=[], description="changes of that spec: a.b=c")
    sample: int = Field(default=50, ge=1, description="questions per task and domain")
    chunk_tokens: int = Field(default=512, ge=32, description="maximum length of a chunk, in cl100k tokens")
    most_chunks: int | None = Field(default=None, ge=1, description="maximum chunks of a context, drawn by the seed; null: all")
    evaluators: list[
        Annotated[
            EvaluatorSpec, BeforeValidator(benchmark.ModelSpec.entry, json_schema_input_type=benchmark.Text | EvaluatorSpec)
        ]
    ] = Field(
        default=[EvaluatorSpec(model=evaluating.LexicalCoverage.name)],
        min_length=1,
        description="evaluators of chunks: models, offline/coverage, offline/coverage-embed",
    )


@dataclass(frozen=True, slots=True)
class ChunkVerdict:
    """The verdict of one evaluator on one chunk."""

    item_id: Annotated[str, "the item: evaluator@question"]
    evaluator: Annotated[str, "the evaluator's name in the spec"]
    basis: Annotated[
        str, "judged, references, or the query's words; by construction: a correct answer contains the whole context"
    ]
    group: Annotated[str, "task and domain of the question, if it has them"]
    question: Annotated[str, "id of the benchmark's item"]
    document: Annotated[str, "source document of the question"]
    chunk: Annotated[int, "number of the chunk, from 1"]
    n_chunks: Annotated[int, "chunks of the context"]
    tokens: Annotated[int, "cl100k tokens of the chunk"]
    needed: Annotated[bool, "whether a correct answer needs the chunk"]
    key: Annotated[str, "the raw answer"]


VERDICTS = benchmark.Table("coverage_chunks", ChunkVerdict, ("item_id", "chunk"))


class Coverage(benchmark.Benchmark[CoverageSpec]):
    """Measures the coverage of one benchmark's questions."""

    kind = "coverage"
    stages = (benchmark.Stage("chunk", output_tokens=150, example="# Final Score\n1"),)
    tables = (VERDICTS,)
    counted = benchmark.Counted("questions", prefix="v")
    own_models = (evaluating.LexicalCoverage, evaluating.EmbeddedCoverage)

    def __init__(self, spec: CoverageSpec, inputs: benchmark.Inputs) -> None:
        super().__init__(spec, inputs)
        check_models((evaluator.model for evaluator in spec.evaluators), self.own_models, inputs.folder)
        if not inputs.settled:
            other = self.load(inputs.path(spec.of), inputs, spec.overrides)
            inputs.give(SAMPLED, questions.to_json_lines(questions.sample_questions(other, spec.sample, spec.seed)))

    @functools.cached_property
    def _questions(self) -> Sequence[Question]:
        return questions.read(self.inputs.read(SAMPLED))

    def identity(self) -> Any:
        """See `Workload`. Includes the questions, prompts and evaluators, but not the spec that the questions came from."""
        _ = self._questions
        identity = super().identity()
        spec = {name: value for name, value in identity["spec"].items() if name not in ("of", "overrides", "sample")}
        return {**identity, "spec": spec, "prompt": evaluating.VERSION}

    def items(self) -> Iterator[benchmark.Item]:
        """Yield one item per question, evaluator by evaluator."""
        for model in self.spec.evaluators:
            for place, question in enumerate(self._questions):
                basis = JUDGED
                if model.model in OFFLINE:
                    whole = any(question.context == text.strip() for text in question.references)
                    basis = CONSTRUCTION if whole else REFERENCES if question.references else QUERY
                data = {"place": place, "group": question.group, "document": question.document, "basis": basis}
                yield benchmark.Item(f"{model.label}@{question.item}", model=model, data=data)

    async def answer(self, item: benchmark.Item, ask: benchmark.Ask) -> benchmark.Rows:
        """Return one verdict per chunk. A chunk without a verdict is a failure: the mean leaves out the chunk, and `n` its
        question."""
        question = self._questions[item.data["place"]]
        texts = [question.context[begin:end] for begin, end in chunks(question.context, self.spec.chunk_tokens)]
        judge = self._one_by_one if item.data["basis"] == JUDGED else self._whole
        named = (item.id, item.model, item.data["basis"], question.group, question.item, question.document)
        return {
            VERDICTS.name: [
                ChunkVerdict(*named, number, len(texts), count_tokens(texts[number - 1]), needed, key)
                for number, needed, key in await judge(question, texts, ask)
            ]
        }

    async def _one_by_one(self, question: Question, texts: Sequence[str], ask: benchmark.Ask) -> list[tuple[int, bool, str]]:
        """Judge each chunk in a call of its own. Returns (chunk number, verdict, key of the raw answer) per chunk."""
        judged = []
        for number in self._kept(question, len(texts)):
            try:
                reply = await ask("chunk", evaluating.chunk_question(texts[number - 1], question.query))
                needed = evaluating.verdict(reply.text)
                if needed is None:
                    raise benchmark.Unreadable(reply, "# Final Score and 0 or 1 below it")
            except benchmark.NoReply as none:
                ask.record(none)
                continue
            judged.append((number, needed, reply.key))
        return judged

    async def _whole(self, question: Question, texts: Sequence[str], ask: benchmark.Ask) -> list[tuple[int, bool, str]]:
        """Judge all chunks in one call to an offline evaluator. Returns what `_one_by_one` returns."""
        reply = await ask("chunk", evaluating.whole_question(texts, question.query, question.references))
        if ask.planning:
            return []
        needed = verdicts(reply.text)
        return [(number, needed[number - 1], reply.key) for number in self._kept(question, len(texts))]

    def _kept(self, question: Question, n: int) -> Sequence[int]:
        numbers = range(1, n + 1)
        if self.spec.most_chunks is None or n <= self.spec.most_chunks:
            return numbers
        return sorted(random.Random(f"{self.spec.seed}/{question.item}").sample(numbers, self.spec.most_chunks))

    def score(self, tables: benchmark.Tables) -> benchmark.Tables:
        """Return the tables coverage (per evaluator and group, and overall), agreement (per pair of evaluators) and places
        (per tenth)."""
        verdicts, items = tables[VERDICTS.name], tables["items"].rename({"model": "evaluator"})
        wanted_chunks = pl.min_horizontal(pl.col("n_chunks").first(), self.spec.most_chunks)
        means = verdicts.group_by("evaluator", "group", "question", "document", "basis").agg(
            pl.col("needed").cast(pl.Float64).mean().alias("coverage"),
            pl.col("n_chunks").first().cast(pl.Float64).alias("chunks"),
            (pl.len() < wanted_chunks).alias("lacks"),
            (pl.col("needed").sum() / wanted_chunks).alias("least"),
        )
        by = ("evaluator", "group")
        groups = _without_lacking(benchmark.mean_interval(means, "coverage", by, items, cluster="document"), means, by)
        measured = pl.col("basis") != CONSTRUCTION
        every, wanted = (frame.filter(measured).with_columns(pl.lit(ALL).alias("group")) for frame in (means, items))
        whole = _without_lacking(benchmark.mean_interval(every, "coverage", by, wanted, cluster="document"), every, by)
        sizes = pl.concat([means, every.select(means.columns)]).group_by(*by).agg(pl.col("chunks").mean())
        named = [*by, "basis"]
        bases = pl.concat([items.select(named), wanted.select(named)]).group_by(*by).agg(pl.col("basis").unique().sort())
        one_group = items["group"].unique().to_list() == [""] and wanted.height
        coverage = (whole if one_group else pl.concat([groups, whole])).join(sizes, on=by, how="left").join(bases, on=by)
        tenth = ((pl.col("chunk") - 1) * 10 / pl.col("n_chunks")).floor().cast(pl.Int64) + 1
        placed = verdicts.with_columns(tenth.alias("tenth"), pl.col("needed").cast(pl.Float64))
        places = pl.DataFrame()
        if verdicts.height:
            places = benchmark.mean_interval(placed, "needed", ("evaluator", "tenth"), cluster="document")
        order = pl.col("group") == ALL
        return {
            "coverage": coverage.sort("evaluator", order, "group").select(
                "evaluator",
                "group",
                pl.col("basis").list.join(", "),
                *("coverage", "coverage_low", "coverage_high", "coverage_reason", "coverage_floor", "chunks", "n", "n_expected"),
            ),
            "agreement": _agreement(verdicts.filter(measured)),
            "places": places,
        }

    def by_query(self, tables: benchmark.Tables) -> benchmark.ByQuery:
        measured = tables[VERDICTS.name].filter(pl.col("basis") != CONSTRUCTION)
        means = measured.group_by("evaluator", "document", "question").agg(pl.col("needed").cast(pl.Float64).mean())
        frame = means.select(system="evaluator", cluster="document", query="question", coverage="needed")
        question = pl.col("item_id").str.strip_prefix(pl.concat_str("model", pl.lit("@")))
        asked = tables["items"].filter(pl.col("basis") != CONSTRUCTION)
        expected = asked.select(system="model", cluster="document", query=question)
        return benchmark.ByQuery(frame, {"coverage": "%"}, "document", expected)

    def report(self, scores: benchmark.Tables) -> Sequence[benchmark.Section]:
        """Return the sections: coverage next to the paper's Table 1, agreement of evaluators, and positions of needed chunks."""
        coverage = scores["coverage"]
        published = pl.DataFrame(
            [
                {"evaluator": "GPT-4o (paper, Table 1)", "group": name, "coverage": share / 100}
                for name, share in PUBLISHED.items()
            ]
        )
        text = (
            "coverage: the mean share of a context's chunks that a question needs. n: questions with a verdict on every chunk; "
            "a question that lacks some counts in the mean by its other chunks. The paper's figures are GPT-4o's, on other data. "
            "basis: what the verdicts rest on. By construction: the right answer covers the whole context, so an offline "
            "evaluator measures nothing; such figures are left out of all."
        )
        sections = [
            benchmark.Section("Information coverage", text, coverage, units={"coverage": "%"}),
            benchmark.Section(
                "The paper's figures",
                table=published.with_columns(pl.lit(50, dtype=pl.Int64).alias("n")),
                units={"coverage": "%"},
                notes=("n: questions per task and domain.",),
                more=True,
            ),
        ]
        if scores["agreement"].height:
            text = "Two evaluators on the same chunks: the share of equal verdicts, and Cohen's kappa."
            sections.append(benchmark.Section("Agreement of evaluators", text, scores["agreement"], units={"same": "%"}))
        if scores["places"].height:
            chart = benchmark.Chart.line(x="tenth", y="needed", series="evaluator")
            text = "The share of needed chunks in each tenth of the context; 1 is its beginning."
            sections.append(
                benchmark.Section(
                    "Where the needed chunks are", text, scores["places"], units={"needed": "%"}, chart=chart, more=True
                )
            )
        return sections

    def details(self, scores: benchmark.Tables) -> Mapping[str, Any]:
        """Return `of` (the spec's path), and `coverage` and `agreement` as lists of rows."""
        rows = [
            {
                **{name: row[name] for name in ("evaluator", "group", "basis", "coverage")},
                "ci": None if row["coverage_low"] is None else [row["coverage_low"], row["coverage_high"]],
                "ci_reason": row["coverage_reason"],
                **{name: row[name] for name in ("coverage_floor", "chunks", "n", "n_expected")},
            }
            for row in scores["coverage"].iter_rows(named=True)
        ]
        return {"of": self.spec.of, "coverage": rows, "agreement": scores["agreement"].to_dicts()}


def _without_lacking(scored: pl.DataFrame, means: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Correct the scores for lost verdicts: `n` counts only complete questions, and the floor counts lost verdicts as 0."""
    # Sorted, because the last digit of a floating-point sum depends on the order.
    lacking = means.group_by(*by).agg(pl.col("lacks").sum(), pl.col("least").sort().sum())
    counted = scored.join(lacking, on=list(by), how="left")
    floor = pl.coalesce(pl.col("least") / pl.col("n_expected"), "coverage_floor").alias("coverage_floor")
    return counted.with_columns(pl.col("n") - pl.col("lacks").fill_null(0), floor).drop("lacks", "least")


def _agreement(verdicts: pl.DataFrame) -> pl.DataFrame:
    rows = []
    wide = verdicts.select("question", "chunk", "evaluator", "needed").pivot(
        "evaluator", index=("question", "chunk"), values="needed"
    )
    names = sorted(name for name in wide.columns if name not in ("question", "chunk"))
    for one, other in itertools.combinations(names, 2):
        both = wide.filter(pl.col(one).is_not_null() & pl.col(other).is_not_null())
        n = both.height
        if not n:
            continue
        same = float((both[one] == both[other]).sum()) / n
        counts = Counter(both.select(one, other).iter_rows())
        confusion = {a: {b: counts[a, b] for b in (False, True)} for a in (False, True)}
        rows.append({"evaluator": one, "other": other, "same": same, "kappa": kappa(confusion), "n": n})
    schema = {"evaluator": pl.String, "other": pl.String, "same": pl.Float64, "kappa": pl.Float64, "n": pl.Int64}
    return pl.DataFrame(rows, schema=schema)


def coverage_fields(spec: Path, fields: Mapping[str, Any], given: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return the fields of the coverage spec that measures a benchmark. `fields`: those of `spec`, which may itself be of kind
    coverage.

    `given`: replacements for fields of the coverage spec; None keeps a field. `overrides`: changes of the benchmark's spec.
    """
    changed = {name: value for name, value in given.items() if value is not None}
    if fields.get("kind") == Coverage.kind:
        of = fields.get("of")
        return {**fields, **({"of": str((spec.parent / of).absolute())} if isinstance(of, str) else {}), **changed}
    own = {"kind": Coverage.kind, "name": f"coverage-of-{spec.stem}", "of": str(spec.absolute()), "overrides": list(overrides)}
    return {**own, **{name: fields[name] for name in ("seed",) if name in fields}, **changed}
