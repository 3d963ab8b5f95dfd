"""Ratings of texts on a scale of whole numbers: criteria and their prompts, raters and their calls, and `offline/rater`.

To add a criterion, write its prompt to a file and create a `Criterion` with it; no other edit is needed.

Placeholders: `[[SOURCE]]`, `[[SUMMARY]]`, `[[REFERENCE]]`, or in the spelling of released prompts: `{{article}}`, `{{document}}`,
`{{summary}}`, `{{reference}}`. Each may occur more than once.

Each text is enclosed, for example between `<source>` and `</source>` (`text.enclosed`), even if the template has no tags around
the placeholder. Our own prompts put the source first. So all prompts about a document share a prefix, which providers can cache.
"""

import asyncio
import functools
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from typing import Any, ClassVar, Literal

from summhay_ray import text
from summhay_ray.judge.rating.answer import ByLogprobs, Scale, expected_rating, read_rating
from summhay_ray.llm import Ask, Message, Request
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome
from summhay_ray.text import content_roots, sentences

_NAME = r"\[\[[A-Z_]+\]\]|\{\{\s*[A-Za-z_]+\s*\}\}"
# Match the tags around the placeholder, if the template has them.
_PLACEHOLDER = re.compile(rf"<(?P<tag>source|reference|summary)>\n(?P<within>{_NAME})\n</(?P=tag)>|{_NAME}")
_ALIASES = {"ARTICLE": "SOURCE", "DOCUMENT": "SOURCE"}
_DIGITS = 4
_SCALE = re.compile(r"whole number from (\d+) to (\d+)", re.IGNORECASE)

How = Literal["text", "samples", "logprobs", "panel"]


@dataclass(frozen=True)
class Criterion:
    """A criterion for rating a text: a scale, and the prompt that explains it.

    The prompt must contain the placeholders in `needs`, in a spelling that the module's docstring lists. Raises ValueError if one
    is missing.
    """

    name: str
    scale: Scale
    prompt: str = field(repr=False)
    version: int = 1
    """Version of the prompt, for people. Ratings by different versions must not be compared. `prompt_hash` identifies the
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
        """The sha256 (hex) of the prompt template, part of every request's key."""
        return text.text_hash(self.prompt)


@dataclass(frozen=True, slots=True)
class Rater:
    """The model that rates, and the settings for its answers.

    `samples`: the rating is the mean of this many answers, from one call if `one_call`, else from separate calls. `logprobs`: the
    number of most likely first tokens to request (1 to 20); the rating is then the mean of the scale's numbers, weighted by their
    probabilities. Without log probabilities, or if the scale has too little probability (`LEAST_MASS`), the samples are used
    instead. Raises ValueError if `samples` or `logprobs` is out of range.
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
    """On the criterion's scale: a single answer, the mean of samples, or an expected value."""
    how: How
    """How the value was obtained. `text`: read from one answer; `samples`: the mean of several; `logprobs`: the expected value
    over the first token; `panel`: the mean of several raters."""
    votes: Sequence[float] = ()
    """The ratings of the readable samples, or of the members of a panel, in order."""
    n_asked: int = 1
    """Number of requested samples. Missing and unreadable samples have no entry in `votes`."""
    mass: float | None = None
    """Total probability of the scale's numbers at the first token, 0..1; None without log probabilities."""
    keys: Sequence[str] = ()
    """For a panel, the keys of its members' raw answers."""


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace the template's placeholders by `values` (placeholder name -> text). A placeholder without a value stays."""
    named = {found[0]: _name(found) for found in _PLACEHOLDER.finditer(template)}
    blocks = {written: _enclose(name, values[name]) for written, name in named.items() if name in values}
    return text.fill(template, blocks)


def part(prompt: str, name: str) -> str | None:
    """Return the text between `<name>` and `</name>`, each on its own line, in one of our prompts; None if there is none."""
    match = re.search(rf"<{name}>\n(.*?)\n</{name}>", prompt, re.DOTALL)
    return match[1] if match else None


def _name(found: re.Match[str]) -> str:
    name = (found["within"] or found[0]).strip("[]{} \t\n").upper()
    return _ALIASES.get(name, name)


# Cached, because several criteria use the same source.
@functools.lru_cache(maxsize=256)
def _enclose(name: str, value: str) -> text.Block:
    return text.enclosed(name.lower() if name.lower() in text.NAMES else "part", value)


@functools.cache
def criteria() -> Mapping[str, Criterion]:
    """Return the three criteria of Extract-then-Evaluate (Wu et al., EACL 2024, appendix A) on its scales: `consistency`,
    `relevance` and `faithfulness`. The wording of the prompts is our own."""
    prompts = resources.files("summhay_ray.judge.rating").joinpath("prompts")
    return {
        name: Criterion(name, Scale(1, highest), prompts.joinpath(f"{name}.txt").read_text(encoding="utf-8"))
        for name, highest in (("consistency", 5), ("relevance", 5), ("faithfulness", 7))
    }


async def rate_text(
    criterion: Criterion,
    values: Mapping[str, str],
    rater: Rater,
    ask: Ask,
    compat: str = "default",
    otherwise: Rater | None = None,
) -> Outcome[Rating]:
    """Rate one text; return the rating or the failure. `values`: placeholder name -> text (`SOURCE`, `SUMMARY`, ...).

    Unreadable samples are left out of the mean; `Rating.n_asked` is the number of requested samples. If no sample is readable,
    the outcome is that of the first sample. If a call fails, the rating fails, and a later run repeats it. With
    `compat="release"`, answers are read as in the code of Extract-then-Evaluate: an unreadable one counts as 0.

    The key and the attempts are those of the first answer; the price is the sum over all calls. If the provider rejects a request
    for log probabilities, `otherwise` rates instead; its default is the same rater without log probabilities.
    """
    outcome = await _rate(criterion, values, rater, ask, compat)
    if rater.logprobs is None or not isinstance(outcome, Failed) or outcome.error != "bad_request":
        return outcome
    # Providers word this rejection differently, so any rejection has this effect. If the request is wrong in another way, the
    # second one is rejected, too, and costs nothing.
    return await _rate(criterion, values, otherwise or replace(rater, logprobs=None), ask, compat)


async def _rate(criterion: Criterion, values: Mapping[str, str], rater: Rater, ask: Ask, compat: str) -> Outcome[Rating]:
    requests = rating_requests(criterion, values, rater)
    answers = await asyncio.gather(*map(ask, requests))
    failed = next((answer for answer in answers if isinstance(answer, Failed)), None)
    arrived = [answer for answer in answers if isinstance(answer, Answer)]
    if failed is not None or not arrived:
        # A later run repeats the failed calls, then rates from all samples.
        return failed or answers[0]  # type: ignore[return-value]
    first, scale = arrived[0], criterion.scale
    expected = None if rater.logprobs is None else expected_rating(first.value.logprobs, scale)
    texts = [(text, answer.value.finish_reason) for answer in arrived for text in answer.value.texts]
    # Extract-then-Evaluate's code reads the leading digits, else 0, whatever the scale. The offline rater answers in JSON.
    if compat == "release" and not rater.model.startswith("offline/"):
        leading = [re.match(r" ?(\d+)", text) for text, _ in texts]
        read: list[float | Malformed] = [float(match[1]) if match else 0.0 for match in leading]
    else:
        read = [read_rating(text, scale, finish) for text, finish in texts]
    votes = [rating for rating in read if not isinstance(rating, Malformed)]
    rating: Rating | Malformed
    if isinstance(expected, ByLogprobs):
        rating = Rating(expected.value, "logprobs", n_asked=rater.samples, mass=expected.mass)
    elif votes:
        rating = Rating(sum(votes) / len(votes), "samples" if rater.samples > 1 else "text", tuple(votes), rater.samples)
    else:
        rating = expected or next(one for one in read if isinstance(one, Malformed))
    call = {"key": first.key, "attempts": first.attempts, "usd_micros": sum(answer.usd_micros for answer in answers)}
    return replace(rating, **call) if isinstance(rating, Malformed) else Answer(rating, **call)  # type: ignore[arg-type]


def rating_requests(criterion: Criterion, values: Mapping[str, str], rater: Rater) -> list[Request]:
    """Return the requests of `rate_text`: one, or one per sample."""
    message = Message(rater.role, fill(criterion.prompt, values))
    n_calls, samples_per_call = (1, rater.samples) if rater.one_call else (rater.samples, 1)
    return [
        Request(
            rater.model,
            [message],
            rater.sampling,
            criterion.prompt_hash,
            sample=sample,
            n=samples_per_call,
            logprobs=rater.logprobs,
        )
        for sample in range(n_calls)
    ]


class OfflineRater:
    """The local model `offline/rater` (llm.LocalModel), which needs no API key.

    It reads the same prompt as any model. Its rating is the share of the summary's words that the source contains, a baseline for
    models to beat. It has no fitted parameters, does not understand meaning, and misses a wrong figure among right words.
    """

    name: ClassVar[str] = "offline/rater"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        """Return the answer as JSON, such as `{"rating": 4, "expected": 3.6182}`, on the scale that the prompt names.

        Raises LookupError if the prompt lacks a tagged source (or reference), a tagged summary, or a scale.
        """
        prompt = request.prompt
        # If the prompt names several scales, the last one counts.
        scales = _SCALE.findall(prompt)
        source = part(prompt, "source")
        source = part(prompt, "reference") if source is None else source
        summary = part(prompt, "summary")
        if source is None or summary is None:
            raise LookupError("the prompt has no <source> and <summary>, each tag on a line; offline/rater reads between them")
        if not scales:
            raise LookupError("the prompt does not say 'a whole number from 1 to 5'; offline/rater rates on that scale")
        low, high = map(int, scales[-1])
        expected = round(low + (high - low) * support(source, summary), _DIGITS)
        return json.dumps({"rating": round(expected), "expected": expected})


def support(source: str, summary: str) -> float:
    """Return the share of a summary that its source supports, 0..1; 0 if the summary has no words.

    For each sentence, it is the mean of two shares: the share of its words that are in the source, and the share of its bigrams
    that are. The result is the mean over sentences.
    """
    known = content_roots(source)
    words, pairs = set(known), set(itertools.pairwise(known))
    shares = []
    for sentence in filter(None, map(content_roots, sentences(summary))):
        bigrams = list(itertools.pairwise(sentence))
        share = sum(word in words for word in sentence) / len(sentence)
        shares.append((share + sum(pair in pairs for pair in bigrams) / len(bigrams)) / 2 if bigrams else share)
    return sum(shares) / len(shares) if shares else 0.0
