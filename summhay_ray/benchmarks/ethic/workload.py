"""ETHIC as a run: an item is one record for one model. For Summarizing, it includes the judges' ratings of each section."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from summhay_ray import benchmark
from summhay_ray.benchmark import system, user
from summhay_ray.benchmarks.ethic import contexts, lenient_metrics, report, scores
from summhay_ray.benchmarks.ethic.criteria import STAGE, criteria, rate, released_value
from summhay_ray.benchmarks.ethic.prompts import CUE
from summhay_ray.benchmarks.ethic.records import LOOKUP, Record, load_records
from summhay_ray.benchmarks.ethic.spec import EthicJudge, EthicModel, EthicSpec
from summhay_ray.benchmarks.ethic.tables import ANSWERS, RATINGS, EthicAnswer, SectionRating
from summhay_ray.benchmarks.rating import RatingTable, rate_by_panel
from summhay_ray.judge import Rating
from summhay_ray.local_models import check_models
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.records import CitedAnswer, CitedAnswers
from summhay_ray.text import count_tokens, sentences

SUMMARY_TOKENS: Mapping[str, int] = {"least": 1, "expected": 150, "most": 400}
"""The assumed length of a section's summary, for planning."""
LONG_SENTENCE = 12
"""Sentences with at least this many words identify their section."""
_WORD = "text "
_OPTION = re.compile(r"^\[?\d{1,4}[\].:)][ \t]*", re.MULTILINE)
_ASKED_ABOUT = re.compile(r"### (?:Options|Background|Target Case):\n")


class Ethic(benchmark.Benchmark[EthicSpec]):
    """One run of ETHIC."""

    kind = "ethic"
    stages = (benchmark.Stage("answer", output_tokens=400), benchmark.Stage(STAGE, output_tokens=2, example="4"))
    tables = (ANSWERS, RATINGS)
    counted = benchmark.Counted("records", prefix="e")
    rates = RatingTable("section_ratings", ("item_id", "section", "reading", "criterion"), "judge", "value")

    def __init__(self, spec: EthicSpec, inputs: benchmark.Inputs) -> None:
        super().__init__(spec, inputs)
        check_models((model.model for model in (*spec.models, *spec.raters)), self.own_models, inputs.folder)
        self._criteria = criteria({name: inputs.text(path) for name, path in spec.criteria.items()})
        self._how = scores.ScoreSettings(spec.reasoning, spec.judges[0].label, spec.seed)
        self._by_label = {model.label: model for model in spec.models}
        self._tokenizers = {model.tokenizer: inputs.text(model.tokenizer) for model in spec.models if model.tokenizer}
        for path, content in self._tokenizers.items():
            contexts.counter(content, path)

    @functools.cached_property
    def records(self) -> Sequence[Record]:
        """All records, sorted by domain and document."""
        return load_records(self.spec, self.inputs)

    def identity(self) -> Any:
        """See `Workload`. Includes the content of the records and the hashes of the criteria's prompts."""
        _ = self.records
        return {**super().identity(), "criteria": {name: criterion.prompt_hash for name, criterion in self._criteria.items()}}

    def queues(self) -> Mapping[str, benchmark.Queue]:
        """See `Workload`. An item calls its model and all judges. It runs locally if all of them are local."""
        settings = self.models.settings()
        judges = [judge.model for judge in self.spec.raters]
        local = all(settings[judge].local for judge in judges)
        return {
            model.label: benchmark.Queue((model.model, *judges), computes=local and settings[model.model].local)
            for model in self.spec.models
        }

    def items(self) -> Iterator[benchmark.Item]:
        """Yield one item per model and record of its tasks, model by model and document by document."""
        for model in self.spec.models:
            for place, record in enumerate(self.records):
                if model.answered_tasks is None or record.task in model.answered_tasks:
                    data = {"place": place, "task": record.task, "domain": record.domain, "document": record.document}
                    name = f"{model.label}@{record.task}/{record.domain}/{record.id}"
                    yield benchmark.Item(name, model=model, data=data, group=f"{model.label}/{record.document}")

    async def answer(self, item: benchmark.Item, ask: benchmark.Ask) -> benchmark.Rows:
        model, record = self._by_label[item.queue], self.records[item.data["place"]]
        prompt = self._prompt(model, record)
        ask.too_long = prompt.too_long
        row = functools.partial(self._row, item, record, prompt)
        if not prompt.user and self.spec.over_length in ("skip", "zero"):
            return {ANSWERS.name: [row("skipped" if self.spec.over_length == "skip" else "zero", "")]}
        try:
            if not prompt.user:
                room = f"{prompt.tokens} tokens and an answer of up to {model.max_tokens} exceed the window of {model.model}"
                if self.spec.over_length == "truncate-middle":
                    room += ", and no room is left for the context; lower max_tokens, or raise context_window"
                raise benchmark.NoReply("answer", Failed("context_window", room))
            # A model may be its own judge: the stage separates its answers from its ratings. The scripts also score the thinking.
            messages = [*([system(prompt.system)] if prompt.system else []), user(prompt.user)]
            reply = await ask("answer", messages, model=model, keep_thinking=True)
        except benchmark.NoReply as none:
            # A failed item gets a row, too, because scores by length need the length of its prompt.
            ask.record(none)
            return {ANSWERS.name: [row("failed", "")]}
        rows: dict[str, list[Any]] = {ANSWERS.name: [row("answered", reply.key)], RATINGS.name: []}
        if record.task == "Summarizing":
            rows[RATINGS.name] = await self._rate(item, record, reply, ask)
        return rows

    def _prompt(self, model: EthicModel, record: Record) -> _Prompt:
        """Return the model's prompt. It is empty if it is too long and the spec does not ask for truncation."""
        name = model.tokenizer or ""
        count = contexts.counter(self._tokenizers.get(name, ""), name)
        shown = contexts.select_context(record.context, record.question, model.context)
        texts = self._texts(record, shown)
        tokens = sum(map(count, texts))
        window = self.models.settings()[model.model].context_window
        room = None if window is None else window - model.max_tokens
        if room is None or tokens <= room:
            return _Prompt(*texts, tokens=tokens, shown_tokens=tokens)
        if self.spec.over_length == "truncate-middle":
            left = room - (tokens - count(shown))
            cut = contexts.without_middle(shown, left, count)
            if cut:
                texts = self._texts(record, cut)
                left = sum(map(count, texts))
                return _Prompt(*texts, tokens=tokens, shown_tokens=left, too_long=True, truncated=True)
        return _Prompt(tokens=tokens, too_long=True)

    def _texts(self, record: Record, context: str) -> tuple[str, str]:
        """Return the system prompt, which may be empty, and the user message."""
        prefix = self.spec.layout == "prefix"
        text = record.context_first() if prefix else record.user
        if context != record.context:
            text = text.replace(record.context, context, 1)
        first = self.spec.system if prefix else record.system
        return first or "", text

    def _row(self, item: benchmark.Item, record: Record, prompt: _Prompt, outcome: str, key: str) -> EthicAnswer:
        sections = lenient_metrics.sections(record.context) if record.task == "Summarizing" else {}
        return EthicAnswer(
            item_id=item.id,
            model=item.model,
            task=record.task,
            domain=record.domain,
            record=record.id,
            document=record.document,
            outcome=outcome,
            tokens=prompt.tokens,
            shown_tokens=prompt.shown_tokens,
            truncated=prompt.truncated,
            gold=record.answer,
            sections=tuple(sections),
            section_tokens=tuple(map(count_tokens, sections.values())),
            key=key,
        )

    async def _rate(
        self, item: benchmark.Item, record: Record, reply: benchmark.RawAnswer, ask: benchmark.Ask
    ) -> list[SectionRating]:
        text = lenient_metrics.remove_reasoning(reply.text) if self.spec.reasoning == "strip" else reply.text
        rated = lenient_metrics.rated_pairs(record.user, record.context, record.domain, text, reply.text)
        numbers = [str(number) for number in lenient_metrics.sections(record.context)]
        place = {number: index / max(1, len(numbers) - 1) for index, number in enumerate(numbers)}

        async def one(judge: EthicJudge, pair: lenient_metrics.RatedPair, name: str) -> SectionRating | None:
            async def alone(single: EthicJudge) -> Outcome[Rating]:
                return await rate(self._criteria[name], pair.section, pair.summary, single, self.models.sampling(single), ask)

            outcome: Outcome[Rating] = await rate_by_panel(judge, alone)
            released = None if judge.members else released_value(ask.raw.get(outcome.key))
            where = place.get(next(iter(lenient_metrics.numbers_of(pair.number)), ""), 0.0)
            head = (item.id, judge.label, pair.number, pair.reading, where, name)
            tokens = count_tokens(pair.summary)
            if isinstance(outcome, Answer):
                value = outcome.value
                known = value.value if released is None else released
                counts = (0, 1, tuple(value.votes), tuple(value.keys)) if judge.members else (len(value.votes), value.n_asked)
                return SectionRating(*head, value.value, known, value.mass, value.how, tokens, outcome.key, *counts)
            ask.fail(STAGE, replace(outcome, message=f"section {pair.number}, {name}: {outcome.message}"))
            # The scripts treat log probabilities without any score as 0.
            return None if released is None else SectionRating(*head, None, released, None, "malformed", tokens, outcome.key)

        asked = [one(judge, pair, name) for judge in self.spec.judges for pair in rated for name in self._criteria]
        return [row for row in await asyncio.gather(*asked) if row is not None]

    def score(self, tables: benchmark.Tables) -> benchmark.Tables:
        return scores.score(tables, self._how)

    def by_query(self, tables: benchmark.Tables) -> benchmark.ByQuery:
        return scores.by_query(tables, self._how)

    def report(self, scores: benchmark.Tables) -> Sequence[benchmark.Section]:
        return [section for section in report.sections(scores) if section.table is not None and section.table.height]

    def query_of(self, item: benchmark.Item) -> str:
        record = self.records[item.data["place"]]
        return f"{record.task}/{record.domain}/{record.id}"

    async def references(self, item: benchmark.Item) -> Sequence[str]:
        """See `Workload`. Returns the labels. Other tasks return the context (Summarizing), its section (Lookup), the options
        (Organizing) or the background (Attributing)."""
        record = self.records[item.data["place"]]
        if record.task == "Summarizing":
            return [record.context]
        if record.task == LOOKUP and (section := lenient_metrics.sections(record.context).get(record.meta.get("section", 0))):
            # Short sentences would match other sections by chance.
            said = sentences(section)
            return [sentence for sentence in said if len(sentence.split()) >= LONG_SENTENCE] or said
        if record.task in ("Organizing", "Attributing"):
            asked = "".join(_ASKED_ABOUT.split(record.question)[1:2]).removesuffix(CUE)
            return [part for part in (_OPTION.split(asked) if record.task == "Organizing" else [asked]) if part.strip()]
        # If there is nothing to name, only the whole context shows that.
        return [label for label in record.answer if label.casefold() != lenient_metrics.NONE] or [record.context]

    def guess(self, item: benchmark.Item, stage: str, size: str) -> str | None:
        """See `Workload`. For Summarizing, returns a summary of every section, so that the judges' calls are planned, too."""
        if stage == STAGE:
            return "4"
        if item.data["task"] != "Summarizing":
            return "None"
        numbers = lenient_metrics.sections(self.records[item.data["place"]].context)
        word = "Segment" if item.data["domain"] == "Law" else "Section"
        return "\n\n".join(f"<{word} {number}>\n{_WORD * SUMMARY_TOKENS[size]}" for number in numbers)

    def cited_answers(self, run: benchmark.RunStore) -> CitedAnswers:
        """See `Workload`. Returns the sentences of every summary, and the numbered sections that it covers."""
        texts = dict(run.table("raw_answers").select("key", "text").iter_rows())
        rows = run.table("ethic_answers").filter((pl.col("task") == "Summarizing") & pl.col("key").is_in([*texts]))
        of = {(record.domain, record.id): lenient_metrics.sections(record.context) for record in self.records}
        answers = [
            CitedAnswer(f"{row['domain']}/{row['record']}", row["record"], row["model"], tuple(sentences(texts[row["key"]])))
            for row in rows.sort("domain", "record", "model").iter_rows(named=True)
        ]
        documents = {
            f"{domain}/{record}": [(str(number), text) for number, text in numbered.items()]
            for (domain, record), numbered in of.items()
            if numbered
        }
        return CitedAnswers(documents, [one for one in answers if one.haystack_id in documents])

    def details(self, scores: benchmark.Tables) -> Mapping[str, Any]:
        """Return `tasks`: one row per task, domain and model."""
        return {
            "tasks": [
                {
                    **{name: row[name] for name in ("task", "domain", "model", "n_expected")},
                    "n_scored": row["n"],
                    "score": row["score"],
                    "score_floor": row["score_floor"],
                    "score_release": row["score_release"],
                    "ci": None if row["score_low"] is None else [row["score_low"], row["score_high"]],
                    "ci_reason": row["score_reason"],
                    "chance": row["chance"],
                }
                for row in scores["tasks"].iter_rows(named=True)
            ]
        }

    def own_code(self) -> Sequence[str]:
        extracts = [judge.extract.method for judge in self.spec.raters if judge.extract]
        return [*super().own_code(), *(method for method in extracts if ":" in method)]


@dataclass(frozen=True, slots=True)
class _Prompt:
    """The texts to send to a model, with the token counts of the whole prompt and of the part that is sent."""

    system: str = ""
    user: str = ""
    tokens: int = field(kw_only=True)
    shown_tokens: int = 0
    too_long: bool = False
    truncated: bool = False
