"""The contract of a judge.

To add a judge, write a class in this folder with a `name` and the method `judge`. A spec uses it with `judges: [{model: ...,
strategy: NAME}]`, or with `strategy: my_package.my_module:MyJudge`.
"""

import json
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from summhay_ray.llm import Ask
from summhay_ray.outcome import Outcome
from summhay_ray.records import COVERAGE_VALUE, Insight


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict on one insight. `coverage` is one of records.Coverage; `bullet_id` is JSON text (3, "NA", ...).

    `value` is the expected coverage (0..1) and `uncertainty` its standard deviation, if the judge gives them. A bullet id given
    as a number or None is converted to JSON text. Raises TypeError for fields of other types.
    """

    coverage: str
    bullet_id: str
    value: float | None = None
    uncertainty: float | None = None

    def __post_init__(self) -> None:
        # A user's own judge may not be type-checked.
        if not isinstance(self.coverage, str):
            raise TypeError(f"Verdict: coverage is {self.coverage!r:.60}; expected a word such as FULL_COVERAGE")
        if not isinstance(self.bullet_id, str):
            bullet: object = self.bullet_id
            try:
                is_whole = isinstance(bullet, numbers.Integral) and not isinstance(bullet, bool)
                object.__setattr__(self, "bullet_id", str(int(bullet)) if is_whole else json.dumps(bullet))
            except (TypeError, ValueError):
                raise TypeError(f"Verdict: bullet_id is {bullet!r:.60}; expected a number or JSON text") from None
        for name in ("value", "uncertainty"):
            number = getattr(self, name)
            if number is not None and (isinstance(number, bool) or not isinstance(number, numbers.Real)):
                raise TypeError(f"Verdict: {name} is {number!r:.60}; expected a number or None")
            object.__setattr__(self, name, None if number is None else float(number))

    @property
    def expected(self) -> float:
        """The judge's value, or the value of its label (0, 0.5, 1) if it gives only a label."""
        return COVERAGE_VALUE[self.coverage] if self.value is None else self.value


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """The model that judges, its prompt (empty for the built-in one) and its sampling parameters."""

    model: str
    prompt: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    sample: int = 0
    """Index of the answer, from 0, if the same question is asked several times. It is part of the request's key."""
    lookup: str = ""
    """Only for `replay/...`: identifies the released summary whose judgments are returned."""


class Judge(Protocol):
    """Judges which insights a summary covers. It calls models only through `ask`."""

    name: ClassVar[str]

    async def judge(
        self, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings, ask: Ask
    ) -> list[Outcome[Verdict]]:
        """Return one outcome per insight, in the order of `insights`."""
        ...
