"""Compare two judges on one run: their agreement, their greatest differences, and the systems' scores and ranks.

Only insights that both judges scored count, so that a failure of one judge does not change a system's score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from summhay_ray.benchmark import RunStore, Section
from summhay_ray.benchmarks.summhay.results.judges import all_rows, check_judged, costs_of, judge_of_record, judges_of
from summhay_ray.benchmarks.summhay.results.scores import SYSTEM
from summhay_ray.errors import UserError
from summhay_ray.metrics import Agreement, RankAgreement, Verdicts, agreement_between, kappa, rank_agreement
from summhay_ray.outcome import MICROS
from summhay_ray.records import COVERAGE_VALUE, system_label

_LABEL = {value: label for label, value in COVERAGE_VALUE.items()}
_SHORT = {"FULL_COVERAGE": "full", "PARTIAL_COVERAGE": "partial", "NO_COVERAGE": "none"}
_PAIR = ("cell_id", "insight_id")
_FIGURES = ("joint", "coverage")
_TEXT_SHOWN = 90


@dataclass(frozen=True)
class CompareResult:
    """The comparison of two judges on one run. In each pair, and in each list in the frames, the first judge's value precedes the
    second judge's."""

    run: str
    judges: tuple[str, str]
    n_scored: tuple[int, int]
    """Number of insights that each judge scored."""
    agreement: Agreement
    input_tokens: tuple[int, int]
    """Input tokens of each judge's answers about the insights that both scored."""
    usd: tuple[float, float]
    """The price of these answers in dollars, to weigh a judge's savings (by an extract, for example) against its agreement."""
    ranking: Mapping[str, RankAgreement]
    """Figure (joint, coverage) -> how far the judges' rankings of the systems agree."""
    systems: pl.DataFrame
    """A row per system, in descending order of joint by the first judge. The columns are the parts of its name; `n`; `joint`
    and `coverage` over the insights that both scored; and their ranks from 1 (equal systems share their mean rank)."""
    differences: pl.DataFrame
    """The insights with the greatest differences, in descending order: coverage `labels`, `values` (expected coverage, 0..1),
    numbers of the linked `bullets` (from 1; null for none), and the `texts` of these."""

    @property
    def kappa(self) -> float | None:
        return kappa(self.agreement.confusion)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document that `summhay compare` prints for judges."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        frames = {name: fields[name].to_dicts() for name in ("systems", "differences")}
        ranking = {name: asdict(one) for name, one in self.ranking.items()}
        return {**fields, "agreement": {**asdict(self.agreement), "kappa": self.kappa}, "ranking": ranking, **frames}

    def sections(self) -> list[Section]:
        """Return four tables: agreement, confusion of labels, scores and ranks of the systems, and the largest differences."""
        first, second = self.judges
        agreement, confusion = self.agreement, self.agreement.confusion
        counts = {
            "insights scored by both": f"{agreement.n} (of {self.n_scored[0]} and {self.n_scored[1]})",
            "correlation": _figure(agreement.correlation),
            "same label (%)": _figure(agreement.same_label, percent=True),
            "Cohen's kappa": _figure(self.kappa),
            "Krippendorff's alpha (ordinal)": _figure(agreement.alpha),
            "same bullet, where both name one (%)": f"{_figure(agreement.same_bullet, percent=True)} (n {agreement.n_linked})",
            **{
                f"ranking by {name}: Spearman, Kendall": f"{_figure(one.spearman)}, {_figure(one.kendall)} (n {one.n})"
                for name, one in self.ranking.items()
            },
            "input tokens for these": " / ".join(f"{tokens:,}" for tokens in self.input_tokens),
            "dollars for these": " / ".join(f"{usd:.4f}" for usd in self.usd),
        }
        labels = [
            {f"{first} \\ {second}": _SHORT[label], **{_SHORT[other]: n for other, n in row.items()}}
            for label, row in confusion.items()
        ]
        titles = {"joint": "joint", "joint_ranks": "rank", "coverage": "coverage", "coverage_ranks": "its rank"}
        by_judge = {
            f"{title} {letter}": pl.col(name).list.get(place)
            for name, title in titles.items()
            for place, letter in enumerate("AB")
        }
        systems = self.systems.select(pl.col("label").alias("system"), **by_judge, n="n")
        differences = [
            {
                "cell": row["cell_id"],
                "insight": row["insight_id"],
                **{
                    judge: f"{_SHORT[label]} {value:.2f}" + (f", bullet {bullet}" if bullet else "")
                    for judge, label, value, bullet in zip(self.judges, row["labels"], row["values"], row["bullets"], strict=True)
                },
                "text": row["insight"] if len(row["insight"]) <= _TEXT_SHOWN else row["insight"][: _TEXT_SHOWN - 1] + "…",
            }
            for row in self.differences.iter_rows(named=True)
        ]
        title = f"Systems by A, {first}, and by B, {second}: raw figures and their ranks"
        units = {name: "%" for name in systems.columns if name.startswith(_FIGURES)}
        agreed = pl.DataFrame([*counts.items()], schema=["figure", "value"], orient="row")
        apart = pl.DataFrame(differences, schema=["cell", "insight", first, second, "text"])
        return [
            Section(f"{first} and {second} on {self.run}", table=agreed),
            Section("Labels, insights", table=pl.DataFrame(labels)),
            Section(title, table=systems, units=units),
            Section(f"Where they differ most ({len(differences)} shown)", table=apart),
        ]


def compare_judges(run: RunStore, judges: Sequence[str] = (), rows: int = 20) -> CompareResult:
    """Compare two judges of a run (`judges` may be empty if it has exactly two). `rows`: number of differences to list.
    Raises UserError, StoreError."""
    check_judged(run)
    run = run.at()
    known = [judged.judge for judged in judges_of(run)]
    if judges or len(known) != 2:
        if len(set(judges)) != 2:
            raise UserError(f"compare takes two judges: --judges A B; {run.run_id} has {', '.join(known)}")
        known = [judge_of_record(run, name) for name in judges]
    first, second = known
    scores, judgments = all_rows(run, "scores"), all_rows(run, "judgments")
    mine, other = (_scores_of(scores, judgments, judge) for judge in (first, second))
    both = mine.join(other, on=_PAIR, suffix="_2", how="inner").sort(_PAIR)
    if both.is_empty():
        counts = f"{first} scored {mine.height} insights and {second} {other.height}"
        raise UserError(f"no insight of {run.run_id} is scored by both judges: {counts}; let both finish")
    summaries = run.table("summaries").select("cell_id", *SYSTEM, "haystack_id", "subtopic_id", "bullets")
    both = both.join(summaries, on="cell_id", how="left", maintain_order="left")
    means = pl.col("joint", "joint_2", "coverage", "coverage_2").mean()
    systems = both.group_by(SYSTEM).agg(means, pl.len().alias("n")).sort("joint", *SYSTEM, descending=[True] + [False] * 4)
    columns: dict[str, pl.Expr] = {}
    for name in _FIGURES:
        pair = pl.col(name, f"{name}_2")
        columns |= {name: pl.concat_list(pair), f"{name}_ranks": pl.concat_list(pair.rank(descending=True))}
    label = pl.struct("retriever", "ordering", "model").map_elements(lambda one: system_label(**one), pl.String)
    systems = systems.select(*SYSTEM, label.alias("label"), "n", **columns)
    own, others = (costs_of(run, judge, both[key].to_list()) for judge, key in ((first, "key"), (second, "key_2")))
    return CompareResult(
        run=run.run_id,
        judges=(first, second),
        n_scored=(mine.height, other.height),
        agreement=agreement_between(_verdicts(both, ""), _verdicts(both, "_2")),
        differences=_differences(both, run, rows),
        systems=systems,
        ranking={name: rank_agreement(*zip(*systems[name], strict=True)) for name in _FIGURES},
        input_tokens=(own[0], others[0]),
        usd=(own[1] / MICROS, others[1] / MICROS),
    )


def _scores_of(scores: pl.DataFrame, judgments: pl.DataFrame, judge: str) -> pl.DataFrame:
    """Return a judge's scored insights: ids, coverage, joint, bullet, value (expected coverage, 0..1) and key."""
    judged = judgments.filter(pl.col("judge") == judge).select("cell_id", "position", "value", "key")
    scored = scores.filter(pl.col("judge") == judge).join(judged, on=["cell_id", "position"], how="left")
    return scored.select(*_PAIR, "coverage", "joint", "bullet", pl.coalesce("value", "coverage").alias("value"), "key")


def _verdicts(both: pl.DataFrame, end: str) -> Verdicts:
    labels = [_LABEL[value] for value in both[f"coverage{end}"].to_list()]
    return Verdicts(labels, both[f"value{end}"].to_list(), both[f"bullet{end}"].to_list())


def _differences(both: pl.DataFrame, run: RunStore, rows: int) -> pl.DataFrame:
    apart = (pl.col("value") - pl.col("value_2")).abs()
    unlike = pl.col("coverage").ne(pl.col("coverage_2")) | pl.col("bullet").ne_missing(pl.col("bullet_2"))
    largest = both.filter(unlike).sort(apart, *map(pl.col, _PAIR), descending=[True, False, False]).head(rows)
    insights = run.table("insights").select("haystack_id", "insight_id", insight="text")
    with_insights = largest.join(insights, on=["haystack_id", "insight_id"], how="left", maintain_order="left")
    return with_insights.select(
        "cell_id",
        "system",
        "haystack_id",
        "subtopic_id",
        "insight_id",
        pl.col("insight").fill_null(""),
        labels=pl.concat_list(pl.col("coverage", "coverage_2").replace_strict(_LABEL, return_dtype=pl.String)),
        values=pl.concat_list("value", "value_2"),
        bullets=pl.concat_list("bullet", "bullet_2"),
        texts=pl.concat_list(pl.col("bullets").list.get(pl.col(name) - 1, null_on_oob=True) for name in ("bullet", "bullet_2")),
    )


def _figure(value: float | None, percent: bool = False) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f}" if percent else f"{value:.3f}"
