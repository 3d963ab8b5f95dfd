"""`judge-bench`: judges held against people's annotations; asks those that need calls. Part of the grid room; no Ray.

A name is judged part by part (a blend's two judges, a cascade's free one and the one that it asks), so that stored predictions
stand wherever a model may. Calls go through the gateway, with a ledger in this process and the store's response log: what was
paid for once is not paid for again, whichever command asked it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from summhay_ray.grid.answering import guarded, one_each
from summhay_ray.grid.bench_office import Office
from summhay_ray.grid.bench_spec import BenchJudge, BenchSpec, is_free, leaves, rates_together, read_judges
from summhay_ray.grid.plan import TOKENS_A_VERDICT, StagePlan
from summhay_ray.grid.scoring import asked_name
from summhay_ray.grid.spec import SpecError
from summhay_ray.haystack import parse_system
from summhay_ray.judge import (
    DEFAULT_SHARE,
    BadName,
    Named,
    Verdict,
    bench,
    blend,
    least_certain,
    make_judge,
    strategy_of,
    usable_verdict,
)
from summhay_ray.llm import Request
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome
from summhay_ray.records import MICROS, RawAnswer
from summhay_ray.score import JudgeBias
from summhay_ray.store import Store

Source = Literal["free", "estimated", "spent"]

Wanted = Sequence[Sequence[int]]
"""Which insights of each summary are to be judged, by their places."""

Outcomes = list[dict[int, Outcome[Verdict]]]
"""Of each summary, place of an insight -> what became of judging it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge, or a part of one, gave, and what that costs: None where nobody knows."""

    outcomes: Outcomes
    micros: int | None = 0
    source: Source = "free"

    def cost_with(self, other: Judged) -> tuple[int | None, Source]:
        """Micro-dollars of both, and how they are known: estimated where either is."""
        micros = None if self.micros is None or other.micros is None else self.micros + other.micros
        sources = {self.source, other.source}
        return micros, "estimated" if "estimated" in sources else "spent" if "spent" in sources else "free"


@dataclass(frozen=True)
class BenchRow:
    """One judge's figures; dollars are of judging these summaries once, whatever was paid before."""

    judge: str
    figures: bench.Agreement
    usd: float | None
    usd_per_200: float | None
    usd_source: Source | None
    failures: dict[str, int]
    """Class of a failure -> how many judgments it cost."""
    messages: dict[str, str] = field(default_factory=dict)
    """Class of a failure -> what the first of them said."""
    bias: JudgeBias | None = field(repr=False, default=None)

    @property
    def missing(self) -> str:
        """Which judgments are missing, in words: with what a person's own judge raised first."""
        said = {"judge_error": f" ({self.messages.get('judge_error')})"}
        return ", ".join(f"{count} {error}{said.get(error, '')}" for error, count in self.failures.items())

    def to_json(self) -> dict[str, Any]:
        """The judge's entry in the JSON document."""
        costs = {name: getattr(self, name) for name in ("usd", "usd_per_200", "usd_source")}
        return {"judge": self.judge, **asdict(self.figures), **costs, "failures": self.failures, "messages": self.messages}


@dataclass(frozen=True)
class BenchResult:
    """What `judge-bench` measured."""

    n_summaries: int
    n_insights: int
    judges: list[BenchRow]
    calls: dict[str, int]
    """Of this time: made, reused, failed."""
    usd_spent: float
    """Dollars that the bench has cost so far."""
    held_out: bool = False
    """Whether the free judge was fitted without the topic that it judged."""
    left: Mapping[str, Any] | None = None
    """Where the budget stopped it, what is left: judgments, and as far as their prompts are known calls, and their dollars at
    least, expected and at most."""

    @property
    def status(self) -> str:
        """done, budget (stopped at it), or partial (judgments are missing)."""
        errors = Counter(error for row in self.judges for error in row.failures)
        return "budget" if errors["budget"] else "partial" if errors else "done"

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay judge-bench`."""
        counts = {"n_summaries": self.n_summaries, "n_insights": self.n_insights}
        money = {"calls": self.calls, "usd_spent": self.usd_spent}
        return {
            **counts,
            "status": self.status,
            "held_out": self.held_out,
            **money,
            "left": self.left,
            "judges": [row.to_json() for row in self.judges],
        }

    def biases(self) -> str:
        """The measured biases as a file that `score --bias` reads."""
        found = [row.bias for row in self.judges if row.bias is not None]
        return bench.biases_json(found, "How far judges' coverage lies above people's, as judge-bench measured it; fractions.")


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How judges are measured."""

    budget_usd: float | None = None
    """Dollars that these judges never exceed on this file, over all times; None: no bound."""
    spec: str | None = None
    """Path of a spec whose judges say how models are reached."""
    held_out: bool = False
    """The free judge with numbers fitted on the file's other topics, topic by topic."""


def bench_judges(path: Path, names: Sequence[str], store: Store, options: BenchOptions = BenchOptions()) -> BenchResult:
    """Measure judges against the annotations at `path`; without names, its stored predictions and the free judge.

    Raises BadAnnotations, SpecError, UnknownName, BadName (nothing was asked then), StoreError, OSError.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror}); give a file of annotated summaries") from error
    summaries = bench.load_summaries(path)
    known = read_judges(names, options.spec, bench.stored_keys(summaries))
    identity = {"file": hashlib.sha256(content).hexdigest(), "judges": known.content()}
    run_id = "b" + hashlib.sha256(json.dumps(identity, sort_keys=True).encode("ascii")).hexdigest()[:12]
    # Part of a micro-dollar is not there to be spent; 0.29 dollars are 289999.99999999994 micro-dollars to a float.
    budget_micros = None if options.budget_usd is None else math.floor(round(options.budget_usd * MICROS, 3))
    office = Office(store, run_id, content, known.settings(), budget_micros)
    if options.held_out and len({summary.topic for summary in summaries}) < 2:
        raise SpecError(f"{path.name} has one topic alone; --held-out fits offline on the others: leave it away")
    result = asyncio.run(_Bench(summaries, known, office, options.held_out).result(path.name))
    return replace(result, held_out=options.held_out)


class _Bench:
    def __init__(self, summaries: Sequence[bench.AnnotatedSummary], known: BenchSpec, office: Office, held_out: bool) -> None:
        self._summaries, self._known, self._office, self._held_out = summaries, known, office, held_out
        self._all: Wanted = [range(len(summary.insights)) for summary in summaries]
        self._unpaid: dict[str, tuple[Request, int]] = {}
        """Key -> what the budget did not pay for, and how many verdicts were asked for."""
        self._summarizers = [parse_system(summary.system).model or "unknown" for summary in summaries]

    async def result(self, file: str) -> BenchResult:
        """All judges, one after another: what one pays for, the next finds in the log."""
        async with self._office:
            rows = [self._row(one, await self._judged(one, one.named, self._all), file) for one in self._known.judges]
        numbers = self._office.snapshot
        return BenchResult(
            n_summaries=len(self._summaries),
            n_insights=sum(map(len, self._all)),
            judges=rows,
            calls={name: numbers.get(name, 0) for name in ("made", "reused", "failed")},
            usd_spent=numbers.get("spent_micros", 0) / MICROS,
            left=self._left(sum(row.failures.get("budget", 0) for row in rows)),
        )

    def _left(self, n_judgments: int) -> dict[str, Any] | None:
        if not n_judgments:
            return None
        settings, total = self._known.settings(), StagePlan("judge", "")
        for request, n_verdicts in self._unpaid.values():
            reach, longest = settings[request.model], int(request.sampling.get("max_tokens", 0))
            total.add(reach, reach.prompt_tokens(request.prompt, request.sampling), TOKENS_A_VERDICT * n_verdicts, longest)
        usd = {"min": total.usd_min, "expected": total.usd, "max": total.usd_max}
        return {"judgments": n_judgments, "calls": total.calls, "usd": usd}

    def _row(self, one: BenchJudge, judged: Judged, file: str) -> BenchRow:
        found = [[outcomes[place] for place in wanted] for outcomes, wanted in zip(judged.outcomes, self._all, strict=True)]
        verdicts = [[one.value if isinstance(one, Answer) else None for one in row] for row in found]
        missing = [one for row in found for one in row if not isinstance(one, Answer)]
        failures = Counter(one.error for one in missing)
        usd = None if judged.micros is None else judged.micros / MICROS
        bias = bench.measured_bias(one.name, self._summaries, verdicts, self._summarizers)
        return BenchRow(
            judge=one.name,
            figures=bench.agreement(self._summaries, verdicts, self._summarizers),
            usd=usd,
            usd_per_200=None if usd is None else usd / len(self._summaries) * 200,
            usd_source=None if usd is None else judged.source,
            failures=dict(sorted(failures.items())),
            messages={one.error: " ".join(one.message.split()) for one in reversed(missing)},
            bias=bias and replace(bias, names=_names(one), source=self._source(one, file)),
        )

    def _source(self, one: BenchJudge, file: str) -> str:
        fitted = self._held_out and any(map(is_free, leaves(one.named)))
        return f"{len(self._summaries)} annotated summaries of {file}" + (", fitted on its other topics" if fitted else "")

    async def _judged(self, one: BenchJudge, named: Named, wanted: Wanted) -> Judged:
        if named.kind == "blend":
            first, second = [await self._judged(one, part, wanted) for part in named.parts]
            mixed = [
                {place: _blended(row[place], other[place], len(summary.bullets)) for place in row}
                for summary, row, other in zip(self._summaries, first.outcomes, second.outcomes, strict=True)
            ]
            return Judged(mixed, *first.cost_with(second))
        if named.kind == "cascade":
            return await self._cascaded(one, named, wanted)
        if named.kind == "stored":
            return self._stored(named.text.removeprefix(bench.STORED_PREFIX), wanted)
        return self._free(wanted, rates_together(one)) if is_free(named) else await self._asked(one, named, wanted)

    async def _cascaded(self, one: BenchJudge, named: Named, wanted: Wanted) -> Judged:
        """The free judge on all, the other on exactly the share of them that the free one is least certain of."""
        free = await self._judged(one, named.parts[0], wanted)
        pairs = [(index, place) for index, places in enumerate(wanted) for place in places]
        doubts = [_uncertainty(free.outcomes[index][place]) for index, place in pairs]
        chosen = {pairs[at] for at in least_certain(doubts, DEFAULT_SHARE if named.share is None else named.share)}
        asked = [[place for place in places if (index, place) in chosen] for index, places in enumerate(wanted)]
        other = await self._judged(one, named.parts[1], asked)
        mixed = [
            {**row, **{place: _usable(outcome, len(summary.bullets)) for place, outcome in more.items()}}
            for summary, row, more in zip(self._summaries, free.outcomes, other.outcomes, strict=True)
        ]
        return Judged(mixed, *free.cost_with(other))

    def _stored(self, key: str, wanted: Wanted) -> Judged:
        verdicts = bench.stored_verdicts(self._summaries, key)
        absent = Malformed("missing_prediction", f"{key} holds no usable prediction of the insight")
        outcomes: Outcomes = []
        for row, places in zip(verdicts, wanted, strict=True):
            found = {place: row[place] for place in places}
            outcomes.append({place: absent if one is None else Answer(one) for place, one in found.items()})
        return Judged(outcomes, bench.stored_micros(key, self._summaries, verdicts, wanted), "estimated")

    def _free(self, wanted: Wanted, together: bool) -> Judged:
        """The free judge rates a summary's insights together, whichever of them are wanted, as it does in a run."""
        ratings = bench.held_out_ratings(self._summaries, together) if self._held_out else None
        outcomes: Outcomes = []
        for index, (summary, places) in enumerate(zip(self._summaries, wanted, strict=True)):
            texts = [insight.text for insight in summary.insights] if places else []
            rated = bench.rate(texts, summary.bullets, together) if ratings is None else ratings[index]
            outcomes.append({place: Answer(_verdict(rated[place])) for place in places})
        return Judged(outcomes)

    async def _asked(self, one: BenchJudge, leaf: Named, wanted: Wanted) -> Judged:
        strategy, settings = self._known.asked(one, leaf)
        raw: dict[str, int] = {}

        async def ask(request: Request) -> Outcome[RawAnswer]:
            outcome, answer = await self._office.ask(request)
            if answer is not None:
                raw[answer.key] = answer.usd_micros
                self._unpaid.pop(answer.key, None)
            elif isinstance(outcome, Failed) and outcome.error == "budget":
                one_verdict = int(settings.sampling.get("max_tokens", 0)) or 1
                self._unpaid[request.key] = request, max(1, int(request.sampling.get("max_tokens", 0)) // one_verdict)
            return outcome

        async def judge(summary: bench.AnnotatedSummary, places: Sequence[int]) -> dict[int, Outcome[Verdict]]:
            insights = [summary.insights[place] for place in places]

            async def asked() -> Any:
                return await make_judge(strategy).judge(insights, summary.bullets, settings, ask)

            outcomes = one_each(await guarded("judge_error", asked()), len(insights))
            usable = (_usable(outcome, len(summary.bullets)) for outcome in outcomes)
            return dict(zip(places, usable, strict=True))

        chosen = [index for index, places in enumerate(wanted) if places]
        found = await asyncio.gather(*(judge(self._summaries[index], wanted[index]) for index in chosen))
        outcomes = dict(zip(chosen, found, strict=True))
        return Judged(
            [outcomes.get(index, {}) for index in range(len(wanted))], sum(raw.values()), "spent" if sum(raw.values()) else "free"
        )


def _names(one: BenchJudge) -> tuple[str, ...]:
    """What the judge goes by in a run, beside its own name."""
    if one.named.kind == "stored":
        return bench.STORED_NAMES.get(one.named.text.removeprefix(bench.STORED_PREFIX), ())
    if one.entry is not None:
        return ()
    try:
        names = (one.named.text, asked_name(*strategy_of(one.named)))
    except BadName:
        names = (one.named.text, "")
    return tuple(dict.fromkeys(name for name in names if name not in (one.name, "")))


def _verdict(rated: bench.Rated) -> Verdict:
    bullet = '"NA"' if rated.bullet is None else str(rated.bullet + 1)
    return Verdict(rated.coverage, bullet, rated.value, rated.uncertainty)


def _usable(outcome: Outcome[Verdict], n_bullets: int) -> Outcome[Verdict]:
    """The outcome, malformed where the verdict contradicts itself or its summary: scoring would not use it either."""
    if not isinstance(outcome, Answer):
        return outcome
    verdict = usable_verdict(outcome.value, n_bullets)
    if isinstance(verdict, Malformed):
        return replace(verdict, key=outcome.key)
    return replace(outcome, value=verdict)


def _blended(first: Outcome[Verdict], second: Outcome[Verdict], n_bullets: int) -> Outcome[Verdict]:
    """The blend of two verdicts as a run makes it; a part that is missing or unusable makes the whole so."""
    first, second = _usable(first, n_bullets), _usable(second, n_bullets)
    if not isinstance(first, Answer):
        return first
    return Answer(blend(first.value, second.value)) if isinstance(second, Answer) else second


def _uncertainty(outcome: Outcome[Verdict]) -> float:
    """Of the free judge, which says one of every insight; NaN, which `least_certain` refuses, where it does not."""
    told = outcome.value.uncertainty if isinstance(outcome, Answer) else None
    return math.nan if told is None else told
