"""Recommend a system in one paragraph, from the decisions on pairs and from costs. Only `comparison` imports this module."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from summhay_ray.metrics import FEWEST, FEWEST_UNITS, LITTLE, Over

NAMED = 3
"""Maximum number of systems named in a list."""


@dataclass(frozen=True)
class Evidence:
    """The data of a decision, apart from the systems and their pairs."""

    figure: str
    unit: str
    counted: str
    """The noun for the values that a system may lack, such as insights."""
    cluster: str
    """The noun for a cluster of queries, such as haystack."""
    n_queries: int
    n_clusters: int
    over: Over
    judge: str
    """The judge of the scores; empty if they are not judgments."""
    labelled: bool
    """Whether people's labels correct the scores."""
    limits: Sequence[str] = ()
    """Reasons against any recommendation, whatever the scores, such as an unsuitable haystack."""
    caveats: Sequence[str] = ()
    """Further limits of the confidence in a recommendation, such as an unchecked haystack."""


@dataclass(frozen=True)
class SystemDecision:
    """The system to use, or why none is named. Systems are given by their labels."""

    figure: str
    use: str | None
    """The cheapest of the systems that may be the best, if all their costs are known. Otherwise the best by score."""
    system: str | None
    """The key of `use`."""
    best: str | None
    """The best by score."""
    not_shown_worse: Sequence[str]
    """The remaining systems that may be the best, best first."""
    usd_per_query: float | None
    """Dollars per query of the recommended system; None if unknown."""
    more_queries: int | None
    """Number of further queries that would show a difference: between the best system and the next or, without a decision,
    any difference. None: unknown."""
    labels: int | None
    """Number of people's labels that are needed to check the judge on the systems that may be the best. None without a judge."""
    reasons: Sequence[str]
    """Why no system is named; empty if one is."""
    limits: Sequence[str]
    """Limits of the confidence."""
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return asdict(self)


def decide(standings: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]], evidence: Evidence) -> SystemDecision:
    """Decide which system to recommend. `standings`: rows of `comparison.STANDING`, best first. `pairs`: the compared pairs,
    with `a` and `b` (names), `differs`, and the other fields of `metrics.Paired.differences`."""
    ranked = [one for one in standings if one["rank"] is not None]
    usable = [one for one in ranked if not one["ceiling"]] or ranked
    names = {one["name"] for one in usable}
    own = [pair for pair in pairs if pair["a"] in names and pair["b"] in names]
    worse = {pair["b"] if pair["difference"] > 0 else pair["a"] for pair in own if pair["differs"]}
    may_be_best = [one for one in usable if one["name"] not in worse] or usable[:1]
    reasons = _reasons(evidence, standings, usable, may_be_best, len(own))
    costs = [one["usd"] for one in may_be_best]
    by_cost = bool(costs) and None not in costs
    chosen = min(may_be_best, key=lambda one: one["usd"]) if by_cost else next(iter(may_be_best), None)
    first = next(iter(may_be_best), None)
    between = None if reasons else [one["name"] for one in may_be_best[:2]]
    needed = [
        max(1, pair["queries_needed"] - pair["n_queries"])
        for pair in own
        if not pair["differs"] and pair["queries_needed"] and (between is None or {pair["a"], pair["b"]} == {*between})
    ]
    more = min(needed, default=None)
    compared = len(own) == math.comb(len(usable), 2)
    if (evidence.limits or not compared) and evidence.n_queries >= FEWEST_UNITS:
        more = None  # Other limits must be fixed first: more queries would not help.
    elif evidence.n_queries < FEWEST_UNITS:
        more = max(more or 0, FEWEST_UNITS - evidence.n_queries)
    labels = FEWEST * len(may_be_best) if evidence.judge and not evidence.labelled and may_be_best else None
    limits = _limits(evidence, standings, may_be_best, own)
    if reasons or chosen is None or first is None:
        n_best = len(may_be_best)
        texts = []
        if more is not None:
            haystacks = math.ceil(more * evidence.n_clusters / max(1, evidence.n_queries))
            further = (
                f", in {haystacks:,} further {evidence.cluster}{'s'[: haystacks > 1]}," if evidence.over == "haystacks" else ""
            )
            texts.append(f"About {more:,} more quer{'ies' if more > 1 else 'y'}{further} may bring one.")
        if labels is not None:
            only = f"of {may_be_best[0]['label']}"
            each = f"{FEWEST} of each of the {n_best} systems that may be the best" if n_best > 1 else only
            texts.append(f"{labels:,} labels by people ({each}) would check the judge (summhay label).")
        texts = [f"No decision: {'; '.join(reasons)}.", *texts]
        if by_cost and chosen is not None and len(set(costs)) > 1:
            texts.append(f"The cheapest is {chosen['label']}: {_dollars(chosen['usd'])} a query.")
    else:
        others = [one["label"] for one in may_be_best if one["name"] not in (chosen["name"], first["name"])]
        cheapest = f", the cheapest of {len(costs)} systems that may be the best" if by_cost and len(set(costs)) > 1 else ""
        texts = [f"Use {chosen['label']} ({_score(chosen, evidence)}){cheapest}."]
        if first is not chosen:
            cost = f", {_dollars(first['usd'])} a query"
            texts.append(
                f"The best by score is {first['label']} ({_score(first, evidence)}{cost}); it is not shown to be better."
            )
        if others:
            texts.append(f"{_list_names(others)} {'is' if len(others) == 1 else 'are'} not shown to be worse.")
        texts.append(f"It costs {_dollars(chosen['usd'])} a query." if chosen["usd"] is not None else "Its cost is not known.")
        texts.append(f"Confidence is limited by {'; '.join(limits)}.")
    if ceilings := len(ranked) - len(usable):
        texts.append(f"Not considered: {ceilings} system{'s'[: ceilings > 1]} that see{'s'[ceilings > 1 :]} the gold documents.")
    named = None if reasons else chosen
    return SystemDecision(
        figure=evidence.figure,
        use=None if named is None else named["label"],
        system=None if named is None else named["name"],
        best=None if reasons or first is None else first["label"],
        not_shown_worse=[] if named is None else [one["label"] for one in may_be_best if one is not named],
        usd_per_query=None if named is None else named["usd"],
        more_queries=more,
        labels=labels,
        reasons=reasons,
        limits=limits,
        text=" ".join(texts),
    )


def _reasons(
    evidence: Evidence, standings: Sequence[Any], usable: Sequence[Any], may_be_best: Sequence[Any], n_pairs: int
) -> list[str]:
    """Explain why no system is recommended: the given reasons or, without any, the first shortcoming of the scores."""
    n_queries, n_usable = evidence.n_queries, len(usable)
    if evidence.limits:
        return list(evidence.limits)
    if not usable:
        return [f"every system lacks more than a tenth of its {evidence.counted}"]
    if n_usable == 1:
        silent = any(one["rank"] is None for one in standings)
        lacking = f"the others lack more than a tenth of their {evidence.counted}" if silent else "there is no other"
        return [f"only {usable[0]['label']} could be compared: {lacking}"]
    if n_pairs < math.comb(n_usable, 2):
        return [f"only {n_pairs:,} of {math.comb(n_usable, 2):,} pairs of these systems are compared"]
    if n_queries < FEWEST_UNITS:
        return [f"{n_queries} quer{'ies are' if n_queries != 1 else 'y is'} too few to name a system"]
    if evidence.unit == "%" and all(one["mean"] <= 0 for one in usable):
        return [f"all {n_usable} systems score 0; a larger token_budget, or retrievers that find what is asked for, may help"]
    if len(may_be_best) == n_usable:
        none, other = ("neither", "the other") if n_usable == 2 else ("none", "another")
        return [f"{none} of the {n_usable} systems is shown to be better than {other}"]
    return []


def _limits(
    evidence: Evidence, standings: Sequence[Any], may_be_best: Sequence[Any], pairs: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the limits of the confidence in a decision, each in a few words."""
    n, clusters = evidence.n_queries, evidence.n_clusters
    these = f"these {clusters} {evidence.cluster}s" if clusters > 1 else f"this {evidence.cluster}"
    where = f"of {these} only" if evidence.over == "queries" else f"in {clusters} {evidence.cluster}s"
    limits = [f"{n} quer{'ies' if n != 1 else 'y'} {where}"]
    least = sorted(one for pair in pairs if (one := pair["detectable"]) is not None)
    if least:
        middle = least[len(least) // 2]
        size = f"{100 * middle:.0f} points" if evidence.unit == "%" else f"{middle:.2g}"
        limits.append(f"differences of less than about {size} are hardly seen")
    lacking = [one for one in may_be_best if one["missing"] > LITTLE]
    limits += [f"{one['label']} lacks {missing_text(one, evidence.counted)}" for one in lacking[:NAMED]]
    left_out = [one["label"] for one in standings if one["rank"] is None]
    if left_out:
        limits.append(f"{_list_names(left_out)} left out, with more than a tenth of {evidence.counted} missing")
    if evidence.judge and not evidence.labelled:
        limits.append(f"the judge ({evidence.judge}), whose scores are not checked by people's labels")
    return [*limits, *evidence.caveats]


def missing_text(standing: Mapping[str, Any], counted: str) -> str:
    """Return the number of missing answers of a system, such as `41 of 137 insights`."""
    return f"{standing['n_expected'] - standing['n']:,} of {standing['n_expected']:,} {counted}"


def _score(standing: Mapping[str, Any], evidence: Evidence) -> str:
    value = standing["mean"]
    return f"{evidence.figure} {100 * value:.1f} %" if evidence.unit == "%" else f"{evidence.figure} {value:.3g}"


def _dollars(usd: float) -> str:
    return f"${usd:,.2f}" if usd >= 1 else f"${f'{usd:.6f}'.rstrip('0').rstrip('.')}"


def _list_names(names: Sequence[str]) -> str:
    """List some names, and the number of further ones."""
    if len(names) > NAMED:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
