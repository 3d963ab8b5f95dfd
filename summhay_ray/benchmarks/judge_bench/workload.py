"""The workload of a judge bench: an item is one question to a judge about an annotated summary, or about one of its insights.

Free judges and stored predictions have no items; they are evaluated when figures are computed. An answer is paid for only once,
whichever command requested it.
"""

import asyncio
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from summhay_ray import benchmark
from summhay_ray.benchmarks.judge_bench import result
from summhay_ray.benchmarks.judge_bench.measure import Measure
from summhay_ray.benchmarks.judge_bench.spec import ELSEWHERE, BenchJudge, JudgeBenchSpec, is_asked, read_judges
from summhay_ray.benchmarks.summarizing import AskModel, guard
from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.benchmarks.summhay.grid.grid import STAGE, TOKENS_A_VERDICT
from summhay_ray.benchmarks.summhay.grid.judgments import one_each
from summhay_ray.benchmarks.summhay.haystacks.metadata import BY_NAME
from summhay_ray.errors import SpecError
from summhay_ray.judge import Named, Verdict, asks_alone, bench, outcomes_of, usable_verdict
from summhay_ray.loops import run_loop
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome, no_answer
from summhay_ray.text import semantic_hash


@dataclass(frozen=True, slots=True)
class BenchVerdict:
    """A judge's verdict on one insight of an annotated summary."""

    cell_id: Annotated[str, "the item: one judge and a summary, or one insight if the judge rates each insight alone"]
    position: Annotated[int, "index of the insight in the file's summary, from 0"]
    coverage: Annotated[str, "the judge's label"]
    bullet_id: Annotated[str, "the bullet that covers the insight, as named by the judge, in JSON"]
    value: Annotated[float | None, "expected coverage (0..1) if the judge gives one"]
    uncertainty: Annotated[float | None, "standard deviation of the expected coverage"]
    key: Annotated[str, "key of the raw answer"]


@dataclass(frozen=True, slots=True)
class BenchAnswer:
    """An answer to one of an item's calls. The cost of the item's verdicts is the sum over its answers."""

    cell_id: Annotated[str, "the item, as in verdicts"]
    key: Annotated[str, "key of the raw answer"]


VERDICTS = benchmark.Table("verdicts", BenchVerdict, ("cell_id", "position"))
ANSWERS = benchmark.Table("answers", BenchAnswer, ("cell_id", "key"))

ItemOutcomes = Mapping[str, Mapping[int, Outcome[Verdict]]]
"""Item -> index of an insight -> the outcome of judging it."""

_WHOLE = -1
"""Used instead of an insight's index if a whole item has one outcome."""


_UNPAID = Failed("budget", "the call's worst case does not fit into what is left of the budget")
"""The outcome of an item that is not in the store. Only a budget leaves items unfinished."""


class JudgeBench(benchmark.Benchmark[JudgeBenchSpec]):
    """Measures judges on a file of annotated summaries."""

    kind = "judge_bench"
    stages = (STAGE,)
    tables = (VERDICTS, ANSWERS, BY_NAME["failures"])
    counted = benchmark.Counted("questions", "verdicts", prefix="b")

    def __init__(self, spec: JudgeBenchSpec, inputs: benchmark.Inputs) -> None:
        super().__init__(spec, inputs)
        self._summaries = bench.read_summaries(inputs.read(spec.file), Path(spec.file))
        prompts = {entry.prompt: inputs.text(entry.prompt) for entry in spec.judges if entry.prompt}
        keys = list(dict.fromkeys(key for summary in self._summaries for key in summary.stored))
        self._known = read_judges(spec, prompts, keys, self.models.revision)
        if spec.held_out and len({summary.topic for summary in self._summaries}) < 2:
            raise SpecError(f"{spec.file} has only one topic; --held-out fits offline on the others: leave it out")
        self.models.settings = functools.cache(lambda: spec.settings_of(self._asked_models()))
        self._measure = Measure(self._summaries, spec.file.rpartition("/")[2], spec.held_out)

    def identity(self) -> Any:
        """See `Workload`. Includes the file's content, the judges (however they are reached), and the questions to them."""
        judges = [
            {
                "judge": judge.named.text,
                "asked": [self._known.identity(judge, leaf) for leaf in judge.named.leaves() if is_asked(leaf)],
            }
            for judge in self._known.judges
        ]
        asked = semantic_hash([item.id for item in self.items()])
        return {"kind": self.kind, "file": self.inputs.digests[self.spec.file], "judges": judges, "asked": asked}

    def _asked_models(self) -> Sequence[benchmark.ModelSpec]:
        """The entries of the models that the run may ask."""
        leaves = [(judge, leaf) for judge in self._known.judges for leaf in judge.named.leaves()]
        entries = [self._known.settings_of(judge, leaf)[0] for judge, leaf in leaves if is_asked(leaf)]
        entries += self.spec.parts() if any(leaf.kind == "code" for _, leaf in leaves) else []
        return list({entry.model: entry for entry in reversed(entries)}.values())

    def queues(self) -> Mapping[str, benchmark.Queue]:
        """See `Workload`. Returns one queue per model, and one for user-defined judges, which may ask any model."""
        settings = self.models.settings()
        return {**{model: benchmark.Queue((model,)) for model in settings}, "": benchmark.Queue(tuple(settings))}

    @functools.cached_property
    def parts(self) -> Sequence[tuple[BenchJudge, Named, result.Wanted]]:
        """(Judge, the part of it to ask, the insights of each summary to ask about), for every part that needs a call."""
        found: list[tuple[BenchJudge, Named, result.Wanted]] = []

        def collect(judge: BenchJudge, leaf: Named, wanted: result.Wanted) -> result.Judged:
            found.append((judge, leaf, wanted))
            unknown = Failed("planned", "not asked yet")
            return result.Judged([dict.fromkeys(places, unknown) for places in wanted])

        for judge in self._known.judges:
            if any(map(is_asked, judge.named.leaves())):
                self._measure.outcomes_of(judge, self._measure.all, collect)
        return found

    def items(self) -> Iterator[benchmark.Item]:
        """See `Workload`. Yields one item per question. Judges that ask the same question share an item."""
        seen = set[str]()
        for index, (judge, leaf, wanted) in enumerate(self.parts):
            model = self._known.settings_of(judge, leaf)[1].model
            for item_id, summary, places in self._questions(judge, leaf, wanted):
                if item_id not in seen:
                    seen.add(item_id)
                    data = {"part": index, "summary": summary, "places": list(places)}
                    yield benchmark.Item(item_id, model, data, group=f"{index}/{summary}", size=len(places))

    def _questions(self, judge: BenchJudge, leaf: Named, wanted: result.Wanted) -> Iterator[tuple[str, int, Sequence[int]]]:
        """Yield the questions to a part as (item id, index of the summary, indices of the insights)."""
        who = self._known.identity(judge, leaf)
        alone = asks_alone(self._known.settings_of(judge, leaf)[0].strategy)
        for summary, places in enumerate(wanted):
            for indices in [[place] for place in places] if alone else [list(places)] if places else []:
                yield semantic_hash([who, summary, indices])[:32], summary, indices

    async def answer(self, item: benchmark.Item, ask: benchmark.Ask) -> benchmark.Rows:
        judge, leaf, _ = self.parts[item.data["part"]]
        longest = int(self._known.settings_of(judge, leaf)[1].sampling.get("max_tokens", 0)) or 1

        def expected(request: benchmark.Request) -> int:
            return TOKENS_A_VERDICT * max(1, int(request.sampling.get("max_tokens", 0)) // longest)

        rows: list[BenchVerdict] = []
        for place, outcome in (await self.judged(item, ask.of(STAGE.name, 1.0, expected), ask.planning)).items():
            if isinstance(outcome, Answer):
                verdict = outcome.value
                said = (str(verdict.coverage), str(verdict.bullet_id), verdict.value, verdict.uncertainty)
                rows.append(BenchVerdict(item.id, place, *said, outcome.key))
            else:
                ask.fail(STAGE.name, outcome, judge=judge.name, insight_id=str(place))
        return {VERDICTS.name: rows, ANSWERS.name: [BenchAnswer(item.id, key) for key in sorted(ask.raw)]}

    async def judged(self, item: benchmark.Item, ask: AskModel, planning: bool = False) -> dict[int, Outcome[Verdict]]:
        """Judge an item. Maps the index of each insight to its outcome, which is Malformed if scoring would not use it."""
        judge, leaf, _ = self.parts[item.data["part"]]
        entry, settings = self._known.settings_of(judge, leaf)
        summary, places = self._summaries[item.data["summary"]], item.data["places"]
        named = self.models.settings()

        async def known(request: benchmark.Request) -> Outcome[benchmark.RawAnswer]:
            if request.model not in named:
                raise LookupError(f"model {request.model!r} is asked but not listed; add it to the spec's judges")
            return await ask(request)

        insights = [summary.insights[place] for place in places]
        verdicts = functools.partial(outcomes_of, entry.strategy, insights, summary.bullets, settings, known)
        judged: dict[int, Outcome[Verdict]] = {}
        answered = one_each(await guard("judge_error", verdicts, entry.strategy if planning else ""), len(places))
        for place, outcome in zip(places, answered, strict=True):
            if isinstance(outcome, Answer):
                verdict = usable_verdict(outcome.value, len(summary.bullets))
                if isinstance(verdict, Malformed):
                    judged[place] = replace(verdict, key=outcome.key)
                    continue
                outcome = replace(outcome, value=verdict)
            judged[place] = outcome
        return judged

    def score(self, tables: benchmark.Tables) -> result.BenchResult:
        outcomes: dict[str, dict[int, Outcome[Verdict]]] = {}
        for row in VERDICTS.records(tables[VERDICTS.name]):
            verdict = Verdict(row.coverage, row.bullet_id, value=row.value, uncertainty=row.uncertainty)
            outcomes.setdefault(row.cell_id, {})[row.position] = Answer(verdict, key=row.key)
        for failure in BY_NAME["failures"].records(tables["failures"]):
            place = int(failure.insight_id) if failure.insight_id else _WHOLE
            outcome = no_answer(failure.kind, failure.error, failure.message, failure.key, failure.attempts, failure.usd_micros)
            outcomes.setdefault(failure.cell_id, {})[place] = outcome
        usd = dict(tables["raw_answers"].select("key", "usd_micros").iter_rows())
        costs: dict[str, dict[str, int]] = {}
        for answer in ANSWERS.records(tables[ANSWERS.name]):
            costs.setdefault(answer.cell_id, {})[answer.key] = usd[answer.key]
        return self.figures_of(outcomes, costs)

    def report(self, scores: result.BenchResult) -> Sequence[benchmark.Section]:
        return scores.sections

    def figures_of(
        self, outcomes: ItemOutcomes, costs: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    ) -> result.BenchResult:
        """Compute the figures of all judges from the outcomes of the items.

        `costs`: item -> key of each of its answers -> its cost in micro-dollars.
        """

        def known(judge: BenchJudge, leaf: Named, wanted: result.Wanted) -> result.Judged:
            judged: result.Outcomes = [{} for _ in wanted]
            spent: dict[str, int] = {}
            for item_id, summary, places in self._questions(judge, leaf, wanted):
                answered = outcomes.get(item_id, {})
                spent.update(costs.get(item_id, {}))
                judged[summary] |= {place: answered.get(place) or answered.get(_WHOLE) or _UNPAID for place in places}
            # `spent` maps keys to costs, so if several items share an answer, its cost counts once.
            total = sum(spent.values())
            return result.Judged(judged, total, "spent" if total else "free")

        return result.BenchResult(
            n_summaries=len(self._summaries),
            n_insights=sum(map(len, self._measure.all)),
            judges=[self._measure.row(judge, known) for judge in self._known.judges],
            calls={"made": 0, "reused": 0, "failed": 0},
            usd_spent=0.0,
            held_out=self.spec.held_out,
        )

    def details(self, scores: result.BenchResult) -> Mapping[str, Any]:
        return {"judges": [row.to_json() for row in scores.judges]}

    def own_code(self) -> Sequence[str]:
        code = (leaf.text for judge in self._known.judges for leaf in judge.named.leaves() if leaf.kind == "code")
        return [*super().own_code(), *dict.fromkeys(code)]


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Options of the measurement."""

    spec: str | None = None
    """Path of a spec whose judges define how to reach models."""
    held_out: bool = False
    """Whether the free judge is fitted, for each topic, on the file's other topics."""
    untrusted: bool = False
    """Whether the spec comes from somebody else."""


def load_bench(path: Path, names: Sequence[str], options: BenchOptions = BenchOptions()) -> JudgeBench:
    """Load the workload for these judges; by default, these are the file's stored predictions and the free judge. Makes no
    call. Raises UserError, SpecError, UnknownName and BadName."""
    fields, folder = JudgeBenchSpec.read_fields(options.spec) if options.spec else ({}, Path())
    where = options.spec or "judge-bench"
    known = {name: value for name, value in fields.items() if name not in ELSEWHERE}
    own = {"kind": JudgeBench.kind, "file": str(path.absolute()), "names": list(names), "held_out": options.held_out}
    spec = JudgeBenchSpec.parse({**known, **own}, where)
    # Ignore the limits and budgets of other stages and of summarizers, which a bench does not use.
    listed = fields.get("summarizers")
    entries = listed if isinstance(listed, list) else []
    summarizers = {str(entry.get("model") if isinstance(entry, Mapping) else entry) for entry in entries}
    others = {stage.name for stage in SummHay.stages} - {stage.name for stage in JudgeBench.stages}
    asked = {part.model for part in spec.parts()}
    kept: dict[str, Any] = {
        name: {model: value for model, value in getattr(spec, name).items() if model in asked or model not in summarizers}
        for name in ("limits", "model_budgets_usd")
    }
    kept["stage_budgets_usd"] = {stage: usd for stage, usd in spec.stage_budgets_usd.items() if stage not in others}
    judges = spec.model_copy(update={**kept, "file": "" if options.untrusted else spec.file})
    judges.check(where, [stage.name for stage in JudgeBench.stages], folder if options.untrusted else None)
    # Other problems are reported when the file is read.
    if not path.exists():
        raise SpecError(f"{path}: no such file; give a file of annotated summaries")
    inputs = benchmark.Inputs(folder, untrusted=options.untrusted)
    if options.untrusted:
        # The annotations may be outside the spec's folder, since the user named them on the command line.
        inputs.give(spec.file, benchmark.Inputs(folder).read(spec.file))
    workload = JudgeBench(spec, inputs)
    try:
        workload.models.settings()
    except SpecError as error:
        reason = str(error).removeprefix("spec: ")
        raise SpecError(f"judge-bench: {reason}; a spec's entry is given with --spec FILE") from error
    return workload


def free_outcomes(workload: JudgeBench) -> ItemOutcomes | None:
    """Return the outcomes of all items if none needs a model, else None. (User-defined judges run again each time, and
    nothing is stored.)"""
    requests: list[benchmark.Request] = []

    async def never(request: benchmark.Request) -> Outcome[benchmark.RawAnswer]:
        requests.append(request)
        return Failed("planned", "nothing is asked yet")

    async def try_items() -> ItemOutcomes | None:
        items = list(workload.items())
        # Try the first item alone: a judge that calls models usually calls one at once, and then no other item needs to run.
        first = [await workload.judged(item, never) for item in items[:1]]
        rest = [] if requests else await asyncio.gather(*(workload.judged(item, never) for item in items[1:]))
        return None if requests else {item.id: outcomes for item, outcomes in zip(items, [*first, *rest], strict=True)}

    return None if any(leaf.kind != "code" for _, leaf, _ in workload.parts) else run_loop(try_items)
