"""The results of `judge-bench`: agreement of judges with people, bias, cost (paper, Tables 1 and 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from summhay_ray.judge import Verdict, bench, is_tied
from summhay_ray.metrics import JudgeBias, alpha
from summhay_ray.outcome import Outcome
from summhay_ray.records import COVERAGE_VALUE

Source = Literal["free", "estimated", "spent"]

Wanted = Sequence[Sequence[int]]
"""The insights of each summary to judge, by index."""

Outcomes = list[dict[int, Outcome[Verdict]]]
"""For each summary: index of an insight -> the outcome of judging it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcomes of a judge, or of a part of one, and their cost."""

    outcomes: Outcomes
    micros: int | None = 0
    """Cost in micro-dollars; None if unknown."""
    source: Source = "free"
    votes: Sequence[Sequence[str]] = ()
    """For a panel: the members' labels for each insight that all of them labelled."""

    def cost_with(self, other: Judged) -> tuple[int | None, Source]:
        """The cost of both in micro-dollars, and its source: estimated if either is."""
        micros = None if self.micros is None or other.micros is None else self.micros + other.micros
        sources = {self.source, other.source}
        return micros, "estimated" if "estimated" in sources else "spent" if "spent" in sources else "free"


@dataclass(frozen=True, slots=True)
class PanelVotes:
    """How the members of a panel agree on the insights that all of them judged."""

    members: int
    n: int
    """Insights that all members judged."""
    unanimous: int
    """Insights that all members give the same label."""
    tied: int
    """Insights without a most frequent label."""
    alpha: float | None
    """Krippendorff's alpha of the members' labels, which are ordered."""

    @classmethod
    def of(cls, votes: Sequence[Sequence[str]]) -> PanelVotes | None:
        """Count `votes`, the members' labels for each insight. None without any."""
        if not votes:
            return None
        worth = [[COVERAGE_VALUE[label] for label in labels] for labels in votes]
        alike = sum(len(set(labels)) == 1 for labels in votes)
        return cls(len(votes[0]), len(votes), alike, sum(map(is_tied, votes)), alpha([*zip(*worth, strict=True)]))


@dataclass(frozen=True)
class BenchRow:
    """The figures of one judge. Dollars are the cost of judging these summaries once, regardless of earlier payments."""

    judge: str
    figures: bench.Agreement
    usd: float | None
    usd_per_200: float | None
    usd_source: Source | None
    failures: dict[str, int]
    """Error of a failure -> the number of judgments that failed with it."""
    messages: dict[str, str] = field(default_factory=dict)
    """Error of a failure -> the message of the first one."""
    panel: PanelVotes | None = None
    """For a panel, or a judge asked several times: how its members agree."""
    bias: JudgeBias | None = field(repr=False, default=None)

    @property
    def missing(self) -> str:
        """The missing judgments in words, with the first error of a user-defined judge."""
        shown = {"judge_error": f" ({self.messages.get('judge_error')})"}
        return ", ".join(f"{count} {error}{shown.get(error, '')}" for error, count in self.failures.items())

    def to_json(self) -> dict[str, Any]:
        """The judge's entry in the JSON document."""
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
    """Calls of this run of the command: made, reused, failed."""
    usd_spent: float
    """Dollars spent on the bench so far."""
    usd_uncertain: float = 0.0
    """Maximum cost of the calls that were in flight when the run was killed."""
    held_out: bool = False
    """Whether the free judge was fitted without the topic that it judged."""
    left: Mapping[str, Any] | None = None
    """If the budget stopped it: the judgments left. Where their prompts are known, also their calls and minimum, expected and
    maximum dollars."""

    doubted: Mapping[str, str] = field(default_factory=dict)
    """Model -> why its usage is not credible."""
    warnings: tuple[str, ...] = ()
    """Other warnings, one line each."""

    @property
    def status(self) -> str:
        """done, budget (stopped by it), or partial (judgments are missing, or usage is not credible)."""
        errors = Counter(error for row in self.judges for error in row.failures)
        return "budget" if errors["budget"] else "partial" if errors or self.doubted else "done"

    @property
    def notes(self) -> list[str]:
        """All warnings, including those of doubted models, one line each."""
        return list(dict.fromkeys([*(f"{model}: {why}" for model, why in self.doubted.items()), *self.warnings]))

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay judge-bench`."""
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

    def biases(self) -> str:
        """The measured biases as JSON for `score --bias`."""
        biases = [row.bias for row in self.judges if row.bias is not None]
        return bench.biases_json(biases, "How far judges' coverage lies above people's, as judge-bench measured it; fractions.")
