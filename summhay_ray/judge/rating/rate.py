"""Gets a rating from a rater. Every call goes through `ask`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources

from summhay_ray.judge.rating.answer import ByLogprobs, expected_rating, read_rating, release_rating
from summhay_ray.judge.rating.base import Criterion, Rater, Rating, Scale, fill
from summhay_ray.llm import Ask, Message, RawAnswer, Request
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome

_PROMPTS = resources.files("summhay_ray.judge.rating").joinpath("prompts")
CRITERIA: Mapping[str, Criterion] = {
    name: Criterion(name, scale, _PROMPTS.joinpath(f"{name}.txt").read_text(encoding="utf-8"))
    for name, scale in (("consistency", Scale(1, 5)), ("relevance", Scale(1, 5)), ("faithfulness", Scale(1, 7)))
}
"""The three criteria of Extract-then-Evaluate (Wu et al., EACL 2024, appendix A) on its scales. The wording of the prompts is our
own."""


async def rate_text(
    criterion: Criterion,
    values: Mapping[str, str],
    rater: Rater,
    ask: Ask,
    compat: str = "default",
    otherwise: Rater | None = None,
) -> Outcome[Rating]:
    """The rating of one text, or the failure. `values`: placeholder name -> text (`SOURCE`, `SUMMARY`, ...).

    Unreadable samples are left out of the mean; `Rating.n_asked` is the number of requested samples. If no sample is readable,
    the outcome is the first sample's. If a call fails, the rating fails, and a later run repeats it. `compat="release"` reads
    answers like the code of Extract-then-Evaluate: an unreadable one counts as 0. Key and attempts are those of the first answer;
    the price is the sum over all calls. If the provider rejects a request for log probabilities, the rater `otherwise` is used;
    by default the same rater without them.
    """
    outcome = await _rated(criterion, values, rater, ask, compat)
    if rater.logprobs is None or not isinstance(outcome, Failed) or outcome.error != "bad_request":
        return outcome
    # Providers word the rejection differently, so any rejection leads here. If the request is wrong in another way, this one is
    # rejected, too, and costs nothing.
    return await _rated(criterion, values, otherwise or replace(rater, logprobs=None), ask, compat)


async def _rated(criterion: Criterion, values: Mapping[str, str], rater: Rater, ask: Ask, compat: str) -> Outcome[Rating]:
    requests = rating_requests(criterion, values, rater)
    answers = await asyncio.gather(*map(ask, requests))
    failed = next((answer for answer in answers if isinstance(answer, Failed)), None)
    arrived = [answer for answer in answers if isinstance(answer, Answer)]
    if failed is not None or not arrived:
        # A later run repeats the failed calls, and then rates from all samples.
        return failed or answers[0]  # type: ignore[return-value]
    first, usd_micros = arrived[0], sum(answer.usd_micros for answer in answers)
    rating = _rating(criterion.scale, [answer.value for answer in arrived], rater, compat)
    call = {"key": first.key, "attempts": first.attempts, "usd_micros": usd_micros}
    return replace(rating, **call) if isinstance(rating, Malformed) else Answer(rating, **call)  # type: ignore[arg-type]


def rating_requests(criterion: Criterion, values: Mapping[str, str], rater: Rater) -> list[Request]:
    """The requests of `rate_text`: one, or one per sample."""
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


def _rating(scale: Scale, answers: Sequence[RawAnswer], rater: Rater, compat: str) -> Rating | Malformed:
    expected = None if rater.logprobs is None else expected_rating(answers[0].logprobs, scale)
    if isinstance(expected, ByLogprobs):
        return Rating(expected.value, "logprobs", n_asked=rater.samples, mass=expected.mass)
    texts = [(text, answer.finish_reason) for answer in answers for text in answer.texts]
    # The paper's code expects the number first; the offline rater answers in JSON.
    release = compat == "release" and not rater.model.startswith("offline/")
    read = [release_rating(text) if release else read_rating(text, scale, finish) for text, finish in texts]
    votes = [rating for rating in read if not isinstance(rating, Malformed)]
    if not votes:
        return expected or next(rating for rating in read if isinstance(rating, Malformed))
    return Rating(sum(votes) / len(votes), "samples" if rater.samples > 1 else "text", tuple(votes), rater.samples)
