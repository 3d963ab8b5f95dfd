"""Judges held against people's annotations, as a run: an item is what one judge is asked at a time about an annotated summary.

Free judges and stored predictions are no items: they are worked out where the figures are. What was paid for once is not paid
for again, whichever command asked it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from summhay_ray.benchmark import (
    RAW_ANSWERS,
    Answer,
    Ask,
    Benchmark,
    Compat,
    Counted,
    Failed,
    Inputs,
    Item,
    Malformed,
    Queue,
    Refusal,
    Request,
    Results,
    Rows,
    SpecError,
    Table,
    semantic_hash,
)
from summhay_ray.benchmarks.judge_bench.measure import Asked, FreeRatings, Measure, usable
from summhay_ray.benchmarks.judge_bench.result import BenchResult, Judged, Outcomes, Wanted
from summhay_ray.benchmarks.judge_bench.spec import BenchJudge, JudgeBenchSpec, is_asked, leaves, read_judges
from summhay_ray.benchmarks.summarizing import guarded
from summhay_ray.benchmarks.summhay.cell import one_each
from summhay_ray.benchmarks.summhay.judging import STAGE, TOKENS_A_VERDICT
from summhay_ray.benchmarks.summhay.tables import BY_NAME
from summhay_ray.judge import JudgeSettings, Named, Verdict, asks_alone, bench, make_judge
from summhay_ray.llm import Ask as AskModel
from summhay_ray.llm import ModelSettings, RawAnswer
from summhay_ray.outcome import NoAnswer, Outcome
from summhay_ray.records import Failure
from summhay_ray.store import RunStore


@dataclass(frozen=True, slots=True)
class BenchVerdict:
    """What a judge said of one insight of an annotated summary."""

    cell_id: Annotated[str, "the item: one judge on a summary, or on one insight where it is asked about each alone"]
    position: Annotated[int, "place of the insight in the file's summary, from 0"]
    coverage: Annotated[str, "the judge's label"]
    bullet_id: Annotated[str, "the bullet that covers the insight as the judge named it, as JSON"]
    value: Annotated[float | None, "expected coverage (0..1) where the judge gives one"]
    uncertainty: Annotated[float | None, "standard deviation of that expectation"]
    key: Annotated[str, "the raw answer that it comes from"]


@dataclass(frozen=True, slots=True)
class BenchAnswer:
    """An answer that came while a judge was asked: what its verdicts cost is the sum of these."""

    cell_id: Annotated[str, "the item, as in verdicts"]
    key: Annotated[str, "the raw answer"]


VERDICTS = Table("verdicts", BenchVerdict, ("cell_id", "position"))
ANSWERS = Table("answers", BenchAnswer, ("cell_id", "key"))

Told = Mapping[str, Mapping[int, Outcome[Verdict]]]
"""Item -> place of an insight -> what became of judging it."""

Micros = Mapping[str, Mapping[str, int]]
"""Item -> key of each of its answers -> what that cost, in micro-dollars."""

_WHOLE = -1
"""In the place of an insight: what became of an item as a whole."""


class JudgeBench(Benchmark[JudgeBenchSpec]):
    """One run of judges on a file."""

    kind = "judge_bench"
    prefix = "b"
    stages = (STAGE,)
    tables = (VERDICTS, ANSWERS, BY_NAME["failures"])
    counted = Counted("questions", "verdicts")

    def __init__(self, spec: JudgeBenchSpec, inputs: Inputs) -> None:
        super().__init__(spec, inputs)
        self.summaries = bench.read_summaries(inputs.read(spec.file), Path(spec.file))
        prompts = {one.prompt: inputs.text(one.prompt) for one in spec.judges if one.prompt}
        self.known = read_judges(spec, prompts, bench.stored_keys(self.summaries), self.revision_of)
        if spec.held_out and len({summary.topic for summary in self.summaries}) < 2:
            raise SpecError(f"{spec.file} has one topic alone; --held-out fits offline on the others: leave it away")
        self._free = FreeRatings(self.summaries, spec.held_out)

    def identity(self) -> Any:
        """See `Workload`: the file's content, the judges, wherever these are reached, and what they are asked about."""
        asked = semantic_hash([item.id for item in self.items()])
        return {"kind": self.kind, "file": self.inputs.digests()[self.spec.file], "judges": self.known.content(), "asked": asked}

    def settings(self) -> dict[str, ModelSettings]:
        """See `Workload`: every model that may be asked."""
        return self._settings

    @functools.cached_property
    def _settings(self) -> dict[str, ModelSettings]:
        return self.known.settings()

    def queues(self) -> Mapping[str, Queue]:
        """See `Workload`: one queue a model; a person's own judge may ask any of them."""
        settings = self.settings()
        return {**{one: Queue((one,)) for one in settings}, "": Queue(tuple(settings))}

    def own_code(self) -> Sequence[str]:
        """See `Workload`."""
        code = (leaf.text for one in self.known.judges for leaf in leaves(one.named) if leaf.kind == "code")
        return [*super().own_code(), *dict.fromkeys(code)]

    @functools.cached_property
    def parts(self) -> Sequence[tuple[BenchJudge, Named, Wanted]]:
        """The parts of judges that are asked, and which insights of each summary about."""
        found: list[tuple[BenchJudge, Named, Wanted]] = []

        def collect(one: BenchJudge, leaf: Named, wanted: Wanted) -> Judged:
            found.append((one, leaf, wanted))
            unknown = Failed("planned", "not asked yet")
            return Judged([dict.fromkeys(places, unknown) for places in wanted])

        measure = self._measure(collect)
        for one in self.known.judges:
            if any(map(is_asked, leaves(one.named))):
                measure.judged(one, one.named, measure.all)
        return found

    def _measure(self, asked: Asked) -> Measure:
        return Measure(self.summaries, self.spec.file.rpartition("/")[2], self._free, asked)

    def items(self) -> Iterator[Item]:
        """What parts of judges are asked at a time; what two judges ask alike is one item."""
        return iter(self._items)

    @functools.cached_property
    def _items(self) -> Sequence[Item]:
        found: dict[str, Item] = {}
        for index, (one, leaf, wanted) in enumerate(self.parts):
            model = self.known.asked(one, leaf)[1].model
            for item_id, summary, places in self._asked(one, leaf, wanted):
                data = {"part": index, "summary": summary, "places": list(places)}
                found.setdefault(item_id, Item(item_id, model, data, group=f"{index}/{summary}", size=len(places)))
        return tuple(found.values())

    def _asked(self, one: BenchJudge, leaf: Named, wanted: Wanted) -> Iterator[tuple[str, int, Sequence[int]]]:
        """(item, summary, insights) of all that a part is asked, one by one where it is asked about each insight alone."""
        who = self.known.identity(one, leaf)
        alone = asks_alone(self.known.asked(one, leaf)[0])
        for summary, places in enumerate(wanted):
            for together in [[place] for place in places] if alone else [list(places)] if places else []:
                yield semantic_hash([who, summary, together])[:32], summary, together

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """What the judge says of the insights."""
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
        """Place of each insight -> what the judge gives of it, as scoring would use it."""
        _, strategy, settings = self._who(item)
        summary, places = self.summaries[item.data["summary"]], item.data["places"]
        named = self.settings()

        async def known(request: Request) -> Outcome[RawAnswer]:
            if request.model not in named:
                raise LookupError(f"model {request.model!r} is asked, but not named; name it in the spec's judges")
            return await ask(request)

        async def asked() -> Any:
            insights = [summary.insights[place] for place in places]
            return await make_judge(strategy).judge(insights, summary.bullets, settings, known)

        outcomes = one_each(await guarded("judge_error", strategy, asked(), planning), len(places))
        return {place: usable(outcome, len(summary.bullets)) for place, outcome in zip(places, outcomes, strict=True)}

    def _who(self, item: Item) -> tuple[str, str, JudgeSettings]:
        """(judge, strategy, settings) of an item."""
        one, leaf, _ = self.parts[item.data["part"]]
        return one.name, *self.known.asked(one, leaf)

    def results(self, run: RunStore, compat: Compat = "default") -> Results:
        """See `Workload`."""
        measured = self.measured(_told(run), _micros(run))
        return Results({"judges": [row.to_json() for row in measured.judges]}, measured)

    def measured(self, told: Told, micros: Micros | None = None) -> BenchResult:
        """The figures of all judges."""
        costs = micros or {}

        def known(one: BenchJudge, leaf: Named, wanted: Wanted) -> Judged:
            outcomes: Outcomes = [{} for _ in wanted]
            spent: dict[str, int] = {}
            for item_id, summary, places in self._asked(one, leaf, wanted):
                found = told.get(item_id, {})
                spent.update(costs.get(item_id, {}))
                outcomes[summary] |= {place: found.get(place) or found.get(_WHOLE) or _UNPAID for place in places}
            # An answer that several items have in common is paid once.
            total = sum(spent.values())
            return Judged(outcomes, total, "spent" if total else "free")

        measure = self._measure(known)
        return BenchResult(
            n_summaries=len(self.summaries),
            n_insights=sum(map(len, measure.all)),
            judges=[measure.row(one) for one in self.known.judges],
            calls={"made": 0, "reused": 0, "failed": 0},
            usd_spent=0.0,
            held_out=self.spec.held_out,
        )


_UNPAID = Failed("budget", "the call's worst case does not fit into what is left of the budget")
"""What became of an item that is not in the store: nothing else leaves one open."""


def _told(run: RunStore) -> Told:
    """What the run's judges said, and where they said nothing usable."""
    found: dict[str, dict[int, Outcome[Verdict]]] = {}
    for row in VERDICTS.records(run.table(VERDICTS.name)):
        verdict = Verdict(row.coverage, row.bullet_id, value=row.value, uncertainty=row.uncertainty)
        found.setdefault(row.cell_id, {})[row.position] = Answer(verdict, key=row.key)
    for failure in BY_NAME["failures"].records(run.table("failures")):
        place = int(failure.insight_id) if failure.insight_id else _WHOLE
        found.setdefault(failure.cell_id, {})[place] = _outcome(failure)
    return found


def _micros(run: RunStore) -> Micros:
    """What the answers of each item cost."""
    tables = run.tables([RAW_ANSWERS.name, ANSWERS.name])
    usd = dict(tables[RAW_ANSWERS.name].select("key", "usd_micros").iter_rows())
    found: dict[str, dict[str, int]] = {}
    for one in ANSWERS.records(tables[ANSWERS.name]):
        found.setdefault(one.cell_id, {})[one.key] = usd[one.key]
    return found


def _row(item_id: str, place: int, verdict: Verdict, key: str) -> BenchVerdict:
    label, bullet = str(verdict.coverage), str(verdict.bullet_id)
    return BenchVerdict(item_id, place, label, bullet, verdict.value, verdict.uncertainty, key)


def _outcome(failure: Failure) -> NoAnswer:
    told = (failure.error, failure.message, failure.key, failure.attempts, failure.usd_micros)
    if failure.kind == "failed":
        return Failed(*told)
    return Refusal(*told) if failure.kind == "refusal" else Malformed(*told)
