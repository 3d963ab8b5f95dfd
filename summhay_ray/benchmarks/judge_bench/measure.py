"""Measure judges on annotated summaries. A blend or a cascade is measured part by part.

Any part may be a stored prediction instead of a model. This module calls no model itself: it calls an `AskJudge`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from summhay_ray import judge as judging
from summhay_ray.benchmarks.judge_bench.result import BenchRow, Judged, Outcomes, PanelVotes, Source, Wanted
from summhay_ray.benchmarks.judge_bench.spec import BenchJudge, is_free
from summhay_ray.haystack import parse_system
from summhay_ray.judge import bench, fit
from summhay_ray.loops import run_loop
from summhay_ray.metrics import alpha
from summhay_ray.outcome import MICROS, Answer, Malformed, Outcome
from summhay_ray.records import COVERAGE_VALUE

AskJudge = Callable[[BenchJudge, judging.Named, Wanted], Judged]
"""(judge, the part of it to ask, the insights of each summary) -> the outcomes."""

Pair = tuple[int, int]
"""A summary and one of its insights, by index."""


class Measure:
    """Computes the figures of judges on the annotated summaries of `file`. `held_out`: fit the free judge (`offline/judge`),
    for each topic, on the other topics."""

    def __init__(self, summaries: Sequence[bench.AnnotatedSummary], file: str, held_out: bool) -> None:
        self._summaries, self._file, self._held_out = summaries, file, held_out
        self.all: Wanted = [range(len(summary.insights)) for summary in summaries]
        self._summarizers = [parse_system(summary.system).model or "unknown" for summary in summaries]
        self._free: dict[bool, list[list[bench.Rated]]] = {}
        """The free judge's ratings of each summary's insights. The key is True for the judge that sees all insights of a
        summary at once."""

    def row(self, judge: BenchJudge, ask: AskJudge) -> BenchRow:
        judged = self.outcomes_of(judge, self.all, ask)
        outcomes = [[row[place] for place in wanted] for row, wanted in zip(judged.outcomes, self.all, strict=True)]
        verdicts = [[outcome.value if isinstance(outcome, Answer) else None for outcome in row] for row in outcomes]
        missing = [outcome for row in outcomes for outcome in row if not isinstance(outcome, Answer)]
        failures = Counter(outcome.error for outcome in missing)
        usd = None if judged.micros is None else judged.micros / MICROS
        bias = bench.measured_bias(judge.name, self._summaries, verdicts, self._summarizers)
        votes = judged.votes
        members = None
        if votes:
            worth = [[COVERAGE_VALUE[label] for label in labels] for labels in votes]
            alike = sum(len(set(labels)) == 1 for labels in votes)
            agreed = alpha([*zip(*worth, strict=True)])
            members = PanelVotes(len(votes[0]), len(votes), alike, sum(map(judging.is_tied, votes)), agreed)
        fitted = ", fitted on its other topics" if self._held_out and any(map(is_free, judge.named.leaves())) else ""
        source = f"{len(self._summaries)} annotated summaries of {self._file}{fitted}"
        return BenchRow(
            judge=judge.name,
            figures=bench.agreement(self._summaries, verdicts, self._summarizers),
            usd=usd,
            usd_per_200=None if usd is None else usd / len(self._summaries) * 200,
            usd_source=None if usd is None else judged.source,
            failures=dict(sorted(failures.items())),
            panel=members,
            messages={outcome.error: " ".join(outcome.message.split()) for outcome in reversed(missing)},
            bias=bias and replace(bias, names=_names(judge), source=source),
        )

    def outcomes_of(self, judge: BenchJudge, wanted: Wanted, ask_judge: AskJudge) -> Judged:
        """Return a judge's outcomes for the wanted insights. A cascade chooses the least certain ones, which it passes on,
        from all insights together, not from each summary's."""
        parts: list[Judged] = []

        async def ask(named: judging.Named, pairs: Sequence[Pair], share: float) -> list[Outcome[judging.Verdict]]:
            places: list[list[int]] = [[] for _ in wanted]
            for summary, place in pairs:
                places[summary].append(place)
            parts.append(self._part(judge, named, places, ask_judge))
            found = parts[-1].outcomes
            return [found[summary][place] for summary, place in pairs]

        votes = list[Sequence[str]]()

        def voted(named: judging.Named, pair: Pair, said: Sequence[Outcome[judging.Verdict]]) -> None:
            labels = [outcome.value.coverage for outcome in said if isinstance(outcome, Answer)]
            if named == judge.named and len(labels) == len(said):
                votes.append(labels)

        pairs = [(summary, place) for summary, places in enumerate(wanted) for place in places]
        n_bullets = [len(summary.bullets) for summary in self._summaries]
        composed = judging.Composed(
            ask,
            lambda pair, verdict: judging.usable_verdict(verdict, n_bullets[pair[0]]),
            judging.blend,
            judging.panel,
            lambda one, _, unsure: judging.least_certain(unsure or (), judging.DEFAULT_SHARE if one.share is None else one.share),
            voted,
        )
        outcomes: Outcomes = [{} for _ in wanted]
        for (summary, place), outcome in zip(pairs, run_loop(lambda: composed.judge(judge.named, pairs)), strict=True):
            outcomes[summary][place] = outcome
        # If a part has an unknown cost, the total is unknown. If a part's cost is an estimate, so is the total.
        micros = [part.micros for part in parts if part.micros is not None]
        known = sum(micros) if len(micros) == len(parts) else None
        sources = {part.source for part in parts}
        source: Source = "estimated" if "estimated" in sources else "spent" if "spent" in sources else "free"
        return Judged(outcomes, known, source, votes)

    def _part(self, judge: BenchJudge, named: judging.Named, wanted: Wanted, ask: AskJudge) -> Judged:
        """Return the outcomes of a judge without parts: stored predictions, the free judge, or a judge that is asked."""
        if named.kind == "stored":
            key = named.text.removeprefix(bench.STORED_PREFIX)
            verdicts = bench.stored_verdicts(self._summaries, key)
            absent = Malformed("missing_prediction", f"{key} has no usable prediction for the insight")
            outcomes: Outcomes = []
            for row, places in zip(verdicts, wanted, strict=True):
                found = {place: row[place] for place in places}
                outcomes.append({place: absent if verdict is None else Answer(verdict) for place, verdict in found.items()})
            return Judged(outcomes, bench.stored_micros(key, self._summaries, verdicts, wanted), "estimated")
        if not is_free(named):
            return ask(judge, named, wanted)
        # As in a run, a judge that sees all insights of a summary at once gets all of them.
        sees_all = named.kind == "offline"
        if sees_all not in self._free:
            if self._held_out:
                self._free[sees_all] = fit.held_out(fit.measure(self._summaries), sees_all)
            else:
                texts = [([insight.text for insight in summary.insights], summary.bullets) for summary in self._summaries]
                self._free[sees_all] = [bench.rate(row, bullets, sees_all) for row, bullets in texts]
        rows = zip(self._free[sees_all], wanted, strict=True)
        return Judged([{place: Answer(rated[place].verdict) for place in places} for rated, places in rows])


def _names(judge: BenchJudge) -> tuple[str, ...]:
    if judge.named.kind == "stored":
        return bench.STORED_NAMES.get(judge.named.text.removeprefix(bench.STORED_PREFIX), ())
    if judge.entry is not None:
        return ()
    try:
        names = (judge.named.text, judging.name_of(*judging.strategy_of(judge.named)).text)
    except judging.BadName:
        names = (judge.named.text, "")
    return tuple(dict.fromkeys(name for name in names if name not in (judge.name, "")))
