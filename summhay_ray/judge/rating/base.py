"""Part of the judge room: what is rated and by whom. Imports nothing of the room but prompts.

To add a criterion, write its prompt to a file and make a `Criterion` of it; no other edit is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from summhay_ray.judge.rating.prompt import check, template_hash

How = Literal["text", "samples", "logprobs"]


@dataclass(frozen=True, slots=True)
class Scale:
    """Whole numbers from `low` to `high`, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise ValueError(f"the scale is {self.low} to {self.high}; expected whole numbers from 0 on, the lower first")

    def __contains__(self, rating: object) -> bool:
        return isinstance(rating, int | float) and self.low <= rating <= self.high

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


@dataclass(frozen=True)
class Criterion:
    """What a text is rated for: a scale, and the prompt that explains it.

    The prompt has the placeholders that `needs` names (`prompt.py` lists their spellings). Raises ValueError, in one line, where
    it lacks one.
    """

    name: str
    scale: Scale
    prompt: str = field(repr=False)
    version: int = 1
    """Of the prompt, for people: ratings by different versions are not compared. The hash identifies it."""
    needs: tuple[str, ...] = ("SOURCE", "SUMMARY")
    """Names of the placeholders without which the prompt would not show what is rated."""

    def __post_init__(self) -> None:
        check(self.prompt, self.needs, f"the prompt of {self.name}")

    @cached_property
    def prompt_hash(self) -> str:
        """sha256 (hex) of the prompt's template: part of every request's key."""
        return template_hash(self.prompt)


@dataclass(frozen=True, slots=True)
class Rater:
    """Which model rates, and how its rating is made of what it answers.

    `samples` above 1: the mean of as many answers, of one call where `one_call`, else of as many calls. `logprobs`: the mean of
    the scale's numbers, each weighted by its probability as the answer's first token; so many of the likeliest tokens are asked
    for (1 to 20). Where a provider gives none, or they hardly speak of the scale (`LEAST_MASS`), the samples are read instead.
    Raises ValueError for impossible numbers.
    """

    model: str
    sampling: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 1
    one_call: bool = True
    """False for a provider that gives one answer a call, whatever it is asked for."""
    logprobs: int | None = None
    role: Literal["user", "system"] = "user"
    """Of the one message; the papers that this follows write the whole prompt as a system message."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"rater {self.model}: samples is {self.samples}; expected at least 1")
        if self.logprobs is not None and not 1 <= self.logprobs <= 20:
            raise ValueError(f"rater {self.model}: logprobs is {self.logprobs}; expected 1 to 20")


@dataclass(frozen=True, slots=True)
class Rating:
    """A rating, and what it stands on."""

    value: float
    """On the criterion's scale: a whole number, a mean of samples, or an expectation."""
    how: How
    """`text`: one answer that was read; `samples`: the mean of several; `logprobs`: the expectation over the first token."""
    votes: Sequence[float] = ()
    """What each sample said that could be read, in order."""
    n_asked: int = 1
    """Samples that were asked for; those that did not come or could not be read are not among the votes."""
    mass: float | None = None
    """Probability that the log probabilities give to the scale's numbers together, 0..1; None without log probabilities."""
