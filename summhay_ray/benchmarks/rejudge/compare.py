"""Compare two judges on one run: their agreement, their greatest differences, and the systems' scores and ranks.

Only insights that both judges scored count, so that a failure of one judge does not change a system's score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from summhay_ray.benchmarks.summhay.judges import (
    all_judgments,
    all_scores,
    check_judged,
    costs_of,
    judge_of_record,
    judges_of,
)
from summhay_ray.benchmarks.summhay.scores import SYSTEM
from summhay_ray.errors import UserError
from summhay_ray.metrics import Agreement, RankAgreement, Verdicts, agreement_between, kappa, rank_agreement
from summhay_ray.outcome import MICROS
from summhay_ray.records import COVERAGE_VALUE
from summhay_ray.store import RunStore

_LABEL = {value: label for label, value in COVERAGE_VALUE.items()}
_PAIR = ("cell_id", "insight_id")
_FIGURES = ("joint", "coverage")


@dataclass(frozen=True, slots=True)
class Difference:
    """An insight on which the two judges differ. Pairs are (first judge, second judge)."""

    cell_id: str
    system: str
    haystack_id: str
    subtopic_id: str
    insight_id: str
    insight: str
    labels: tuple[str, str]
    """Coverage labels."""
    values: tuple[float, float]
    """Expected coverage, 0..1."""
    bullets: tuple[int | None, int | None]
    """Numbers of the bullets that were linked, from 1; None for no bullet."""
    texts: tuple[str | None, str | None]
    """Texts of these bullets."""


@dataclass(frozen=True, slots=True)
class SystemMove:
    """One system's scores and ranks by each judge, over the insights that both scored.

    Pairs are (first judge, second judge). Ranks start at 1; equal systems get the mean of their ranks.
    """

    system: str
    retriever: str
    ordering: str
    model: str
    n: int
    joint: tuple[float, float]
    joint_ranks: tuple[float, float]
    coverage: tuple[float, float]
    coverage_ranks: tuple[float, float]


@dataclass(frozen=True)
class CompareResult:
    """The comparison of two judges on one run. Pairs are (first judge, second judge)."""

    run: str
    judges: tuple[str, str]
    n_scored: tuple[int, int]
    """Insights that each judge scored."""
    agreement: Agreement
    input_tokens: tuple[int, int]
    """Input tokens of each judge's answers about the insights that both scored."""
    usd: tuple[float, float]
    """Dollars of the same answers, to weigh the savings of a judge (an extract, for example) against its agreement."""
    ranking: Mapping[str, RankAgreement]
    """Figure (joint, coverage) -> the agreement of the judges' rankings of the systems."""
    systems: Sequence[SystemMove]
    """In descending order of joint by the first judge."""
    differences: Sequence[Difference]
    """The greatest differences in expected coverage, in descending order."""

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of the labels."""
        return kappa(self.agreement.confusion)

    def to_json(self) -> dict[str, Any]:
        """The JSON document that `summhay compare` prints for judges."""
        fields = asdict(self)
        fields["agreement"]["kappa"] = self.kappa
        return fields


def compare_judges(run: RunStore, judges: Sequence[str] = (), rows: int = 20) -> CompareResult:
    """Compare two judges of a run. `judges` may be empty if the run has exactly two; `rows`: differences to list.

    Raises UserError, StoreError.
    """
    check_judged(run)
    run = run.at()
    first, second = _chosen(run, judges)
    scores, judgments = all_scores(run), all_judgments(run)
    mine, other = (_of(scores, judgments, judge) for judge in (first, second))
    both = mine.join(other, on=_PAIR, suffix="_2", how="inner").sort(_PAIR)
    if both.is_empty():
        counts = f"{first} scored {mine.height} insights and {second} {other.height}"
        raise UserError(f"no insight of {run.run_id} is scored by both judges: {counts}; let both finish")
    summaries = run.table("summaries").select("cell_id", *SYSTEM, "haystack_id", "subtopic_id", "bullets")
    both = both.join(summaries, on="cell_id", how="left", maintain_order="left")
    systems = _moves(both)
    costs = [costs_of(run, judge, both[name].to_list()) for judge, name in ((first, "key"), (second, "key_2"))]
    return CompareResult(
        run=run.run_id,
        judges=(first, second),
        n_scored=(mine.height, other.height),
        agreement=agreement_between(_verdicts(both, ""), _verdicts(both, "_2")),
        differences=_differences(both, run, rows),
        systems=systems,
        ranking={name: rank_agreement(*zip(*(getattr(system, name) for system in systems), strict=True)) for name in _FIGURES},
        input_tokens=(costs[0][0], costs[1][0]),
        usd=(costs[0][1] / MICROS, costs[1][1] / MICROS),
    )


def _chosen(run: RunStore, wanted: Sequence[str]) -> tuple[str, str]:
    known = [judged.judge for judged in judges_of(run)]
    listed = ", ".join(known)
    if not wanted and len(known) == 2:
        return known[0], known[1]
    if len(set(wanted)) != 2:
        raise UserError(f"compare takes two judges: --judges A B; {run.run_id} has {listed}")
    first, second = (judge_of_record(run, name) for name in wanted)
    return first, second


def _of(scores: pl.DataFrame, judgments: pl.DataFrame, judge: str) -> pl.DataFrame:
    """A judge's scored insights: ids, coverage, joint, bullet, value (expected coverage, 0..1) and key."""
    judged = judgments.filter(pl.col("judge") == judge).select("cell_id", "position", "value", "key")
    scored = scores.filter(pl.col("judge") == judge).join(judged, on=["cell_id", "position"], how="left")
    return scored.select(*_PAIR, "coverage", "joint", "bullet", pl.coalesce("value", "coverage").alias("value"), "key")


def _verdicts(both: pl.DataFrame, end: str) -> Verdicts:
    labels = [_LABEL[value] for value in both[f"coverage{end}"].to_list()]
    return Verdicts(labels, both[f"value{end}"].to_list(), both[f"bullet{end}"].to_list())


def _differences(both: pl.DataFrame, run: RunStore, rows: int) -> list[Difference]:
    apart = (pl.col("value") - pl.col("value_2")).abs()
    unlike = pl.col("coverage").ne(pl.col("coverage_2")) | pl.col("bullet").ne_missing(pl.col("bullet_2"))
    largest = both.filter(unlike).sort(apart, *map(pl.col, _PAIR), descending=[True, False, False]).head(rows)
    insights = run.table("insights").select("haystack_id", "insight_id", insight="text")
    told = largest.join(insights, on=["haystack_id", "insight_id"], how="left", maintain_order="left")
    names = ("cell_id", "system", "haystack_id", "subtopic_id", "insight_id")
    return [
        Difference(
            **{name: row[name] for name in names},
            insight=row["insight"] or "",
            labels=(_LABEL[row["coverage"]], _LABEL[row["coverage_2"]]),
            values=(row["value"], row["value_2"]),
            bullets=(row["bullet"], row["bullet_2"]),
            texts=(_text(row, "bullet"), _text(row, "bullet_2")),
        )
        for row in told.iter_rows(named=True)
    ]


def _text(row: Mapping[str, Any], bullet: str) -> str | None:
    return row["bullets"][row[bullet] - 1] if row[bullet] else None


def _moves(both: pl.DataFrame) -> list[SystemMove]:
    figures = [f"{name}{end}" for name in _FIGURES for end in ("", "_2")]
    systems = both.group_by(SYSTEM).agg(pl.len().alias("n"), *(pl.col(figure).mean() for figure in figures))
    placed = systems.with_columns(pl.col(figure).rank(descending=True).name.suffix("_rank") for figure in figures)
    moves = []
    for row in placed.sort("joint", *SYSTEM, descending=[True] + [False] * 4).iter_rows(named=True):
        fields: dict[str, Any] = {name: row[name] for name in (*SYSTEM, "n")}
        for name in _FIGURES:
            fields |= {name: (row[name], row[f"{name}_2"]), f"{name}_ranks": (row[f"{name}_rank"], row[f"{name}_2_rank"])}
        moves.append(SystemMove(**fields))
    return moves
