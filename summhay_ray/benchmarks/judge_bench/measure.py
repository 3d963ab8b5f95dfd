"""Measures judges on annotated summaries, part by part: the two parts of a blend, or of a cascade.

A part may be a stored prediction wherever it may be a model. This module asks no model itself: it calls an `AskJudge`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from summhay_ray.benchmark import Answer, Malformed, Outcome
from summhay_ray.benchmarks.judge_bench.result import BenchRow, Judged, Outcomes, Wanted
from summhay_ray.benchmarks.judge_bench.spec import BenchJudge, is_free, leaves, rates_together
from summhay_ray.benchmarks.summhay.biases import asked_name
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

AskJudge = Callable[[BenchJudge, Named, Wanted], Judged]
"""(judge, the part of it to ask, the insights of each summary) -> their outcomes."""


class FreeRatings:
    """The free judge's ratings of all annotated summaries, computed once. `held_out`: it is fitted on the other topics."""

    def __init__(self, summaries: Sequence[bench.AnnotatedSummary], held_out: bool) -> None:
        self._summaries, self.held_out = summaries, held_out
        self._found: dict[bool, list[list[bench.Rated]]] = {}

    def of(self, together: bool) -> list[list[bench.Rated]]:
        """The ratings of each summary's insights. `together`: the judge sees all insights of a summary at once."""
        if together not in self._found:
            self._found[together] = self._held_out(together) if self.held_out else self._shipped(together)
        return self._found[together]

    def _held_out(self, together: bool) -> list[list[bench.Rated]]:
        return fit.held_out(fit.measure(self._summaries), together)

    def _shipped(self, together: bool) -> list[list[bench.Rated]]:
        texts = ([insight.text for insight in summary.insights] for summary in self._summaries)
        return [bench.rate(row, summary.bullets, together) for row, summary in zip(texts, self._summaries, strict=True)]


class Measure:
    """Computes the figures of judges on annotated summaries. `file`: its name, for the source of a bias."""

    def __init__(self, summaries: Sequence[bench.AnnotatedSummary], file: str, free: FreeRatings, ask: AskJudge) -> None:
        self._summaries, self._file, self._ratings, self._ask = summaries, file, free, ask
        self.all: Wanted = [range(len(summary.insights)) for summary in summaries]
        self._summarizers = [parse_system(summary.system).model or "unknown" for summary in summaries]

    def row(self, judge: BenchJudge) -> BenchRow:
        """The figures of one judge."""
        judged = self.judged(judge, judge.named, self.all)
        outcomes = [[row[place] for place in wanted] for row, wanted in zip(judged.outcomes, self.all, strict=True)]
        verdicts = [[outcome.value if isinstance(outcome, Answer) else None for outcome in row] for row in outcomes]
        missing = [outcome for row in outcomes for outcome in row if not isinstance(outcome, Answer)]
        failures = Counter(outcome.error for outcome in missing)
        usd = None if judged.micros is None else judged.micros / MICROS
        bias = bench.measured_bias(judge.name, self._summaries, verdicts, self._summarizers)
        return BenchRow(
            judge=judge.name,
            figures=bench.agreement(self._summaries, verdicts, self._summarizers),
            usd=usd,
            usd_per_200=None if usd is None else usd / len(self._summaries) * 200,
            usd_source=None if usd is None else judged.source,
            failures=dict(sorted(failures.items())),
            messages={outcome.error: " ".join(outcome.message.split()) for outcome in reversed(missing)},
            bias=bias and replace(bias, names=_names(judge), source=self._source(judge)),
        )

    def _source(self, judge: BenchJudge) -> str:
        fitted = self._ratings.held_out and any(map(is_free, leaves(judge.named)))
        return f"{len(self._summaries)} annotated summaries of {self._file}" + (", fitted on its other topics" if fitted else "")

    def judged(self, judge: BenchJudge, named: Named, wanted: Wanted) -> Judged:
        """The outcomes of a judge, or of the part `named` of it, for the wanted insights."""
        if named.kind == "blend":
            first, second = [self.judged(judge, part, wanted) for part in named.parts]
            mixed = [
                {place: _blended(row[place], other[place], len(summary.bullets)) for place in row}
                for summary, row, other in zip(self._summaries, first.outcomes, second.outcomes, strict=True)
            ]
            return Judged(mixed, *first.cost_with(second))
        if named.kind == "cascade":
            return self._cascaded(judge, named, wanted)
        if named.kind == "stored":
            return self._stored(named.text.removeprefix(bench.STORED_PREFIX), wanted)
        return self._free(wanted, rates_together(judge)) if is_free(named) else self._ask(judge, named, wanted)

    def _cascaded(self, judge: BenchJudge, named: Named, wanted: Wanted) -> Judged:
        """The free judge on all insights, replaced by the other one on the share of which the free one is least certain."""
        free = self.judged(judge, named.parts[0], wanted)
        pairs = [(index, place) for index, places in enumerate(wanted) for place in places]
        doubts = [_uncertainty(free.outcomes[index][place]) for index, place in pairs]
        chosen = {pairs[at] for at in least_certain(doubts, DEFAULT_SHARE if named.share is None else named.share)}
        doubtful = [[place for place in places if (index, place) in chosen] for index, places in enumerate(wanted)]
        other = self.judged(judge, named.parts[1], doubtful)
        mixed = [
            {**row, **{place: usable(outcome, len(summary.bullets)) for place, outcome in more.items()}}
            for summary, row, more in zip(self._summaries, free.outcomes, other.outcomes, strict=True)
        ]
        return Judged(mixed, *free.cost_with(other))

    def _stored(self, key: str, wanted: Wanted) -> Judged:
        verdicts = bench.stored_verdicts(self._summaries, key)
        absent = Malformed("missing_prediction", f"{key} has no usable prediction for the insight")
        outcomes: Outcomes = []
        for row, places in zip(verdicts, wanted, strict=True):
            found = {place: row[place] for place in places}
            outcomes.append({place: absent if verdict is None else Answer(verdict) for place, verdict in found.items()})
        return Judged(outcomes, bench.stored_micros(key, self._summaries, verdicts, wanted), "estimated")

    def _free(self, wanted: Wanted, together: bool) -> Judged:
        """The free judge's ratings. If it rates `together`, all insights of a summary count as its input, as in a run."""
        rows = zip(self._ratings.of(together), wanted, strict=True)
        return Judged([{place: Answer(rated[place].verdict) for place in places} for rated, places in rows])


def _names(judge: BenchJudge) -> tuple[str, ...]:
    """The judge's other names in runs."""
    if judge.named.kind == "stored":
        return bench.STORED_NAMES.get(judge.named.text.removeprefix(bench.STORED_PREFIX), ())
    if judge.entry is not None:
        return ()
    try:
        names = (judge.named.text, asked_name(*strategy_of(judge.named)))
    except BadName:
        names = (judge.named.text, "")
    return tuple(dict.fromkeys(name for name in names if name not in (judge.name, "")))


def usable(outcome: Outcome[Verdict], n_bullets: int) -> Outcome[Verdict]:
    """The outcome; Malformed if the verdict contradicts itself or its summary, as scoring would not use it either."""
    if not isinstance(outcome, Answer):
        return outcome
    verdict = usable_verdict(outcome.value, n_bullets)
    if isinstance(verdict, Malformed):
        return replace(verdict, key=outcome.key)
    return replace(outcome, value=verdict)


def _blended(first: Outcome[Verdict], second: Outcome[Verdict], n_bullets: int) -> Outcome[Verdict]:
    """The blend of two verdicts, as in a run; the first part that is missing or unusable, if there is one."""
    first, second = usable(first, n_bullets), usable(second, n_bullets)
    if not isinstance(first, Answer):
        return first
    return Answer(blend(first.value, second.value)) if isinstance(second, Answer) else second


def _uncertainty(outcome: Outcome[Verdict]) -> float:
    """The uncertainty of the free judge, which gives one for every insight; without one NaN, which `least_certain` refuses."""
    uncertainty = outcome.value.uncertainty if isinstance(outcome, Answer) else None
    return math.nan if uncertainty is None else uncertainty
