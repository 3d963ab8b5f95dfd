"""The results of `judge-bench`, and their sections in a report: agreement of judges with people, bias, cost (Tables 1 and 6)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import polars as pl

from summhay_ray.benchmark import Section
from summhay_ray.benchmarks.panels import panels_section
from summhay_ray.judge import Verdict, bench
from summhay_ray.metrics import JudgeBias
from summhay_ray.outcome import Outcome

Source = Literal["free", "estimated", "spent"]

Wanted = Sequence[Sequence[int]]
"""The insights to judge in each summary, by index."""

Outcomes = list[dict[int, Outcome[Verdict]]]
"""Per summary: index of an insight -> the outcome of judging it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcomes of a judge, or of one of its parts, and their cost."""

    outcomes: Outcomes
    micros: int | None = 0
    """Cost in micro-dollars; None if unknown."""
    source: Source = "free"
    votes: Sequence[Sequence[str]] = ()
    """For a panel: the members' labels for each insight that all of them labelled."""


@dataclass(frozen=True, slots=True)
class PanelVotes:
    """The agreement of a panel's members on the insights that all of them judged."""

    members: int
    n: int
    """Insights that all members judged."""
    unanimous: int
    """Insights to which all members give the same label."""
    tied: int
    """Insights without a most frequent label."""
    alpha: float | None
    """Krippendorff's alpha of the members' labels, which are ordered."""


@dataclass(frozen=True)
class BenchRow:
    """The figures of one judge. Dollars are the cost of judging these summaries once, regardless of earlier payments."""

    judge: str
    figures: bench.Agreement
    usd: float | None
    usd_per_200: float | None
    usd_source: Source | None
    failures: dict[str, int]
    """Error -> the number of judgments that failed with it."""
    messages: dict[str, str] = field(default_factory=dict)
    """Error -> the message of its first failure."""
    panel: PanelVotes | None = None
    """For a panel, or a judge asked several times: how its members agree."""
    bias: JudgeBias | None = field(repr=False, default=None)

    @property
    def missing(self) -> str:
        """Describe the missing judgments in words, with the first error of a user-defined judge."""
        shown = {"judge_error": f" ({self.messages.get('judge_error')})"}
        return ", ".join(f"{count} {error}{shown.get(error, '')}" for error, count in self.failures.items())

    def to_json(self) -> dict[str, Any]:
        """Return the judge's entry in the JSON document."""
        costs = {name: getattr(self, name) for name in ("usd", "usd_per_200", "usd_source")}
        panel = {} if self.panel is None else {"panel": asdict(self.panel)}
        return {
            "judge": self.judge,
            **asdict(self.figures),
            **panel,
            **costs,
            "failures": self.failures,
            "messages": self.messages,
        }


@dataclass(frozen=True)
class BenchResult:
    """The results of `judge-bench`."""

    n_summaries: int
    n_insights: int
    judges: list[BenchRow]
    calls: dict[str, int]
    """Calls made, reused and failed by this run of the command."""
    usd_spent: float
    """Dollars spent on the bench so far."""
    usd_uncertain: float = 0.0
    """Maximum cost of the calls that were in flight when the run was killed."""
    held_out: bool = False
    """Whether the free judge was fitted without the topic that it judged."""
    left: Mapping[str, Any] | None = None
    """If the budget stopped the bench: the judgments left. If their prompts are known, also the calls, and minimum, expected
    and maximum dollars."""

    doubted: Mapping[str, str] = field(default_factory=dict)
    """Model -> why its reported usage is not credible."""
    warnings: tuple[str, ...] = ()
    """Other warnings, one line each."""

    @property
    def status(self) -> str:
        """done, budget (the budget stopped the bench), or partial (judgments are missing, or a usage is not credible)."""
        errors = Counter(error for row in self.judges for error in row.failures)
        return "budget" if errors["budget"] else "partial" if errors or self.doubted else "done"

    @property
    def notes(self) -> list[str]:
        """All warnings, one line each, including those about models whose usage is not credible."""
        return list(dict.fromkeys([*(f"{model}: {why}" for model, why in self.doubted.items()), *self.warnings]))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of `summhay judge-bench`."""
        counts = {"n_summaries": self.n_summaries, "n_insights": self.n_insights}
        money = {"calls": self.calls, "usd_spent": self.usd_spent, "usd_uncertain": self.usd_uncertain}
        return {
            **counts,
            "status": self.status,
            "held_out": self.held_out,
            **money,
            "left": self.left,
            "warnings": self.notes,
            "judges": [row.to_json() for row in self.judges],
        }

    @property
    def sections(self) -> list[Section]:
        """Return the sections: agreement with people, bias of the judges, and agreement of panel members."""
        panels = [{"judge": row.judge, **asdict(row.panel)} for row in self.judges if row.panel is not None]
        frame = pl.DataFrame(panels, infer_schema_length=None)
        found = panels_section(frame.with_columns(pl.col("unanimous", "tied") / pl.col("n")) if panels else frame)
        return [agreement_section(self.judges), bias_section(self.judges), *found] if self.judges else []

    def biases(self) -> str:
        """Return the measured biases as JSON for `score --bias`."""
        biases = [row.bias for row in self.judges if row.bias is not None]
        return bench.biases_json(biases, "How far judges' coverage lies above people's, as judge-bench measured it; fractions.")


def agreement_section(judges: Sequence[BenchRow]) -> Section:
    """Return a section with a row per judge: how far it agrees with people (paper, Table 1)."""
    rows = []
    for judge in judges:
        figures = judge.figures
        correlation, linking = (interval or (None, None) for interval in (figures.correlation_ci, figures.linking_ci))
        rows.append(
            {
                "judge": judge.judge,
                "correlation": figures.correlation,
                **dict(zip(("correlation_low", "correlation_high"), correlation, strict=True)),
                "correlation of labels": figures.correlation_labels,
                "kappa": figures.kappa,
                "alpha": figures.alpha,
                "same bullet": figures.linking_accuracy,
                **dict(zip(("same bullet_low", "same bullet_high"), linking, strict=True)),
                "n of bullets": figures.linking_n,
                "dollars for 200": judge.usd_per_200,
                "dollars are": judge.usd_source or "not known",
                "n": figures.n_scored,
                "n_expected": figures.n_expected,
            }
        )
    text = (
        "How far each judge agrees with people (paper, Table 1). Correlation: of its coverage with people's, over insights, and "
        "of its labels alone. Kappa: Cohen's; alpha: Krippendorff's for ordinal data, both of the labels. Same bullet: how often "
        "both name the same bullet, where both name one. Dollars for 200: to judge 200 such summaries."
    )
    better = ("correlation", "correlation of labels", "kappa", "alpha", "same bullet")
    table = pl.DataFrame(rows, infer_schema_length=None)
    return Section("Agreement with people", text, table, {"same bullet": "%"}, name="agreement", higher_is_better=better)


def bias_section(judges: Sequence[BenchRow]) -> Section:
    """Return a section with a row per judge: how far its coverage is above people's (paper, Table 6)."""
    names = sorted({name for judge in judges for name in judge.figures.bias})
    rows = [
        {
            "judge": judge.judge,
            **{name: judge.figures.bias.get(name) for name in names},
            "mean": judge.figures.bias_mean,
            "length and coverage": judge.figures.length_score_corr,
            "length and bias": judge.figures.length_delta_corr,
            "n": judge.figures.n_scored,
            "n_expected": judge.figures.n_expected,
        }
        for judge in judges
    ]
    text = (
        "How far a judge's coverage lies above people's, in points, by who wrote the summary (paper, Table 6), and the mean over "
        "these; summhay score subtracts the mean over insights. Length and ...: correlation of the words per bullet with the "
        "judge's coverage, and with its bias."
    )
    table = pl.DataFrame(rows, infer_schema_length=None)
    return Section("Bias against people", text, table, dict.fromkeys((*names, "mean"), "points"), name="bias")
