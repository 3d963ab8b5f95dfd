"""Compare systems of one run, or of two runs, by paired differences on the queries that both answered."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import polars as pl

from summhay_ray.benchmarks.summhay.scores import ScoreResult, score_run
from summhay_ray.errors import UserError
from summhay_ray.metrics import SURE, Z_95, Compat, JudgeBias, Over, PairedDifference, Resampling, Standing, column_of, with_holm
from summhay_ray.store import RunStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FIGURES = {"joint": "joint", "coverage": "coverage", "citation": "citation_f1"}
"""Figure that is compared -> its column in the means per query (`ScoreResult.queries`)."""
MOST_PAIRS = 10_000
"""More pairs of systems than this are refused."""
_QUERY = ("haystack_id", "subtopic_id")


@dataclass(frozen=True, slots=True)
class Side:
    """One system of a pair, with its run and the judge that scored it."""

    run: str
    system: str
    model: str
    judge: str

    @property
    def name(self) -> str:
        """The name of the system in tables."""
        return self.system


@dataclass(frozen=True, slots=True)
class SystemPair:
    """The difference of two systems in one figure: joint, coverage or citation."""

    figure: str
    a: Side
    b: Side
    found: PairedDifference
    corrected: PairedDifference | None
    """The difference after subtracting each judge's bias relative to people; None if a bias is unknown, and for citation."""

    def to_json(self) -> dict[str, Any]:
        """The pair as a JSON object."""
        return {
            "figure": self.figure,
            "a": asdict(self.a),
            "b": asdict(self.b),
            "paired": asdict(self.found),
            "verdict": self.found.verdict(self.a.name, self.b.name),
            "corrected": None if self.corrected is None else asdict(self.corrected),
        }


@dataclass(frozen=True)
class SystemComparison:
    """Systems compared in pairs, and their ranking with its uncertainty."""

    runs: tuple[str, ...]
    pairs: Sequence[SystemPair]
    """Figure by figure. p-values are corrected over all pairs of a figure."""
    standings: Mapping[str, Sequence[Standing]]
    """Figure -> the compared systems, best first."""
    warnings: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """The JSON document that `summhay compare` prints for systems."""
        return {
            "runs": list(self.runs),
            "pairs": [pair.to_json() for pair in self.pairs],
            "standings": {figure: [asdict(standing) for standing in order] for figure, order in self.standings.items()},
            "warnings": list(self.warnings),
        }


def compare_systems(
    runs: Sequence[RunStore],
    systems: Sequence[str] = (),
    judges: Sequence[str] = (),
    compat: Compat = "default",
    seed: int = 0,
    over: Over = "haystacks",
) -> SystemComparison:
    """Compare systems on the queries that both answered. Raises UserError if there is nothing to compare.

    `systems`: two names or patterns (`*` matches anything). In one run, systems that match the first are compared with those
    that match the second; by default, every pair. In two runs, the first applies to the first run and the second to the
    second; by default, systems of the same name are compared. `judges`: one judge, or one for each run; by default, a judge that
    all runs share. `over`: whether the figures generalize to other haystacks, or only to further queries of these.
    """
    results = [score_run(run.at(), compat, rejudged=True) for run in runs]
    chosen = _judges(results, judges)
    tables = [_Values(result, judge) for result, judge in zip(results, chosen, strict=True)]
    return compared(tables, _pairs(tables, systems), seed, over=over)


class _Values:
    """The figures per query of a run's systems, by one judge."""

    def __init__(self, result: ScoreResult, judge: str) -> None:
        self.run, self.judge = result.run, judge
        self.bias: JudgeBias | None = result.biases.get(judge)
        rows = result.queries.filter(pl.col("judge") == judge)
        self.systems = {score.system: score for score in result.systems if score.judge == judge and score.coverage is not None}
        self._rows = {key[0]: frame for key, frame in rows.group_by("system")}

    def queries(self) -> set[tuple[str, str]]:
        """(haystack_id, subtopic_id) of every query that at least one system answered."""
        return {row for frame in self._rows.values() for row in frame.select(_QUERY).iter_rows()}

    def of(self, system: str, figure: str, queries: Mapping[tuple[str, str], int]) -> NDArray[np.float64]:
        """A system's figure for each query, of shape (queries,); NaN where it has none. `queries`: query -> index."""
        import numpy as np

        figures = np.full(len(queries), np.nan)
        for haystack, subtopic, value in self._rows[system].select(*_QUERY, FIGURES[figure]).iter_rows():
            if value is not None and (haystack, subtopic) in queries:
                figures[queries[haystack, subtopic]] = value
        return figures

    def side(self, system: str) -> Side:
        """The system as a side of a pair."""
        return Side(self.run, system, self.systems[system].model, self.judge)

    def share(self, system: str) -> float:
        """The factor by which subtracting the bias scales a system's coverage; 1 if the bias is unknown."""
        coverage = self.systems[system].coverage or 0.0
        return max(0.0, min(1.0, coverage - self.bias.mean)) / coverage if self.bias and coverage else 1.0


Chosen = Sequence[tuple[tuple[int, str], tuple[int, str]]]
"""Pairs of systems, each as (index of the run, system)."""


def all_pairs(result: ScoreResult, judge: str, seed: int = 0) -> SystemComparison | None:
    """Every pair of a run's systems by one judge, compared by joint; None for fewer than two systems or too many pairs."""
    values = _Values(result, judge)
    names = sorted(values.systems)
    if not 2 <= len(names) <= math.isqrt(2 * MOST_PAIRS):
        return None
    return compared([values], [((0, a), (0, b)) for a, b in itertools.combinations(names, 2)], seed, ("joint",))


def against_ideal(
    result: ScoreResult, judge: str, ideals: Sequence[str], others: Sequence[str], seed: int = 0
) -> SystemComparison | None:
    """Every figure of the systems with the retrievers `ideals`, each against those of the same model with a retriever of
    `others`; None without such pairs."""
    values = _Values(result, judge)
    own = sorted(values.systems.items())
    pairs = [
        ((0, a), (0, b))
        for a, ideal in own
        for b, other in own
        if ideal.retriever in ideals and other.retriever in others and ideal.model == other.model
    ]
    return compared([values], pairs, seed) if 0 < len(pairs) <= MOST_PAIRS else None


def compared(
    tables: Sequence[_Values], chosen: Chosen, seed: int, figures: Iterable[str] = FIGURES, over: Over = "haystacks"
) -> SystemComparison:
    """Compare the chosen pairs in each figure, all with the same resamples. Raises UserError without a common scored query."""
    import numpy as np

    known = [table.queries() for table in tables]
    queries = {query: index for index, query in enumerate(sorted(set.intersection(*known)))}
    if not queries:
        raise UserError(f"{' and '.join(table.run for table in tables)} have no query in common that is scored in both")
    resampling = Resampling([haystack for haystack, _ in queries], seed, over=over)
    sides = list(dict.fromkeys(itertools.chain.from_iterable(chosen)))
    pairs: list[SystemPair] = []
    standings = {}
    for figure in figures:
        values = {side: tables[side[0]].of(side[1], figure, queries) for side in sides}
        pairs += _of_figure(figure, tables, chosen, values, resampling)
        labels = [system if len(tables) == 1 else f"{tables[index].run} {system}" for index, system in sides]
        standings[figure] = resampling.standings(labels, np.stack([values[side] for side in sides], axis=1))
    return SystemComparison(tuple(table.run for table in tables), pairs, standings, _warnings(resampling, queries, tables, pairs))


def _of_figure(
    figure: str,
    tables: Sequence[_Values],
    chosen: Chosen,
    values: Mapping[tuple[int, str], NDArray[np.float64]],
    resampling: Resampling,
) -> list[SystemPair]:
    pairs = []
    for a, b in chosen:
        difference = resampling.difference(values[a], values[b])
        if difference is not None:
            sides = tables[a[0]].side(a[1]), tables[b[0]].side(b[1])
            corrected = _corrected(figure, tables, (a, b), values, resampling)
            pairs.append(SystemPair(figure, *sides, difference, corrected))
    raw = with_holm([pair.found for pair in pairs])
    unbiased = iter(with_holm([pair.corrected for pair in pairs if pair.corrected is not None]))
    return [
        replace(pair, found=difference, corrected=None if pair.corrected is None else next(unbiased))
        for pair, difference in zip(pairs, raw, strict=True)
    ]


def _corrected(
    figure: str,
    tables: Sequence[_Values],
    pair: tuple[tuple[int, str], tuple[int, str]],
    values: Mapping[tuple[int, str], NDArray[np.float64]],
    resampling: Resampling,
) -> PairedDifference | None:
    """The difference after subtracting the judges' bias, as `metrics.bias.corrected` does for one system.

    The judge's mean bias is subtracted from coverage; joint is scaled in proportion. The uncertainty of the bias widens the
    interval; with the same bias on both sides, only the part that does not cancel does. None for citation or an unknown bias.
    """
    biases = [tables[side[0]].bias for side in pair]
    if figure == "citation" or any(bias is None for bias in biases):
        return None
    known = [bias for bias in biases if bias is not None]
    shares = [tables[side[0]].share(side[1]) for side in pair]
    if figure == "joint":
        scaled = [values[side] * share for side, share in zip(pair, shares, strict=True)]
        joints = [tables[side[0]].systems[side[1]] for side in pair]
        slopes = [(one.joint or 0.0) / one.coverage if one.coverage else 0.0 for one in joints]
    else:
        scaled = [values[side] - bias.mean for side, bias in zip(pair, known, strict=True)]
        slopes = [1.0, 1.0]
    found = resampling.difference(*scaled)
    if found is None or found.low is None or found.high is None:
        return found
    same = known[0] == known[1]
    moved = [slope * bias.se for slope, bias in zip(slopes, known, strict=True)]
    extra = Z_95 * (abs(moved[0] - moved[1]) if same else math.hypot(*moved))
    middle = found.difference
    return replace(
        found, low=middle - math.hypot(middle - found.low, extra), high=middle + math.hypot(found.high - middle, extra)
    )


def _judges(results: Sequence[ScoreResult], wanted: Sequence[str]) -> list[str]:
    """The judge chosen for each run. Raises UserError for an unknown judge, or if the runs share none."""
    known = [sorted({one.judge for one in result.systems if one.n_scored}) for result in results]
    for result, judges in zip(results, known, strict=True):
        if not judges:
            raise UserError(f"{result.run} has no scored judgment yet; nothing to compare")
    if wanted:
        asked = [*wanted, *wanted][: len(results)] if len(wanted) == 1 else list(wanted)[: len(results)]
        for judge, judges, result in zip(asked, known, results, strict=True):
            if judge not in judges:
                raise UserError(f"{result.run} has no judgments by {judge!r}; it has those by {', '.join(judges)}")
        return asked
    shared = [judge for judge in known[0] if all(judge in judges for judges in known)]
    if shared:
        return [shared[0]] * len(results)
    told = "; ".join(f"{result.run}: {', '.join(judges)}" for result, judges in zip(results, known, strict=True))
    raise UserError(f"the runs share no judge ({told}); name one for each with --judges A B, or judge them alike with rejudge")


def _pairs(tables: Sequence[_Values], wanted: Sequence[str]) -> Chosen:
    names = [sorted(table.systems) for table in tables]
    if len(tables) == 1:
        first, second = (list(_matching(tables[0], one)) for one in (wanted or ("*", "*")))
        seen = dict.fromkeys((a, b) for a in first for b in second if a != b)
        pairs = [(a, b) for a, b in seen if (b, a) not in seen or a < b]
        if not pairs:
            raise UserError(f"{tables[0].run} has no two systems to compare among {', '.join(names[0])}")
        found: Chosen = [((0, a), (0, b)) for a, b in pairs]
    elif wanted:
        first, second = (list(_matching(table, one)) for table, one in zip(tables, wanted, strict=True))
        found = [((0, a), (1, b)) for a in first for b in second]
    else:
        found = [((0, one), (1, one)) for one in names[0] if one in names[1]]
        if not found:
            told = "; ".join(f"{table.run}: {', '.join(known)}" for table, known in zip(tables, names, strict=True))
            raise UserError(f"the runs have no system of one name ({told}); name one of each with --systems A B")
    if len(found) > MOST_PAIRS:
        raise UserError(f"{len(found):,} pairs of systems are more than {MOST_PAIRS:,}; name fewer with --systems A B")
    return found


def _matching(table: _Values, wanted: str) -> Iterable[str]:
    """The systems that match a name or pattern: by their own name, or as COLUMN_MODEL of the tables of scores."""
    shown = {name: f"{column_of(one.retriever, one.ordering)}_{one.model}" for name, one in sorted(table.systems.items())}
    exact = [name for name, other in shown.items() if wanted in (name, other)]
    found = exact or [name for name, other in shown.items() if fnmatchcase(name, wanted) or fnmatchcase(other, wanted)]
    if not found:
        raise UserError(f"{table.run} has no scored system {wanted!r}; it has {', '.join(shown)}")
    return found


def _warnings(
    resampling: Resampling, queries: Mapping[tuple[str, str], int], tables: Sequence[_Values], pairs: Sequence[SystemPair]
) -> list[str]:
    haystacks = len({haystack for haystack, _ in queries})
    found = []
    if resampling.over == "queries":
        these = "this haystack" if haystacks == 1 else f"these {haystacks} haystacks"
        found.append(f"intervals and p-values are about further queries of {these}, and say nothing of others")
    elif resampling.test == "t":
        found.append(
            f"{haystacks} haystacks are few: intervals and p-values are Student's t over haystacks, which finds "
            "large differences alone (compare --over queries asks of these haystacks only); ranks are about these"
        )
    elif haystacks < SURE:
        found.append(f"{haystacks} haystacks are fewer than {SURE}: a 95 % interval may cover somewhat less than it says")
    if lost := [one.found for one in pairs if one.found.out_of_reach]:
        worst = max(lost, key=lambda one: one.p_least)
        found.append(
            f"no difference can be shown among {worst.n_pairs:,} pairs: the least p of {worst.clusters} {worst.over} is "
            f"{worst.p_least:.2g}, which Holm makes {min(1, worst.p_least * worst.n_pairs):.2g}; compare fewer with --systems A B"
        )
    if len({table.judge for table in tables}) > 1:
        found.append("the runs are judged by different judges: a difference may be theirs")
    return found
