"""Judges held against people's annotations, part by part: a blend's two judges, a cascade's free one and the one that it asks.

So stored predictions stand wherever a model may. What asks models is given from outside (`Asked`): nothing is asked here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from summhay_ray.benchmark import Answer, Malformed, Outcome
from summhay_ray.benchmarks.judge_bench.result import BenchRow, Judged, Outcomes, Wanted
from summhay_ray.benchmarks.judge_bench.spec import BenchJudge, is_free, leaves, rates_together
from summhay_ray.benchmarks.summhay.scores import asked_name
from summhay_ray.haystack import parse_system
from summhay_ray.judge import (
    DEFAULT_SHARE,
    BadName,
    Named,
    Verdict,
    bench,
    blend,
    fit,
    least_certain,
    strategy_of,
    usable_verdict,
)
from summhay_ray.outcome import MICROS

Asked = Callable[[BenchJudge, Named, Wanted], Judged]
"""A judge's part that is asked, and which insights of each summary: what became of it."""


class FreeRatings:
    """What the free judge says of all annotated summaries; worked out once. `held_out`: fitted on the other topics."""

    def __init__(self, summaries: Sequence[bench.AnnotatedSummary], held_out: bool) -> None:
        self._summaries, self.held_out = summaries, held_out
        self._found: dict[bool, list[list[bench.Rated]]] = {}

    def of(self, together: bool) -> list[list[bench.Rated]]:
        """Its ratings, summary by summary. `together`: it sees all insights of a summary at once."""
        if together not in self._found:
            self._found[together] = self._held_out(together) if self.held_out else self._shipped(together)
        return self._found[together]

    def _held_out(self, together: bool) -> list[list[bench.Rated]]:
        return fit.held_out(fit.measure(self._summaries), together)

    def _shipped(self, together: bool) -> list[list[bench.Rated]]:
        return [bench.rate([one.text for one in summary.insights], summary.bullets, together) for summary in self._summaries]


class Measure:
    """The figures of judges on annotated summaries."""

    def __init__(self, summaries: Sequence[bench.AnnotatedSummary], file: str, free: FreeRatings, asked: Asked) -> None:
        self._summaries, self._file, self._ratings, self._asked = summaries, file, free, asked
        self.all: Wanted = [range(len(summary.insights)) for summary in summaries]
        self._summarizers = [parse_system(summary.system).model or "unknown" for summary in summaries]

    def row(self, one: BenchJudge) -> BenchRow:
        """One judge's figures."""
        return self._row(one, self.judged(one, one.named, self.all), self._file)

    def _row(self, one: BenchJudge, judged: Judged, file: str) -> BenchRow:
        found = [[outcomes[place] for place in wanted] for outcomes, wanted in zip(judged.outcomes, self.all, strict=True)]
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
        fitted = self._ratings.held_out and any(map(is_free, leaves(one.named)))
        return f"{len(self._summaries)} annotated summaries of {file}" + (", fitted on its other topics" if fitted else "")

    def judged(self, one: BenchJudge, named: Named, wanted: Wanted) -> Judged:
        """What a judge, or a part of one, gives of these insights."""
        if named.kind == "blend":
            first, second = [self.judged(one, part, wanted) for part in named.parts]
            mixed = [
                {place: _blended(row[place], other[place], len(summary.bullets)) for place in row}
                for summary, row, other in zip(self._summaries, first.outcomes, second.outcomes, strict=True)
            ]
            return Judged(mixed, *first.cost_with(second))
        if named.kind == "cascade":
            return self._cascaded(one, named, wanted)
        if named.kind == "stored":
            return self._stored(named.text.removeprefix(bench.STORED_PREFIX), wanted)
        return self._free(wanted, rates_together(one)) if is_free(named) else self._asked(one, named, wanted)

    def _cascaded(self, one: BenchJudge, named: Named, wanted: Wanted) -> Judged:
        """The free judge on all, the other on exactly the share of them that the free one is least certain of."""
        free = self.judged(one, named.parts[0], wanted)
        pairs = [(index, place) for index, places in enumerate(wanted) for place in places]
        doubts = [_uncertainty(free.outcomes[index][place]) for index, place in pairs]
        chosen = {pairs[at] for at in least_certain(doubts, DEFAULT_SHARE if named.share is None else named.share)}
        asked = [[place for place in places if (index, place) in chosen] for index, places in enumerate(wanted)]
        other = self.judged(one, named.parts[1], asked)
        mixed = [
            {**row, **{place: usable(outcome, len(summary.bullets)) for place, outcome in more.items()}}
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
        rows = zip(self._ratings.of(together), wanted, strict=True)
        return Judged([{place: Answer(_verdict(rated[place])) for place in places} for rated, places in rows])


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


def usable(outcome: Outcome[Verdict], n_bullets: int) -> Outcome[Verdict]:
    """The outcome, malformed where the verdict contradicts itself or its summary: scoring would not use it either."""
    if not isinstance(outcome, Answer):
        return outcome
    verdict = usable_verdict(outcome.value, n_bullets)
    if isinstance(verdict, Malformed):
        return replace(verdict, key=outcome.key)
    return replace(outcome, value=verdict)


def _blended(first: Outcome[Verdict], second: Outcome[Verdict], n_bullets: int) -> Outcome[Verdict]:
    """The blend of two verdicts as a run makes it; a part that is missing or unusable makes the whole so."""
    first, second = usable(first, n_bullets), usable(second, n_bullets)
    if not isinstance(first, Answer):
        return first
    return Answer(blend(first.value, second.value)) if isinstance(second, Answer) else second


def _uncertainty(outcome: Outcome[Verdict]) -> float:
    """Of the free judge, which says one of every insight; NaN, which `least_certain` refuses, where it does not."""
    told = outcome.value.uncertainty if isinstance(outcome, Answer) else None
    return math.nan if told is None else told
