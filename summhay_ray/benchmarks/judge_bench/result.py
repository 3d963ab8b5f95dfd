"""What `judge-bench` measured: agreement of judges with people, bias, dollars (paper, Tables 1 and 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from summhay_ray.benchmark import Outcome
from summhay_ray.judge import Verdict, bench
from summhay_ray.metrics import JudgeBias

Source = Literal["free", "estimated", "spent"]

Wanted = Sequence[Sequence[int]]
"""Which insights of each summary are to be judged, by their places."""

Outcomes = list[dict[int, Outcome[Verdict]]]
"""Of each summary, place of an insight -> what became of judging it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge, or a part of one, gave, and what that costs: None where nobody knows."""

    outcomes: Outcomes
    micros: int | None = 0
    source: Source = "free"

    def cost_with(self, other: Judged) -> tuple[int | None, Source]:
        """Micro-dollars of both, and how they are known: estimated where either is."""
        micros = None if self.micros is None or other.micros is None else self.micros + other.micros
        sources = {self.source, other.source}
        return micros, "estimated" if "estimated" in sources else "spent" if "spent" in sources else "free"


@dataclass(frozen=True)
class BenchRow:
    """One judge's figures; dollars are of judging these summaries once, whatever was paid before."""

    judge: str
    figures: bench.Agreement
    usd: float | None
    usd_per_200: float | None
    usd_source: Source | None
    failures: dict[str, int]
    """Class of a failure -> how many judgments it cost."""
    messages: dict[str, str] = field(default_factory=dict)
    """Class of a failure -> what the first of them said."""
    bias: JudgeBias | None = field(repr=False, default=None)

    @property
    def missing(self) -> str:
        """Which judgments are missing, in words: with what a person's own judge raised first."""
        said = {"judge_error": f" ({self.messages.get('judge_error')})"}
        return ", ".join(f"{count} {error}{said.get(error, '')}" for error, count in self.failures.items())

    def to_json(self) -> dict[str, Any]:
        """The judge's entry in the JSON document."""
        costs = {name: getattr(self, name) for name in ("usd", "usd_per_200", "usd_source")}
        return {"judge": self.judge, **asdict(self.figures), **costs, "failures": self.failures, "messages": self.messages}


@dataclass(frozen=True)
class BenchResult:
    """What `judge-bench` measured."""

    n_summaries: int
    n_insights: int
    judges: list[BenchRow]
    calls: dict[str, int]
    """Of this time: made, reused, failed."""
    usd_spent: float
    """Dollars that the bench has cost so far."""
    held_out: bool = False
    """Whether the free judge was fitted without the topic that it judged."""
    left: Mapping[str, Any] | None = None
    """Where the budget stopped it, what is left: judgments, and as far as their prompts are known calls, and their dollars at
    least, expected and at most."""

    doubted: Mapping[str, str] = field(default_factory=dict)
    """Model -> why its usage is not credible."""
    warnings: tuple[str, ...] = ()
    """What else people should know, a line each."""

    @property
    def status(self) -> str:
        """done, budget (stopped at it), or partial (judgments are missing, or usage is not credible)."""
        errors = Counter(error for row in self.judges for error in row.failures)
        return "budget" if errors["budget"] else "partial" if errors or self.doubted else "done"

    @property
    def notes(self) -> list[str]:
        """Warnings for people, a line each, models that are doubted among them."""
        return list(dict.fromkeys([*(f"{model}: {why}" for model, why in self.doubted.items()), *self.warnings]))

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay judge-bench`."""
        counts = {"n_summaries": self.n_summaries, "n_insights": self.n_insights}
        money = {"calls": self.calls, "usd_spent": self.usd_spent}
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
        """The measured biases as a file that `score --bias` reads."""
        found = [row.bias for row in self.judges if row.bias is not None]
        return bench.biases_json(found, "How far judges' coverage lies above people's, as judge-bench measured it; fractions.")
