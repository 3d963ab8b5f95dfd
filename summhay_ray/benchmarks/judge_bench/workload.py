"""The workload of a judge bench: each item is one question to a judge about an annotated summary, or about one of its insights.

Free judges and stored predictions have no items; they are evaluated when figures are computed. An answer is paid for only once,
whichever command requested it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from summhay_ray.benchmark import (
    Ask,
    Benchmark,
    Counted,
    Inputs,
    Item,
    ModelSpec,
    Queue,
    RawAnswer,
    Request,
    Rows,
    Section,
    Table,
    Tables,
)
from summhay_ray.benchmarks.judge_bench.measure import AskJudge, FreeRatings, Measure, usable
from summhay_ray.benchmarks.judge_bench.report import sections
from summhay_ray.benchmarks.judge_bench.result import BenchResult, Judged, Outcomes, Wanted
from summhay_ray.benchmarks.judge_bench.spec import BenchJudge, JudgeBenchSpec, is_asked, read_judges
from summhay_ray.benchmarks.summarizing import AskModel, guarded
from summhay_ray.benchmarks.summhay.grid.entries import STAGE, TOKENS_A_VERDICT
from summhay_ray.benchmarks.summhay.grid.judgments import one_each
from summhay_ray.benchmarks.summhay.haystacks.tables import BY_NAME
from summhay_ray.errors import SpecError
from summhay_ray.judge import JudgeSettings, Named, Verdict, asks_alone, bench, outcomes_of
from summhay_ray.outcome import Answer, Failed, Outcome, no_answer
from summhay_ray.text import semantic_hash


@dataclass(frozen=True, slots=True)
class BenchVerdict:
    """A judge's verdict on one insight of an annotated summary."""

    cell_id: Annotated[str, "the item: one judge and a summary, or one of its insights if the judge rates each alone"]
    position: Annotated[int, "index of the insight in the file's summary, from 0"]
    coverage: Annotated[str, "the judge's label"]
    bullet_id: Annotated[str, "the bullet that covers the insight, as named by the judge, in JSON"]
    value: Annotated[float | None, "expected coverage (0..1) if the judge gives one"]
    uncertainty: Annotated[float | None, "standard deviation of the expected coverage"]
    key: Annotated[str, "key of the raw answer"]


@dataclass(frozen=True, slots=True)
class BenchAnswer:
    """An answer to one of an item's calls; the cost of its verdicts is the sum over these."""

    cell_id: Annotated[str, "the item, as in verdicts"]
    key: Annotated[str, "key of the raw answer"]


VERDICTS = Table("verdicts", BenchVerdict, ("cell_id", "position"))
ANSWERS = Table("answers", BenchAnswer, ("cell_id", "key"))

ItemOutcomes = Mapping[str, Mapping[int, Outcome[Verdict]]]
"""Item -> index of an insight -> the outcome of judging it."""

Micros = Mapping[str, Mapping[str, int]]
"""Item -> key of each of its answers -> its cost in micro-dollars."""

_WHOLE = -1
"""Replaces an insight's index if a whole item has one outcome."""


class JudgeBench(Benchmark[JudgeBenchSpec]):
    """Judges measured on a file of annotated summaries."""

    kind = "judge_bench"
    stages = (STAGE,)
    tables = (VERDICTS, ANSWERS, BY_NAME["failures"])
    counted = Counted("questions", "verdicts", prefix="b")

    def __init__(self, spec: JudgeBenchSpec, inputs: Inputs) -> None:
        super().__init__(spec, inputs)
        self._summaries = bench.read_summaries(inputs.read(spec.file), Path(spec.file))
        prompts = {entry.prompt: inputs.text(entry.prompt) for entry in spec.judges if entry.prompt}
        keys = list(dict.fromkeys(key for summary in self._summaries for key in summary.stored))
        self._known = read_judges(spec, prompts, keys, self.models.revision)
        if spec.held_out and len({summary.topic for summary in self._summaries}) < 2:
            raise SpecError(f"{spec.file} has only one topic; --held-out fits offline on the others: leave it out")
        self._free = FreeRatings(self._summaries, spec.held_out)

    def identity(self) -> Any:
        """See `Workload`: the file's content, the judges (however they are reached), and the questions to them."""
        asked = semantic_hash([item.id for item in self.items()])
        return {"kind": self.kind, "file": self.inputs.digests()[self.spec.file], "judges": self._known.content(), "asked": asked}

    def asked_models(self) -> Sequence[ModelSpec]:
        return self._known.entries()

    def queues(self) -> Mapping[str, Queue]:
        """See `Workload`: one queue per model, and one for user-defined judges, which may ask any model."""
        settings = self.models.settings()
        return {**{model: Queue((model,)) for model in settings}, "": Queue(tuple(settings))}

    @functools.cached_property
    def parts(self) -> Sequence[tuple[BenchJudge, Named, Wanted]]:
        """The parts of judges that are asked: the judge, the part, and the insights of each summary that it is asked about."""
        found: list[tuple[BenchJudge, Named, Wanted]] = []

        def collect(judge: BenchJudge, leaf: Named, wanted: Wanted) -> Judged:
            found.append((judge, leaf, wanted))
            unknown = Failed("planned", "not asked yet")
            return Judged([dict.fromkeys(places, unknown) for places in wanted])

        measure = self._measure(collect)
        for judge in self._known.judges:
            if any(map(is_asked, judge.named.leaves())):
                measure.judged(judge, measure.all)
        return found

    def _measure(self, ask: AskJudge) -> Measure:
        return Measure(self._summaries, self.spec.file.rpartition("/")[2], self._free, ask)

    def items(self) -> Iterator[Item]:
        """See `Workload`: one item per question. Judges that ask the same question share an item."""
        return iter(self._items)

    @functools.cached_property
    def _items(self) -> Sequence[Item]:
        items: dict[str, Item] = {}
        for index, (judge, leaf, wanted) in enumerate(self.parts):
            model = self._known.asked(judge, leaf)[1].model
            for item_id, summary, places in self._questions(judge, leaf, wanted):
                data = {"part": index, "summary": summary, "places": list(places)}
                items.setdefault(item_id, Item(item_id, model, data, group=f"{index}/{summary}", size=len(places)))
        return tuple(items.values())

    def _questions(self, judge: BenchJudge, leaf: Named, wanted: Wanted) -> Iterator[tuple[str, int, Sequence[int]]]:
        """The questions to a part as (item id, index of the summary, indices of the insights)."""
        who = self._known.identity(judge, leaf)
        alone = asks_alone(self._known.asked(judge, leaf)[0])
        for summary, places in enumerate(wanted):
            for together in [[place] for place in places] if alone else [list(places)] if places else []:
                yield semantic_hash([who, summary, together])[:32], summary, together

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """See `Workload`: the judge's verdicts on the item's insights."""
        longest = int(self._who(item)[2].sampling.get("max_tokens", 0)) or 1

        def expected(request: Request) -> int:
            return TOKENS_A_VERDICT * max(1, int(request.sampling.get("max_tokens", 0)) // longest)

        rows: list[BenchVerdict] = []
        for place, outcome in (await self.judged(item, ask.of(STAGE.name, 1.0, expected), ask.planning)).items():
            if isinstance(outcome, Answer):
                rows.append(_row(item.id, place, outcome.value, outcome.key))
            else:
                ask.fail(STAGE.name, outcome, judge=self._who(item)[0], insight_id=str(place))
        return {VERDICTS.name: rows, ANSWERS.name: [BenchAnswer(item.id, key) for key in sorted(ask.raw)]}

    async def judged(self, item: Item, ask: AskModel, planning: bool = False) -> dict[int, Outcome[Verdict]]:
        """Index of each insight -> the outcome of judging it; Malformed if scoring would not use it."""
        _, strategy, settings = self._who(item)
        summary, places = self._summaries[item.data["summary"]], item.data["places"]
        named = self.models.settings()

        async def known(request: Request) -> Outcome[RawAnswer]:
            if request.model not in named:
                raise LookupError(f"model {request.model!r} is asked but not listed; add it to the spec's judges")
            return await ask(request)

        async def verdicts() -> Any:
            insights = [summary.insights[place] for place in places]
            return await outcomes_of(strategy, insights, summary.bullets, settings, known)

        outcomes = one_each(await guarded("judge_error", strategy, verdicts(), planning), len(places))
        return {place: usable(outcome, len(summary.bullets)) for place, outcome in zip(places, outcomes, strict=True)}

    def _who(self, item: Item) -> tuple[str, str, JudgeSettings]:
        """The judge's name, its strategy and its settings for an item."""
        judge, leaf, _ = self.parts[item.data["part"]]
        return judge.name, *self._known.asked(judge, leaf)

    def score(self, tables: Tables) -> BenchResult:
        """See `Workload`: the figures of all judges (paper, Tables 1 and 6)."""
        return self.measured(_outcomes(tables), _micros(tables))

    def report(self, scores: BenchResult) -> Sequence[Section]:
        return sections(scores.judges)

    def measured(self, outcomes: ItemOutcomes, micros: Micros | None = None) -> BenchResult:
        """The figures of all judges, from the outcomes of the items and the costs of their answers."""
        costs = micros or {}

        def known(judge: BenchJudge, leaf: Named, wanted: Wanted) -> Judged:
            judged: Outcomes = [{} for _ in wanted]
            spent: dict[str, int] = {}
            for item_id, summary, places in self._questions(judge, leaf, wanted):
                answered = outcomes.get(item_id, {})
                spent.update(costs.get(item_id, {}))
                judged[summary] |= {place: answered.get(place) or answered.get(_WHOLE) or _UNPAID for place in places}
            # By key, so that an answer shared by several items counts once.
            total = sum(spent.values())
            return Judged(judged, total, "spent" if total else "free")

        measure = self._measure(known)
        return BenchResult(
            n_summaries=len(self._summaries),
            n_insights=sum(map(len, measure.all)),
            judges=[measure.row(judge) for judge in self._known.judges],
            calls={"made": 0, "reused": 0, "failed": 0},
            usd_spent=0.0,
            held_out=self.spec.held_out,
        )

    def details(self, scores: BenchResult) -> Mapping[str, Any]:
        return {"judges": [row.to_json() for row in scores.judges]}

    def own_code(self) -> Sequence[str]:
        code = (leaf.text for judge in self._known.judges for leaf in judge.named.leaves() if leaf.kind == "code")
        return [*super().own_code(), *dict.fromkeys(code)]


_UNPAID = Failed("budget", "the call's worst case does not fit into what is left of the budget")
"""The outcome of an item that is not in the store: only a budget leaves items unfinished."""


def _outcomes(tables: Tables) -> ItemOutcomes:
    """The stored outcomes of a run's items: verdicts and failures."""
    outcomes: dict[str, dict[int, Outcome[Verdict]]] = {}
    for row in VERDICTS.records(tables[VERDICTS.name]):
        verdict = Verdict(row.coverage, row.bullet_id, value=row.value, uncertainty=row.uncertainty)
        outcomes.setdefault(row.cell_id, {})[row.position] = Answer(verdict, key=row.key)
    for failure in BY_NAME["failures"].records(tables["failures"]):
        place = int(failure.insight_id) if failure.insight_id else _WHOLE
        outcome = no_answer(failure.kind, failure.error, failure.message, failure.key, failure.attempts, failure.usd_micros)
        outcomes.setdefault(failure.cell_id, {})[place] = outcome
    return outcomes


def _micros(tables: Tables) -> Micros:
    """The costs of each item's answers."""
    usd = dict(tables["raw_answers"].select("key", "usd_micros").iter_rows())
    prices: dict[str, dict[str, int]] = {}
    for answer in ANSWERS.records(tables[ANSWERS.name]):
        prices.setdefault(answer.cell_id, {})[answer.key] = usd[answer.key]
    return prices


def _row(item_id: str, place: int, verdict: Verdict, key: str) -> BenchVerdict:
    label, bullet = str(verdict.coverage), str(verdict.bullet_id)
    return BenchVerdict(item_id, place, label, bullet, verdict.value, verdict.uncertainty, key)
