"""Composed judges: `blend`, `cascade` and `panel`, for judges of any kind; and the combination of coverage verdicts.

Why: judges make different errors. The mean of several is closer to people than any single one, and when the free judge is
certain, a paid one seldom disagrees.

To compose judges of another kind (of citations, say), parse their names with `parse_name(text, free)`, and create a `Composed`
with functions that ask one judge and that combine verdicts.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from summhay_ray.judge import offline
from summhay_ray.judge.answer import usable_bullet
from summhay_ray.judge.base import Verdict
from summhay_ray.judge.names import DEFAULT_SHARE, Named
from summhay_ray.judge.strategies import priced
from summhay_ray.loops import together
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome
from summhay_ray.records import COVERAGE_VALUE, Coverage


class Valued(Protocol):
    """The attributes that a verdict of any kind must have."""

    @property
    def uncertainty(self) -> float | None:
        """The standard deviation of its value, if the judge gives one. A cascade needs the free judge's."""
        ...


Q = TypeVar("Q")
V = TypeVar("V", bound=Valued)


@dataclass(frozen=True)
class Composed(Generic[Q, V]):
    """Judges of one kind, by name: functions that ask a judge and that combine verdicts.

    If a judge fails or its verdict is unusable, the judge that contains it fails, too: nothing replaces a verdict.
    """

    ask: Callable[[Named, Sequence[Q], float], Awaitable[Sequence[Outcome[V]]]]
    """Asks a single judge. The last argument is the share of the questions that it is expected to get, for plans."""
    usable: Callable[[Q, V], V | Malformed]
    """Checks a verdict before it is combined with others."""
    blend: Callable[[V, V], V]
    panel: Callable[[Sequence[V]], V]
    choose: Callable[[Named, Sequence[Q], Sequence[float] | None], Collection[int] | None]
    """Returns the questions that a cascade passes on; None if that is not known yet. The last argument holds the free judge's
    uncertainties; None in a plan."""
    voted: Callable[[Named, Q, Sequence[Outcome[V]]], None] = lambda panel, question, votes: None
    """Called with the outcomes of a panel's members, in their order."""
    planning: bool = False

    async def judge(self, named: Named, questions: Sequence[Q], share: float = 1.0) -> list[Outcome[V]]:
        """One outcome per question. Member judges are asked at the same time, but a cascade's second judge after its first has
        answered."""
        if not questions:
            return []
        if not named.composed:
            return list(await self.ask(named, questions, share))
        if named.kind == "cascade":
            return await self._cascade(named, questions, share)
        said = await together([self.judge(part, questions, share) for part in named.parts])
        return [self._combine(named, question, outcomes) for question, *outcomes in zip(questions, *said, strict=True)]

    def _combine(self, named: Named, question: Q, said: Sequence[Outcome[V]]) -> Outcome[V]:
        checked = [self._check(question, outcome) for outcome in said]
        if named.kind == "panel":
            self.voted(named, question, checked)
        usd_micros = sum(outcome.usd_micros for outcome in said)
        for part, outcome in zip(named.parts, checked, strict=True):
            if not isinstance(outcome, Answer):
                message = f"{part.text}: {outcome.message}" if named.kind == "panel" else outcome.message
                return replace(outcome, message=message, usd_micros=usd_micros)
        verdicts = [outcome.value for outcome in checked if isinstance(outcome, Answer)]
        verdict = self.blend(verdicts[0], verdicts[1]) if named.kind == "blend" else self.panel(verdicts)
        return Answer(verdict, key=said[0].key, attempts=said[0].attempts, usd_micros=usd_micros)

    def _check(self, question: Q, outcome: Outcome[V]) -> Outcome[V]:
        if not isinstance(outcome, Answer):
            return outcome
        verdict = self.usable(question, outcome.value)
        if isinstance(verdict, Malformed):
            return replace(verdict, key=outcome.key, attempts=outcome.attempts, usd_micros=outcome.usd_micros)
        return replace(outcome, value=verdict)

    async def _cascade(self, named: Named, questions: Sequence[Q], share: float) -> list[Outcome[V]]:
        """The free judge's outcomes, with those of the chosen questions replaced by the other judge's.

        A plan asks only the other judge: about the chosen questions, or about all, each with the cascade's share.
        """
        free, other = named.parts
        none: Outcome[V] = Failed("planned", "no call is made while planning")
        outcomes = [none] * len(questions)
        if self.planning:
            chosen = self.choose(named, questions, None)
            if chosen is None:
                share *= DEFAULT_SHARE if named.share is None else named.share
                chosen = range(len(questions))
        else:
            outcomes = await self.judge(free, questions, share)
            for place, outcome in enumerate(outcomes):
                if isinstance(outcome, Answer) and outcome.value.uncertainty is None:
                    why = "the free judge's answer does not say how uncertain it is, so that a cascade cannot choose whom to ask"
                    malformed = Malformed("no_uncertainty", why, outcome.key, outcome.attempts, outcome.usd_micros)
                    outcomes[place] = malformed
            sure = [outcome.value.uncertainty or 0.0 if isinstance(outcome, Answer) else -1.0 for outcome in outcomes]
            chosen = self.choose(named, questions, sure) or ()
        places = sorted(chosen)
        asked = await self.judge(other, [questions[place] for place in places], share)
        for place, outcome in zip(places, asked, strict=True):
            outcomes[place] = priced(self._check(questions[place], outcome), outcomes[place].usd_micros)
        return outcomes


# --- coverage ------------------------------------------------------------------------------------------------------------


JUDGE_WEIGHT = 0.4
"""Weight of the judge's verdict; the free judge has the rest. If the free judge is fitted on the other topic, the correlation
with people is at least as high as with equal weights, on both topics and for all stored judges; over both topics, GPT-4o's is
0.817 instead of 0.810."""
PARTIAL_FROM = 0.35
FULL_FROM = 0.75
"""Minimum values for the labels partial and full. The midpoint between none and partial (0.25) would be too low: models see
coverage where people see none (paper, A.3). Measured in the same way with GPT-4o, the agreement of labels with people's is 0.75
instead of 0.71 (its own labels: 0.67), and their mean is 0.005 too high instead of 0.065."""


def blend(judge: Verdict, free: Verdict, weight: float = JUDGE_WEIGHT) -> Verdict:
    """The verdict of a blend of two: its value is the weighted mean of both expectations, with `weight` (0..1) for the judge.

    The label follows from the value. The bullet is the judge's if it sees coverage and names one, else the other's. The label is
    NO_COVERAGE, with "NA", if the value is low or neither judge names a bullet. The uncertainty is the weighted mean of both, an
    upper bound for any correlation of their errors; if only one judge gives it, that one's. Raises ValueError for a weight
    outside of 0..1.
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"the weight of the judge is {weight}; expected 0 to 1")
    value = weight * judge.expected + (1 - weight) * free.expected
    weighted = [
        (part, verdict.uncertainty) for part, verdict in ((weight, judge), (1 - weight, free)) if verdict.uncertainty is not None
    ]
    total = math.fsum(part for part, _ in weighted)
    uncertainty = math.fsum(part / total * doubt for part, doubt in weighted) if total > 0 else None
    covers = judge.coverage != "NO_COVERAGE"
    offered = [*([judge.bullet_id] if covers else []), free.bullet_id]
    bullet = next((one for one in offered if usable_bullet(one, sys.maxsize) is not None), None)
    if bullet is None and covers:
        # The judge contradicts itself (covered, but by no bullet). Keep this, so that scoring finds it.
        bullet = judge.bullet_id
    if label_of(value) == "NO_COVERAGE" or bullet is None:
        return Verdict("NO_COVERAGE", '"NA"', value, uncertainty)
    return Verdict(label_of(value), bullet, value, uncertainty)


def panel(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of a panel: the label that most members give, and the mean of their values.

    `majority` breaks ties. The bullet is the one that most members with that label name; ties are broken by all members that see
    coverage, then by order. The uncertainty is the standard deviation over members, including their own uncertainties (law of
    total variance).
    """
    value = statistics.fmean(verdict.expected for verdict in verdicts)
    coverage = majority([verdict.coverage for verdict in verdicts], value, COVERAGE_VALUE)
    within = statistics.fmean((verdict.uncertainty or 0.0) ** 2 for verdict in verdicts)
    between = statistics.fmean((verdict.expected - value) ** 2 for verdict in verdicts)
    if coverage == "NO_COVERAGE":
        return Verdict(coverage, '"NA"', value, math.sqrt(within + between))
    named = [(verdict.coverage == coverage, verdict.bullet_id) for verdict in verdicts if verdict.coverage != "NO_COVERAGE"]
    alike, seen = Counter(bullet for same, bullet in named if same), Counter(bullet for _, bullet in named)
    bullet = min(seen, key=lambda bullet: (-alike[bullet], -seen[bullet], int(bullet)))
    return Verdict(coverage, bullet, value, math.sqrt(within + between))


def majority(labels: Sequence[str], value: float, worth: Mapping[str, float]) -> str:
    """The most frequent label. `worth`: label -> its value.

    In a tie (`is_tied`), it is the tied label nearest to `value`, and the lower one if two are equally near.
    """
    return min(statistics.multimode(labels), key=lambda label: (abs(worth[label] - value), worth[label]))


def is_tied(labels: Sequence[str]) -> bool:
    """Whether two or more labels share the highest number of votes."""
    return len(statistics.multimode(labels)) > 1


def doubtful(cascade: Named, uncertainties: Sequence[float]) -> list[int]:
    """`Composed.choose` if each summary is judged independently of the others.

    It chooses insights above an uncertainty threshold: the one that the cascade's share of the insights in people's annotations
    exceeds (`offline.uncertainty_at`).
    """
    bound = offline.uncertainty_at(DEFAULT_SHARE if cascade.share is None else cascade.share)
    return [place for place, uncertainty in enumerate(uncertainties) if uncertainty >= bound]


def label_of(value: float) -> Coverage:
    """The label for a blend's expected coverage (0..1)."""
    if value >= FULL_FROM:
        return "FULL_COVERAGE"
    return "PARTIAL_COVERAGE" if value >= PARTIAL_FROM else "NO_COVERAGE"


def least_certain(uncertainties: Sequence[float], share: float) -> set[int]:
    """The indices of the round(share * n) greatest uncertainties; among equal ones the first.

    Raises ValueError for a share outside of 0..1 and for an uncertainty that is not a number.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"the share is {share}; expected 0 to 1")
    if any(math.isnan(uncertainty) for uncertainty in uncertainties):
        raise ValueError("an uncertainty is not a number; every insight needs one")
    order = sorted(range(len(uncertainties)), key=lambda index: (-uncertainties[index], index))
    return set(order[: round(share * len(uncertainties))])
