"""The result of a comparison, with its summary: the decision and the leaderboard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from summhay_ray.comparison.decision import SystemDecision
from summhay_ray.comparison.run_scores import Estimate
from summhay_ray.metrics import LEVEL
from summhay_ray.sections import Section, html_of

ENDS = {"": "difference", "_low": "low", "_high": "high"}
"""Suffix of a column -> the field of a difference."""
STANDING = pl.Schema(
    {
        "name": pl.String,  # the system's key, prefixed with the run's id if there are two runs
        "label": pl.String,  # the system's name for people
        "run": pl.String,
        "model": pl.String,  # the parts of the name; empty if the system has none
        "retriever": pl.String,
        "ordering": pl.String,
        "mean": pl.Float64,  # over the queries that it answered, with equal weights
        "low": pl.Float64,  # the 95 % interval of the mean; null with too few queries or clusters
        "high": pl.Float64,
        "floor": pl.Float64,  # mean, counting all missing values as 0
        "n": pl.Int64,  # number of the system's answers or judgments
        "n_expected": pl.Int64,
        "missing": pl.Float64,  # share of the expected ones that the system lacks
        "rank": pl.Int64,  # from 1, equal systems share the better rank; null if the system lacks more than metrics.INCOMPLETE
        "rank_low": pl.Int64,  # 1 + the number of ranked systems that are significantly better
        "rank_high": pl.Int64,  # the number of ranked systems - the number of significantly worse ones
        "may_be_best": pl.Boolean,  # no system is significantly better
        "from_best": pl.Float64,  # difference from the first system, with the interval of their pair
        "from_best_low": pl.Float64,
        "from_best_high": pl.Float64,
        "usd": pl.Float64,  # dollars per query; null if unknown
        "ceiling": pl.Boolean,  # whether the system sees the gold documents
    }
)
"""The columns of a system's place in the ranking."""


@dataclass(frozen=True)
class SystemComparison:
    """Systems compared in pairs, and their ranking with its uncertainty."""

    runs: tuple[str, ...]
    pairs: pl.DataFrame
    """A row per figure and pair, in which all pairs of the figure are one family.

    The columns are `figure`, its `unit`, `a` and `b` (each with `run`, `system`, `label`, `model`, `retriever`, `ordering`,
    `judge`), `differs` and `verdict`. Three more hold the fields of `metrics.Paired.differences`: `paired` for the raw
    differences, `corrected` for those without each judge's bias relative to people (null if a bias is unknown or does not
    apply), and `labelled` for those corrected by people's labels.
    """
    standings: Mapping[str, pl.DataFrame]
    """Figure -> the compared systems, best first, followed by those with too many missing values. Columns are those of
    STANDING."""
    decision: SystemDecision
    """The decision by the first figure."""
    warnings: Sequence[str]
    about: Mapping[str, str]
    """Figure -> the population to which its intervals, p-values and ranks generalize, such as `further queries of these 2
    haystacks`."""
    units: Mapping[str, str]
    """Figure -> its unit: %, or empty for the figure's own scale."""
    judge: str = ""
    """The judge of the scores. For two runs with different judges, `A and B`. Empty if the scores are not judgments."""
    cluster: str = "haystack"
    """The noun for a cluster of queries, such as haystack."""
    counted: str = "answers"
    """What `n` of the standings counts."""
    means: pl.DataFrame = field(default_factory=pl.DataFrame)
    """A row per compared system: its `name`, and its mean of each figure of the runs, including figures that are not compared."""
    scales: Mapping[str, str] = field(default_factory=dict)
    """Figure of `means` -> its unit."""
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """System's name -> its parts, such as model and retriever."""
    corrections: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    """`corrected` (for the judge's bias) and `labels` (by people's labels) -> system -> the corrected first figure, with its
    interval."""

    def of(self, figure: str) -> pl.DataFrame:
        """Return the pairs of one figure."""
        return self.pairs.filter(pl.col("figure") == figure)

    def best(self, figure: str) -> list[str]:
        """Return the keys of the systems that may be the best: those without a significantly better system."""
        return self.standings[figure].filter("may_be_best")["name"].to_list()

    @property
    def table(self) -> pl.DataFrame:
        """Return one row per pair and figure, with the fields of `paired` and the verdict. Values are fractions, not points."""
        a, b = (pl.col(side).struct.field for side in "ab")
        named = ("figure", a("system").alias("system_a"), b("system").alias("system_b"), "verdict", "differs", "paired")
        return self.pairs.select(*named, a("run").alias("run_a"), b("run").alias("run_b")).unnest("paired")

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the decision and the leaderboard."""
        return html_of([], [decision_section(self), leaderboard_section(self)])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document that `summhay compare` prints for systems."""
        return {
            "runs": list(self.runs),
            "judge": self.judge or None,
            "cluster": self.cluster,
            "about": dict(self.about),
            "decision": self.decision.to_json(),
            "pairs": self.pairs.to_dicts(),
            "standings": {figure: order.to_dicts() for figure, order in self.standings.items()},
            "best": {
                figure: {"systems": self.best(figure), "error_rate": LEVEL, "method": "Holm's correction for all pairs"}
                for figure in self.standings
            },
            "warnings": list(self.warnings),
        }

    def figure_title(self, figure: str) -> str:
        """Return the name of a figure with its judge."""
        return f"{figure}, judged by {self.judge}" if self.judge else figure


def decision_section(comparison: SystemComparison) -> Section:
    """Return the decision in one paragraph."""
    title = f"Decision by {comparison.figure_title(comparison.decision.figure)}"
    return Section(title, comparison.decision.text, name="decision", notes=comparison.warnings)


def leaderboard_section(comparison: SystemComparison) -> Section:
    """Return the leaderboard by the first figure: a row per system, best first. Incomplete systems, and those that see the gold
    documents, come last and have no rank.

    `from best` is the difference from the first system that does not see the gold documents. `verdict`, among such systems, is
    `best`, `tied` (no system is shown to be better than it), `below`, or `undecided` (the only candidate, on too little
    evidence). It is `incomplete` for a system without a rank, and `ceiling` for a system that sees the gold documents.
    """
    figure = next(iter(comparison.standings))
    standings, several = comparison.standings[figure], len(comparison.runs) > 1
    rows = standings.to_dicts()
    usable = {row["name"]: row for row in rows if row["rank"] is not None and not row["ceiling"]}
    leader = next(iter(usable), next((row["name"] for row in rows if not row["ceiling"]), rows[0]["name"]))
    worse, from_leader = set(), dict[str, tuple[float | None, ...]]()
    for pair in comparison.of(figure).select("a", "b", "differs", "paired").iter_rows(named=True):
        a, b = (f"{side['run']} {side['system']}" if several else side["system"] for side in (pair["a"], pair["b"]))
        difference, low, high = (pair["paired"][name] for name in ("difference", "low", "high"))
        if pair["differs"] and a in usable and b in usable:
            worse.add(b if difference > 0 else a)
        if b == leader:
            from_leader[a] = (difference, low, high)
        elif a == leader:
            from_leader[b] = tuple(None if end is None else -end for end in (difference, high, low))
    decided = "undecided" if comparison.decision.use is None else "best"
    standing = "tied" if len(usable) - len(worse) > 1 else decided
    means = {row["name"]: row for row in comparison.means.iter_rows(named=True)}
    others = [name for name in comparison.scales if name in comparison.means.columns and name != figure]
    named = list(dict.fromkeys(part for of in comparison.parts.values() for part, text in of.items() if text))
    ways = [way for way, systems in comparison.corrections.items() if any(row["name"] in systems for row in rows)]
    table = []
    apart = [row for row in rows if row["name"] not in usable]
    for row in (*usable.values(), *sorted(apart, key=lambda row: bool(row["ceiling"]))):
        name, ends = row["name"], from_leader.get(row["name"], (None,) * 3)
        verdict = "ceiling" if row["ceiling"] else "incomplete" if row["rank"] is None else "below" if name in worse else standing
        corrected = {way: comparison.corrections[way].get(name, (None,) * 3) for way in ways}
        table.append(
            {
                "rank": 1 + sum(other["rank"] < row["rank"] for other in usable.values()) if name in usable else None,
                "verdict": verdict,
                **({"run": row["run"]} if several else {}),
                "system": row["label"],
                **{part: comparison.parts.get(name, {}).get(part, "") for part in named},
                **{
                    f"{figure}{end}": row[of]
                    for end, of in {"": "mean", "_low": "low", "_high": "high", "_floor": "floor"}.items()
                },
                **dict(zip((f"from best{end}" for end in ENDS), ends, strict=True)),
                **{f"{way}{end}": value for way in ways for end, value in zip(ENDS, corrected[way], strict=True)},
                **{other: means[name][other] for other in others},
                "answered": 1 - row["missing"],
                "dollars a query": row["usd"],
                "n": row["n"],
                "n_expected": row["n_expected"],
            }
        )
    frame = pl.DataFrame(table, infer_schema_length=None)
    figures = [name for name in frame.columns if name not in ("rank", "system", "run", *named, "verdict", "n", "n_expected")]
    frame = frame.with_columns(pl.col(figures).cast(pl.Float64))
    frame = frame.drop(name for name in ("dollars a query",) if not frame[name].count())
    units = {name: "%" for name in (figure, *others) if comparison.scales.get(name) == "%"} | {"answered": "%"}
    if figure in units:
        units |= {"from best": "points", **dict.fromkeys(ways, "%")}
    return Section(
        f"Leaderboard by {comparison.figure_title(figure)}",
        f"Mean {figure}, each query counting once, for {comparison.about[figure]}. From best: the difference from "
        f"{usable.get(leader, rows[0])['label']}, with the interval of their pair. n: {comparison.counted}.",
        frame,
        units,
        name="board",
        parts=named,
    )
