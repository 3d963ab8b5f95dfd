"""The contract of a judge. Imports records, outcome and llm; `judge/__init__.py` is the door for other rooms.

To add one: put one file into this folder with a class that has a `name` and the method below; a spec names it with
`judges: [{model: ..., strategy: NAME}]`, or with `strategy: my_package.my_module:MyJudge`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from summhay_ray.judge.verdict import Verdict
from summhay_ray.llm import Ask
from summhay_ray.outcome import Outcome
from summhay_ray.records import Insight

__all__ = ["Judge", "JudgeSettings", "Verdict"]


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Which model judges, with which prompt (empty for our own) and sampling parameters."""

    model: str
    prompt: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    lookup: str = ""
    """For `replay/...` alone: the released summary whose judgments are looked up."""
    asked: frozenset[str] | None = None
    """For a cascade alone: ids of the insights that its judge is asked about; None where their uncertainty decides."""


class Judge(Protocol):
    """Insights and summary in, outcomes of judgments out; every model call goes through `ask`."""

    name: ClassVar[str]

    async def judge(
        self, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings, ask: Ask
    ) -> list[Outcome[Verdict]]:
        """One outcome an insight, in the order of `insights`."""
        ...
