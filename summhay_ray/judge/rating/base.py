"""The types of a rating (scale, criterion, rater), and its prompts.

To add a criterion, write its prompt to a file and create a `Criterion` with it; no other edit is needed.

Placeholders: `[[SOURCE]]`, `[[SUMMARY]]`, `[[REFERENCE]]`, or in the spelling of released prompts: `{{article}}`, `{{document}}`,
`{{summary}}`, `{{reference}}`. Each may occur repeatedly.

Each text is enclosed, for example between `<source>` and `</source>` (`text.enclosed`), even if the template has no tags around
the placeholder. Our own prompts put the source first, so that all prompts about a document share a prefix that providers can
cache.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from summhay_ray import text

_NAME = r"\[\[[A-Z_]+\]\]|\{\{\s*[A-Za-z_]+\s*\}\}"
# Include the tags around it, if the template has them.
_PLACEHOLDER = re.compile(rf"<(?P<tag>source|reference|summary)>\n(?P<within>{_NAME})\n</(?P=tag)>|{_NAME}")
_ALIASES = {"ARTICLE": "SOURCE", "DOCUMENT": "SOURCE"}
_SCALE = re.compile(r"whole number from (\d+) to (\d+)", re.IGNORECASE)

How = Literal["text", "samples", "logprobs", "panel"]


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
    """A criterion for rating a text: a scale, and the prompt that explains it.

    The prompt must contain the placeholders in `needs` (spelled as above). Raises ValueError, in one line, if
    one is missing.
    """

    name: str
    scale: Scale
    prompt: str = field(repr=False)
    version: int = 1
    """Version of the prompt, for people: ratings by different versions must not be compared. `prompt_hash` identifies the
    prompt."""
    needs: tuple[str, ...] = ("SOURCE", "SUMMARY")
    """Names of the placeholders that the prompt must contain."""

    def __post_init__(self) -> None:
        present = {_name(match) for match in _PLACEHOLDER.finditer(self.prompt)}
        if missing := [f"[[{name}]]" for name in self.needs if name not in present]:
            what = " and ".join(missing)
            raise ValueError(f"the prompt of {self.name} lacks {what}; write each where its text belongs")

    @cached_property
    def prompt_hash(self) -> str:
        """sha256 (hex) of the prompt template: part of every request's key."""
        return text.text_hash(self.prompt)


@dataclass(frozen=True, slots=True)
class Rater:
    """The model that rates, and the settings for its answers.

    `samples`: the number of answers whose mean is the rating; they come from one call if `one_call`, else from separate calls.
    `logprobs`: the number of most likely first tokens to request (1 to 20); the rating is then the mean of the scale's numbers,
    weighted by their probabilities. Without log probabilities, or if the scale has too little probability (`LEAST_MASS`), the
    samples are used instead. Raises ValueError if `samples` or `logprobs` is out of range.
    """

    model: str
    sampling: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 1
    one_call: bool = True
    """False for a provider that returns a single answer per call, regardless of `n`."""
    logprobs: int | None = None
    role: Literal["user", "system"] = "user"
    """Role of the single message. The underlying papers send the whole prompt as a system message."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"rater {self.model}: samples is {self.samples}; expected at least 1")
        if self.logprobs is not None and not 1 <= self.logprobs <= 20:
            raise ValueError(f"rater {self.model}: logprobs is {self.logprobs}; expected 1 to 20")


@dataclass(frozen=True, slots=True)
class Rating:
    """A rating, and how it was obtained."""

    value: float
    """On the criterion's scale: a single answer, the mean of samples, or an expectation."""
    how: How
    """`text`: read from one answer; `samples`: the mean of several; `logprobs`: the expectation over the first token;
    `panel`: the mean of several raters."""
    votes: Sequence[float] = ()
    """The ratings of the readable samples, or of the members of a panel, in order."""
    n_asked: int = 1
    """Number of requested samples. `votes` lacks missing and unreadable ones."""
    mass: float | None = None
    """Total probability of the scale's numbers at the first token, 0..1; None without log probabilities."""
    keys: Sequence[str] = ()
    """For a panel, the keys of its members' raw answers."""


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with its placeholders replaced by `values` (placeholder name -> text); a placeholder without a value stays."""
    named = {found[0]: _name(found) for found in _PLACEHOLDER.finditer(template)}
    blocks = {written: _enclosed(name, values[name]) for written, name in named.items() if name in values}
    return text.fill(template, blocks)


def part(prompt: str, name: str) -> str | None:
    """The text between `<name>` and `</name>`, each on its own line, of one of our prompts; None if there is none."""
    match = re.search(rf"<{name}>\n(.*?)\n</{name}>", prompt, re.DOTALL)
    return match[1] if match else None


def scale_in(prompt: str) -> tuple[int, int] | None:
    """(low, high) of the last scale that a prompt names ("a whole number from 1 to 5"); None if it names none."""
    scales = _SCALE.findall(prompt)
    return (int(scales[-1][0]), int(scales[-1][1])) if scales else None


def _name(found: re.Match[str]) -> str:
    name = (found["within"] or found[0]).strip("[]{} \t\n").upper()
    return _ALIASES.get(name, name)


# Cached, because several criteria use one source.
@functools.lru_cache(maxsize=256)
def _enclosed(name: str, value: str) -> text.Block:
    return text.enclosed(name.lower() if name.lower() in text.NAMES else "part", value)
