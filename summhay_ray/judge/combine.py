"""Parses the names of judges, asks composed judges (`blend`, `cascade`, `panel`), and combines verdicts.

A name gives a model and the way to ask it: `openai/gpt-5.4` · `offline` (the free judge) · `stored/KEY` (predictions stored in an
annotation file) · `module:Class` (the user's own judge) · `per_insight(NAME)` · `per_summary(NAME)` · `few_shot(NAME)` ·
`blend(JUDGE,offline)` · `cascade(offline,JUDGE,SHARE)` · `panel(JUDGE,JUDGE,...)`. The last three are composed judges.

Composed judges are useful because judges make different errors: the mean of several is closer to people than any single one.
Where the free judge is certain, a paid one seldom disagrees.

To compose judges of another kind, such as citation judges, parse their names with `parse_name(text, free)`, and create a
`Composed` with functions that ask one judge and that combine verdicts.
"""

from __future__ import annotations

import difflib
import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, Protocol, TypeVar

from summhay_ray import plugins
from summhay_ray.errors import UserError
from summhay_ray.judge import offline
from summhay_ray.judge.base import Verdict
from summhay_ray.judge.prompt import usable_bullet
from summhay_ray.judge.strategies import add_price
from summhay_ray.loops import gather
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome
from summhay_ray.records import COVERAGE_VALUE, Coverage

Kind = Literal["model", "offline", "stored", "code", "per_insight", "per_summary", "few_shot", "blend", "cascade", "panel"]

OFFLINE = "offline/judge"
DEFAULT_SHARE = 0.1
"""The share of insights that a cascade passes on by default."""

FORMS = {
    "per_insight": "per_insight(openai/gpt-5.4)",
    "per_summary": "per_summary(openai/gpt-5.4)",
    "few_shot": "few_shot(openai/gpt-5.4)",
    "blend": "blend(openai/gpt-5.4,offline)",
    "cascade": "cascade(offline,openai/gpt-5.4,0.1)",
    "panel": "panel(openai/gpt-5.4,gemini/gemini-3.5-flash,offline)",
}
_CALL = re.compile(r"([^\s(),]+)\s*\((.*)\)", re.DOTALL)
_WORD = re.compile(r"[^\s(),]+")
_CODE = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_SHARE = re.compile(r"(?:share\s*=\s*)?([0-9]*\.?[0-9]+)")
_LONGEST = 1000
_ROOTS = ("offline", "stored")
_ASKED_OTHERWISE = (("per_summary", "few_shot"), ("offline", "per_summary"), ("offline", "per_insight"))


class BadName(UserError):
    """A malformed judge name. The message states the error and the correct form."""


@dataclass(frozen=True, slots=True)
class Named:
    """A parsed judge name. `text`: its canonical spelling. `share`: a cascade's share; None if the name gives none.

    `sample`: the index of the answer, from 0, if the same question is asked several times (`repeated`).
    """

    text: str
    kind: Kind
    parts: tuple[Named, ...] = ()
    share: float | None = None
    sample: int = 0

    @property
    def composed(self) -> bool:
        """Whether the judge consists of other judges."""
        return self.kind in ("blend", "cascade", "panel")

    def leaves(self) -> Iterator[Named]:
        """Yield the single judges in this judge, in order. For a single judge, yield only the judge itself."""
        return (leaf for part in self.parts for leaf in part.leaves()) if self.composed else iter((self,))

    def inner(self, kind: Kind) -> Iterator[Named]:
        """Yield the blends, cascades or panels in it, including itself, outermost first."""
        if self.kind == kind:
            yield self
        for part in self.parts:
            yield from part.inner(kind)


def repeated(named: Named, times: int) -> Named:
    """Return a panel that asks the same judge several times."""
    members = (replace(named, text=f"{named.text} #{sample + 1}", sample=sample) for sample in range(times))
    return Named(f"{named.text} x{times}", "panel", tuple(members))


def parse_name(text: str, free: str = OFFLINE) -> Named:
    """Parse a judge's name. `free`: the model for the name `offline`.

    Raises UnknownName or BadName, in one line that shows the nearest valid form.
    """
    shown = text.strip()
    if len(shown) > _LONGEST:
        raise BadName(f"a judge's name of {len(shown)} characters begins with {shown[:40]!r}; expected at most {_LONGEST}")
    call = _CALL.fullmatch(shown)
    if call is None:
        if not shown:
            raise BadName(f"a judge's name is empty; expected a model, offline, or a form such as {FORMS['blend']}")
        if shown in FORMS:
            raise BadName(f"judge {shown!r} needs the judge that it asks in brackets: {FORMS[shown]}")
        if not _WORD.fullmatch(shown):
            raise BadName(f"judge {shown!r} is neither a model nor a form with matching brackets such as {FORMS['blend']}")
        if shown in ("offline", free):
            return Named(free, "offline")
        root, _, rest = shown.partition("/")
        near = difflib.get_close_matches(root, _ROOTS, n=1, cutoff=0.8)
        if near and (root not in _ROOTS or not rest):
            nearest = f"stored/{rest or 'KEY'}" if near[0] == "stored" else f"offline/{rest}" if rest else "offline"
            raise plugins.UnknownName(f"no judge is named {shown!r}; did you mean {nearest!r}?")
        if root == "stored":
            return Named(shown, "stored")
        return Named(shown, "code" if _CODE.fullmatch(shown) else "model")
    if call[1] not in FORMS:
        raise plugins.unknown("form of judge", call[1], FORMS)
    texts = _arguments(call[2], shown)
    if call[1] == "cascade":
        share = read_share(texts.pop(), f"judge {shown!r}") if len(texts) == 3 else None
        return _cascade([parse_name(part, free) for part in texts], share, shown)
    arguments = [parse_name(part, free) for part in texts]
    if call[1] == "panel":
        return _panel(arguments, shown)
    if call[1] == "blend":
        return _blend(arguments, shown)
    return _asked_as(call[1], arguments, shown)  # type: ignore[arg-type]


def read_share(text: str, where: str) -> float:
    """Return the share in `text` ("0.1", "share=0.1"). Raise BadName, which names `where`, if it is outside (0, 1]."""
    match = _SHARE.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) <= 1:
        raise BadName(f"{where}: the share is {text.strip()!r}; expected a number above 0 and at most 1, such as 0.1")
    return float(match[1])


def _arguments(text: str, shown: str) -> list[str]:
    """Return the arguments of a form: the text between its brackets, split at commas outside inner brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    if depth != 0:
        raise BadName(f"judge {shown!r}: the brackets do not match; expected a form such as {FORMS['blend']}")
    return [part.strip() for part in parts]


def _asked_as(kind: Literal["per_insight", "per_summary", "few_shot"], arguments: Sequence[Named], shown: str) -> Named:
    if len(arguments) != 1:
        raise BadName(f"judge {shown!r}: {kind} takes one judge: {FORMS[kind]}")
    [inner] = arguments
    if kind == "per_summary" and inner.kind == "few_shot":
        return _asked_as("few_shot", [_asked_as("per_summary", inner.parts, shown)], shown)
    if kind == "few_shot" and inner.kind == "offline":
        raise BadName(f"judge {shown!r}: offline reads no examples; write offline")
    if inner.kind != "model" and (inner.kind, kind) not in _ASKED_OTHERWISE:
        raise BadName(f"judge {shown!r}: {kind} says how a model is asked; expected a model in it: {FORMS[kind]}")
    if (kind, inner.kind) in (("per_insight", "model"), ("per_summary", "offline")):
        # This is the default strategy.
        return inner
    return Named(f"{kind}({_short(inner)})", kind, (inner,))


def _blend(parts: Sequence[Named], shown: str) -> Named:
    if len(parts) != 2:
        raise BadName(f"judge {shown!r}: blend takes two judges, the free one last: {FORMS['blend']}")
    first, second = parts
    if first.kind == "offline" and not second.composed and second.kind != "offline":
        raise BadName(f"judge {shown!r}: blend takes the free judge last; write blend({second.text},offline)")
    if first.kind == "offline" or first.composed or second.composed:
        raise BadName(f"judge {shown!r}: blend mixes a judge with another: {FORMS['blend']}; a cascade or panel may ask a blend")
    return Named(f"blend({','.join(map(_short, parts))})", "blend", (first, second))


def _cascade(parts: Sequence[Named], share: float | None, shown: str) -> Named:
    if len(parts) != 2:
        raise BadName(f"judge {shown!r}: cascade takes the free judge, the judge to ask and a share: {FORMS['cascade']}")
    first, second = parts
    tail = "" if share is None else f",{share:.12g}"
    if first.kind != "offline":
        mend = f"cascade(offline,{_short(second if second.kind != 'offline' else first)}{tail})"
        raise BadName(f"judge {shown!r}: a cascade begins with the free judge, which says how uncertain it is; write {mend}")
    if second.kind in ("offline", "cascade"):
        raise BadName(f"judge {shown!r}: a cascade asks a judge that is neither free nor a cascade: {FORMS['cascade']}")
    return Named(f"cascade({','.join(map(_short, parts))}{tail})", "cascade", (first, second), share)


def _panel(parts: Sequence[Named], shown: str) -> Named:
    if len(parts) < 2:
        raise BadName(f"judge {shown!r}: a panel has two members or more: {FORMS['panel']}")
    texts = [_short(part) for part in parts]
    if twice := [text for text in texts if texts.count(text) > 1]:
        raise BadName(f"judge {shown!r}: {twice[0]} sits on the panel twice; name each member once")
    return Named(f"panel({','.join(map(_short, parts))})", "panel", tuple(parts))


def _short(named: Named) -> str:
    return "offline" if named.kind == "offline" else named.text


def default_strategy(model: str) -> str:
    """Return the default strategy of a model: whole summaries for the free judge, single insights for any other."""
    return "per_summary" if model == OFFLINE else "per_insight"


def strategy_of(named: Named) -> tuple[str, str]:
    """Return the model and strategy with which a spec names this judge. Raise BadName for a judge that a run cannot ask.

    The model of a composed judge is its first paid one. A user's own judge (`module:Class`) gets the free model; a spec can name
    another model.
    """
    if named.composed:
        if two := next((blend for blend in named.inner("blend") if blend.parts[1].kind != "offline"), None):
            mend = two.text.replace("blend", "panel", 1)
            raise BadName(f"judge {two.text!r}: a run blends with offline alone; write {mend}")
        models = [strategy_of(leaf)[0] for leaf in named.leaves()]
        return next((model for model in models if model != OFFLINE), OFFLINE), named.text
    if named.kind == "few_shot" and named.parts[0].kind == "per_summary":
        return named.parts[0].parts[0].text, "few_shot+per_summary"
    if named.kind in ("few_shot", "per_summary", "per_insight"):
        return named.parts[0].text, named.kind
    if named.kind == "stored":
        raise BadName(f"judge {named.text!r} is in an annotations file, which only `summhay judge-bench` reads")
    if named.kind == "code":
        return OFFLINE, named.text
    return named.text, default_strategy(named.text)


def name_of(model: str, strategy: str) -> Named:
    """Return the judge name for a model and strategy: the inverse of `strategy_of`. Raise BadName, UnknownName."""
    if "(" in strategy:
        return parse_name(strategy)
    if ":" in strategy:
        return Named(strategy, "code")
    asked = Named(model, "offline" if model == OFFLINE else "model")
    if strategy == default_strategy(model):
        return asked
    shown = "offline" if model == OFFLINE else model
    if strategy == "few_shot+per_summary":
        asked, strategy, shown = Named(f"per_summary({shown})", "per_summary", (asked,)), "few_shot", f"per_summary({shown})"
    kind: Kind = "few_shot" if strategy == "few_shot" else "per_summary" if strategy == "per_summary" else "per_insight"
    return Named(f"{strategy}({shown})", kind, (asked,))


class Valued(Protocol):
    """The attributes that a verdict of any kind must have."""

    @property
    def uncertainty(self) -> float | None:
        """The standard deviation of the value, if the judge gives one. A cascade needs it from the free judge."""
        ...


Q = TypeVar("Q")
V = TypeVar("V", bound=Valued)


@dataclass(frozen=True)
class Composed(Generic[Q, V]):
    """Asks judges by name, and combines their verdicts.

    If a judge fails or its verdict is unusable, the judge that contains it fails, too. No default replaces a verdict.
    """

    ask: Callable[[Named, Sequence[Q], float], Awaitable[Sequence[Outcome[V]]]]
    """Asks a single judge. The last argument is the expected share of the questions that reach it, for plans."""
    usable: Callable[[Q, V], V | Malformed]
    """Checks a verdict before it is combined with others."""
    blend: Callable[[V, V], V]
    panel: Callable[[Sequence[V]], V]
    choose: Callable[[Named, Sequence[Q], Sequence[float] | None], Collection[int] | None]
    """Returns the questions that a cascade passes on, or None if they are not known yet. The last argument holds the free judge's
    uncertainties; it is None in a plan."""
    voted: Callable[[Named, Q, Sequence[Outcome[V]]], None] = lambda panel, question, votes: None
    """Called with the outcomes of a panel's members, in the panel's order."""
    planning: bool = False

    async def judge(self, named: Named, questions: Sequence[Q], share: float = 1.0) -> list[Outcome[V]]:
        """Return one outcome per question. Member judges are asked at the same time, except for a cascade: its second judge waits
        for the first."""
        if not questions:
            return []
        if not named.composed:
            return list(await self.ask(named, questions, share))
        if named.kind == "cascade":
            return await self._cascade(named, questions, share)
        said = await gather([self.judge(part, questions, share) for part in named.parts])
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
        """Return the free judge's outcomes, with those of the chosen questions replaced by the other judge's.

        A plan asks only the other judge. It asks about the chosen questions, or, if they are unknown, about all with the
        cascade's share.
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
            outcomes[place] = add_price(self._check(questions[place], outcome), outcomes[place].usd_micros)
        return outcomes


# --- coverage ------------------------------------------------------------------------------------------------------------


JUDGE_WEIGHT = 0.4
"""Weight of the judge's verdict; the free judge has the rest. The weight was tested with the free judge fitted on the other
topic: for all stored judges and both topics, the correlation with people is at least as high as with equal weights. GPT-4o's
correlation over both topics is 0.817 instead of 0.810."""
PARTIAL_FROM = 0.35
FULL_FROM = 0.75
"""Minimum values for the labels partial and full. The midpoint between none and partial (0.25) would be too low, since models see
coverage where people see none (paper, A.3). In the same test with GPT-4o, the agreement of the blend's labels with people's is
0.75 instead of 0.71 (GPT-4o's own labels: 0.67). The mean of the labels is 0.005 too high instead of 0.065."""


def blend(judge: Verdict, free: Verdict, weight: float = JUDGE_WEIGHT) -> Verdict:
    """Return the verdict of a blend of two. Its value is the weighted mean of both expectations, with `weight` (0..1) for the
    judge.

    The label follows from the value. The bullet is the judge's if the judge sees coverage and names one, else the free judge's.
    If the value is low, or if neither judge names a bullet, the verdict is NO_COVERAGE with "NA". The uncertainty is the weighted
    mean of both, an upper bound for any correlation of their errors; if only one judge gives an uncertainty, it is used. Raises
    ValueError for a weight outside of 0..1.
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
        # The judge contradicts itself: the insight is covered, but by no bullet. Keep this verdict, so that scoring finds it.
        bullet = judge.bullet_id
    if label_of(value) == "NO_COVERAGE" or bullet is None:
        return Verdict("NO_COVERAGE", '"NA"', value, uncertainty)
    return Verdict(label_of(value), bullet, value, uncertainty)


def panel(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of a panel: the label that most members give, and the mean of their values.

    `majority` breaks ties. The bullet is chosen by majority among the members with that label. Ties between bullets are broken by
    all members that see coverage, then by order. The uncertainty is the standard deviation over members, including their own
    uncertainties (law of total variance).
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
    """Return the most frequent label. `worth`: label -> value.

    If labels are tied (`is_tied`), return the one nearest to `value`, and the lower of two that are equally near.
    """
    return min(statistics.multimode(labels), key=lambda label: (abs(worth[label] - value), worth[label]))


def is_tied(labels: Sequence[str]) -> bool:
    """Whether two or more labels have the highest number of votes."""
    return len(statistics.multimode(labels)) > 1


def choose_uncertain(cascade: Named, uncertainties: Sequence[float]) -> list[int]:
    """Return the indices of the insights that a cascade passes on: those whose uncertainty is at least a fixed threshold.

    The threshold is the uncertainty that the cascade's share of the annotated insights reaches (`offline.uncertainty_at`). It
    does not depend on other summaries, so `Composed.choose` can use this function if summaries are judged independently.
    """
    bound = offline.uncertainty_at(DEFAULT_SHARE if cascade.share is None else cascade.share)
    return [place for place, uncertainty in enumerate(uncertainties) if uncertainty >= bound]


def label_of(value: float) -> Coverage:
    """Return the label for a blend's expected coverage (0..1)."""
    if value >= FULL_FROM:
        return "FULL_COVERAGE"
    return "PARTIAL_COVERAGE" if value >= PARTIAL_FROM else "NO_COVERAGE"


def least_certain(uncertainties: Sequence[float], share: float) -> set[int]:
    """Return the indices of the round(share * n) greatest uncertainties, the first among equal ones.

    Raises ValueError for a share outside of 0..1, and for an uncertainty that is not a number.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"the share is {share}; expected 0 to 1")
    if any(math.isnan(uncertainty) for uncertainty in uncertainties):
        raise ValueError("an uncertainty is not a number; every insight needs one")
    order = sorted(range(len(uncertainties)), key=lambda index: (-uncertainties[index], index))
    return set(order[: round(share * len(uncertainties))])
