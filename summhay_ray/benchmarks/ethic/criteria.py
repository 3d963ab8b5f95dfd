"""The criteria by which judges rate the summary of a section, and the calls for a rating.

The release does not include its judge prompts. Our prompts are versioned and hashed; do not compare figures from different
prompts. Consistency and relevance come from `summhay_ray.judge`. Faithfulness has the scale 1 to 5, as in the release.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources

from summhay_ray import judge
from summhay_ray.benchmark import Ask, RawAnswer
from summhay_ray.benchmarks.ethic.release_metrics import CRITERIA as NAMES
from summhay_ray.benchmarks.ethic.release_metrics import SCALE, whole_number
from summhay_ray.benchmarks.ethic.spec import EthicJudge
from summhay_ray.benchmarks.rating import values_for_rater
from summhay_ray.errors import SpecError
from summhay_ray.judge import Criterion, Rater, Rating, Scale, rate_text
from summhay_ray.outcome import Answer, Outcome

STAGE = "judge"


def criteria(prompts: Mapping[str, str]) -> dict[str, Criterion]:
    """Return the criteria con, faith and rel. `prompts`: prompts that replace ours. Raises SpecError if one lacks a
    placeholder."""
    own = json.loads(resources.files("summhay_ray.benchmarks.ethic").joinpath("criteria.json").read_text(encoding="utf-8"))
    ours = {
        "con": judge.criteria()["consistency"],
        "faith": Criterion("faithfulness", Scale(SCALE[0], SCALE[-1]), own["faith"], own["version"]),
        "rel": judge.criteria()["relevance"],
    }
    try:
        return {name: Criterion(name, ours[name].scale, prompts[name]) if name in prompts else ours[name] for name in NAMES}
    except ValueError as error:
        raise SpecError(f"spec: criteria: {error}") from error


async def rate(
    criterion: Criterion, section: str, summary: str, judge: EthicJudge, sampling: Mapping[str, object], ask: Ask
) -> Outcome[Rating]:
    """Return one rating: the expectation over log probabilities or, without them, the mean of `judge.samples` samples."""
    asked = ask.of(STAGE)
    single = Rater(judge.model, sampling, logprobs=judge.logprobs, role=judge.role)
    several = replace(
        single, sampling={**sampling, "temperature": judge.sample_temperature}, samples=judge.samples, logprobs=None
    )
    alone = judge.samples == 1 or judge.model.startswith(("offline/", "replay/"))
    first = several if judge.logprobs is None and not alone else single
    values = values_for_rater(ask, STAGE, first, criterion, {"SOURCE": section, "SUMMARY": summary}, judge.extract)
    if judge.logprobs is None and not alone:
        return await rate_text(criterion, values, several, asked)
    rated = await rate_text(criterion, values, single, asked, otherwise=None if alone else several)
    if alone or ask.planning or not isinstance(rated, Answer) or rated.value.how != "text":
        return rated
    return await rate_text(criterion, values, several, asked)


def released_value(raw: RawAnswer | None) -> float | None:
    """Return a section's rating as the release computes it: the sum of score x probability, not renormalized. None without
    log probabilities."""
    tokens = json.loads(raw.logprobs) if raw is not None and raw.logprobs else []
    if not tokens:
        return None
    scores = (
        (whole_number(str(alternative["token"])), float(alternative["logprob"]))
        for alternative in tokens[0].get("top_logprobs", ())
    )
    return math.fsum(score * math.exp(min(logprob, 0.0)) for score, logprob in scores if score in SCALE)
