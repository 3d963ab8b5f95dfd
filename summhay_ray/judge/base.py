"""The contract of a judge. Part of the judge room.

To add one: put a file into this folder with a class that has a `name` and the method below. A spec uses it with
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
    """The model that judges, its prompt (empty for the built-in one) and its sampling parameters."""

    model: str
    prompt: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    lookup: str = ""
    """Only for `replay/...`: the released summary whose judgments are looked up."""
    asked: frozenset[str] | None = None
    """Only for a cascade: ids of the insights that its judge is asked about; None where their uncertainty decides."""


class Judge(Protocol):
    """Turns insights and a summary into verdicts. Every model call goes through `ask`."""

    name: ClassVar[str]

    async def judge(
        self, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings, ask: Ask
    ) -> list[Outcome[Verdict]]:
        """One outcome per insight, in the order of `insights`."""
        ...
