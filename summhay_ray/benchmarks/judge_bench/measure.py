"""Measures judges on annotated summaries, part by part: the two parts of a blend, or of a cascade.

A part may be a stored prediction wherever it may be a model. This module asks no model itself: it calls an `AskJudge`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from summhay_ray.benchmarks.judge_bench.result import BenchRow, Judged, Outcomes, PanelVotes, Wanted
from summhay_ray.benchmarks.judge_bench.spec import BenchJudge, is_free
from summhay_ray.haystack import parse_system
from summhay_ray.judge import (
    DEFAULT_SHARE,
    BadName,
    Composed,
    Named,
    Verdict,
    bench,
    blend,
    fit,
    least_certain,
    name_of,
    panel,
    strategy_of,
    usable_verdict,
)
from summhay_ray.loops import run_loop
from summhay_ray.outcome import MICROS, Answer, Malformed, Outcome

AskJudge = Callable[[BenchJudge, Named, Wanted], Judged]
"""(judge, the part of it to ask, the insights of each summary) -> the outcomes."""

Pair = tuple[int, int]
"""A summary and one of its insights, by index."""


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
    """Computes the figures of judges on annotated summaries. `file`: its name, recorded as the source of a bias."""

    def __init__(self, summaries: Sequence[bench.AnnotatedSummary], file: str, free: FreeRatings, ask: AskJudge) -> None:
        self._summaries, self._file, self._ratings, self._ask = summaries, file, free, ask
        self.all: Wanted = [range(len(summary.insights)) for summary in summaries]
        self._summarizers = [parse_system(summary.system).model or "unknown" for summary in summaries]

    def row(self, judge: BenchJudge) -> BenchRow:
        """The figures of one judge."""
        judged = self.judged(judge, self.all)
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
            panel=PanelVotes.of(judged.votes),
            messages={outcome.error: " ".join(outcome.message.split()) for outcome in reversed(missing)},
            bias=bias and replace(bias, names=_names(judge), source=self._source(judge)),
        )

    def _source(self, judge: BenchJudge) -> str:
        fitted = self._ratings.held_out and any(map(is_free, judge.named.leaves()))
        return f"{len(self._summaries)} annotated summaries of {self._file}" + (", fitted on its other topics" if fitted else "")

    def judged(self, judge: BenchJudge, wanted: Wanted) -> Judged:
        """The outcomes of a judge for the wanted insights. A cascade passes on the least certain insights of the whole file."""
        costs = [Judged([])]

        async def ask(named: Named, pairs: Sequence[Pair], share: float) -> list[Outcome[Verdict]]:
            places: list[list[int]] = [[] for _ in wanted]
            for summary, place in pairs:
                places[summary].append(place)
            found = self._leaf(judge, named, places)
            costs.append(found)
            return [found.outcomes[summary][place] for summary, place in pairs]

        def least_sure(named: Named, pairs: Sequence[Pair], uncertainties: Sequence[float] | None) -> set[int]:
            return least_certain(uncertainties or (), DEFAULT_SHARE if named.share is None else named.share)

        def usable_of(pair: Pair, verdict: Verdict) -> Verdict | Malformed:
            return usable_verdict(verdict, len(self._summaries[pair[0]].bullets))

        votes = list[Sequence[str]]()

        def voted(named: Named, pair: Pair, said: Sequence[Outcome[Verdict]]) -> None:
            labels = [outcome.value.coverage for outcome in said if isinstance(outcome, Answer)]
            if named == judge.named and len(labels) == len(said):
                votes.append(labels)

        pairs = [(summary, place) for summary, places in enumerate(wanted) for place in places]
        composed = Composed(ask, usable_of, blend, panel, least_sure, voted)
        outcomes: Outcomes = [{} for _ in wanted]
        for (summary, place), outcome in zip(pairs, run_loop(lambda: composed.judge(judge.named, pairs)), strict=True):
            outcomes[summary][place] = outcome
        cost = functools.reduce(lambda one, other: Judged([], *one.cost_with(other)), costs)
        return Judged(outcomes, cost.micros, cost.source, votes)

    def _leaf(self, judge: BenchJudge, named: Named, wanted: Wanted) -> Judged:
        """The outcomes of a judge that is not composed of others: a judge, or a part of one."""
        if named.kind == "stored":
            return self._stored(named.text.removeprefix(bench.STORED_PREFIX), wanted)
        return self._free(wanted, named.kind == "offline") if is_free(named) else self._ask(judge, named, wanted)

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
        names = (judge.named.text, name_of(*strategy_of(judge.named)).text)
    except BadName:
        names = (judge.named.text, "")
    return tuple(dict.fromkeys(name for name in names if name not in (judge.name, "")))


def usable(outcome: Outcome[Verdict], n_bullets: int) -> Outcome[Verdict]:
    """The outcome; Malformed if the verdict contradicts itself or its summary, because scoring would reject it too."""
    if not isinstance(outcome, Answer):
        return outcome
    verdict = usable_verdict(outcome.value, n_bullets)
    if isinstance(verdict, Malformed):
        return replace(verdict, key=outcome.key)
    return replace(outcome, value=verdict)
