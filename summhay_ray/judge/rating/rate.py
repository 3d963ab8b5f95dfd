"""Part of the judge room: asks a rater for a rating. Every call goes through `ask`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from summhay_ray.judge.rating.answer import ByLogprobs, expected_rating, read_rating, release_rating
from summhay_ray.judge.rating.base import Criterion, Rater, Rating, Scale
from summhay_ray.judge.rating.prompt import fill, shipped
from summhay_ray.llm import Ask, Message, RawAnswer, Request
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome

CRITERIA: Mapping[str, Criterion] = {
    name: Criterion(name, scale, shipped(f"{name}.txt"))
    for name, scale in (("consistency", Scale(1, 5)), ("relevance", Scale(1, 5)), ("faithfulness", Scale(1, 7)))
}
"""The three criteria of Extract-then-Evaluate (Wu et al., EACL 2024, appendix A) on its scales; the prompts are our own words."""


async def rate_text(
    criterion: Criterion, values: Mapping[str, str], rater: Rater, ask: Ask, compat: str = "default"
) -> Outcome[Rating]:
    """The rating of one text, or why there is none. `values`: placeholder name -> text (`SOURCE`, `SUMMARY`, ...).

    Samples that cannot be read are left out of the mean, and `Rating.n_asked` tells how many there should be; where none can be
    read the outcome is the first one's. A call that failed fails the rating: a later run asks it again. `compat="release"` reads
    as the code of Extract-then-Evaluate does: what it cannot read counts as 0. Key and attempts are the first answer's, the price
    is that of all calls.
    """
    requests = rating_requests(criterion, values, rater)
    answers = await asyncio.gather(*map(ask, requests))
    failed = next((one for one in answers if isinstance(one, Failed)), None)
    came = [one for one in answers if isinstance(one, Answer)]
    if failed is not None or not came:
        # What failed may be answered by a later run, from the samples that are there and those that are not.
        return failed or answers[0]  # type: ignore[return-value]
    first, paid = came[0], sum(one.usd_micros for one in answers)
    found = _rating(criterion.scale, [one.value for one in came], rater, compat)
    told = {"key": first.key, "attempts": first.attempts, "usd_micros": paid}
    return replace(found, **told) if isinstance(found, Malformed) else Answer(found, **told)  # type: ignore[arg-type]


def rating_requests(criterion: Criterion, values: Mapping[str, str], rater: Rater) -> list[Request]:
    """What `rate_text` asks: one request, or one a sample."""
    message = Message(rater.role, fill(criterion.prompt, values))
    calls, a_call = (1, rater.samples) if rater.one_call else (rater.samples, 1)
    return [
        Request(
            rater.model,
            [message],
            rater.sampling,
            criterion.prompt_hash,
            sample=sample,
            n=a_call,
            logprobs=rater.logprobs,
        )
        for sample in range(calls)
    ]


def _rating(scale: Scale, answers: Sequence[RawAnswer], rater: Rater, compat: str) -> Rating | Malformed:
    expected = None if rater.logprobs is None else expected_rating(answers[0].logprobs, scale)
    if isinstance(expected, ByLogprobs):
        return Rating(expected.value, "logprobs", n_asked=rater.samples, mass=expected.mass)
    texts = [(text, answer.finish_reason) for answer in answers for text in answer.texts]
    # What the paper's code reads begins with the number; the offline rater answers JSON.
    release = compat == "release" and not rater.model.startswith("offline/")
    read = [release_rating(text) if release else read_rating(text, scale, finish) for text, finish in texts]
    votes = [one for one in read if not isinstance(one, Malformed)]
    if not votes:
        return expected or next(one for one in read if isinstance(one, Malformed))
    return Rating(sum(votes) / len(votes), "samples" if rater.samples > 1 else "text", tuple(votes), rater.samples)
