"""What a summary is worth (paper, section 5.2): ROUGE, BERTScore, and G-EVAL against each of its references."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

from summhay_ray.benchmark import Answer, Ask, ModelSpec
from summhay_ray.benchmarks.odsum.spec import BertScoreSpec, GevalSpec, OdsumSpec, RougeSpec
from summhay_ray.benchmarks.odsum.tables import RatingRow, SummaryScore
from summhay_ray.benchmarks.rating import reduced
from summhay_ray.encoders import find_at_hand, find_model
from summhay_ray.judge import Criterion, Rater, Scale, rate_text
from summhay_ray.metrics import ROUGE_TYPES, bertscore, check_bertscore, has_bertscore, rouge

CRITERIA = ("consistency", "relevance")


@functools.cache
def criterion(name: str) -> Criterion:
    """A criterion of G-EVAL, on the paper's scale of 1 to 5, in our own words: the summary is held against a reference, as the
    paper does it (section 5.2.1), not against the documents."""
    prompt = resources.files("summhay_ray.benchmarks.odsum").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    return Criterion(name, Scale(1, 5), prompt, needs=("REFERENCE", "SUMMARY"))


def prompt_hashes() -> Mapping[str, str]:
    """Criterion -> the hash of its prompt."""
    return {name: criterion(name).prompt_hash for name in CRITERIA}


def check(spec: OdsumSpec) -> None:
    """Raises ValueError or NoModel where a metric that the spec asks for cannot be computed here."""
    asked = spec.metric(BertScoreSpec)
    if asked is not None:
        if not has_bertscore():
            raise ValueError("metrics: bertscore is not installed; run: pip install 'summhay-ray[bertscore]'")
        find_at_hand(asked.bertscore)
        check_bertscore(bert_model(asked), asked.layer)


def bert_model(asked: BertScoreSpec) -> str:
    """What the model is loaded by: its folder, or its name on a hub. Raises NoModel."""
    model = find_model(asked.bertscore)
    return str(model.folder) if model.folder else asked.bertscore


async def measured(
    spec: OdsumSpec, item_id: str, text: str, references: Sequence[str], ask: Ask, sampling: Callable[[ModelSpec], dict[str, Any]]
) -> tuple[SummaryScore, list[RatingRow]]:
    """The scores of a summary and the ratings behind them; null where there is no reference. While a run is planned what costs
    no call is not computed."""
    held = [reference for reference in references if reference.strip()]
    found: dict[str, float | None] = dict.fromkeys((*ROUGE_TYPES, "bertscore", "geval"))
    if held and not ask.planning:
        if (own := spec.metric(RougeSpec)) is not None:
            found.update(rouge(text, held, own.rouge))
        if (bert := spec.metric(BertScoreSpec)) is not None:
            found["bertscore"] = await asyncio.to_thread(bertscore, text, held, bert_model(bert), bert.layer)
    ratings: list[RatingRow] = []
    if held and (geval := spec.metric(GevalSpec)) is not None:
        ratings = await _rated(geval, item_id, text, held, ask, sampling(geval.geval))
        found["geval"] = _overall(geval, ratings, len(held))
    return SummaryScore(item_id, **found), ratings


async def _rated(
    geval: GevalSpec, item_id: str, text: str, references: Sequence[str], ask: Ask, sampling: Mapping[str, Any]
) -> list[RatingRow]:
    rater = Rater(geval.geval.model, sampling, geval.samples, logprobs=geval.logprobs)

    async def one(name: str, place: int) -> RatingRow | None:
        async with ask.turn("rate", geval.geval.model, geval.geval.label):
            texts = {"REFERENCE": references[place], "SUMMARY": text}
            shown = reduced(ask, "rate", rater, criterion(name), texts, geval.extract)
            outcome = await rate_text(criterion(name), shown, rater, ask.of("rate"))
        if not isinstance(outcome, Answer):
            ask.fail("rate", outcome, judge=geval.geval.label, insight_id=f"{name}/{place}")
            return None
        rating = outcome.value
        votes = list(rating.votes)
        return RatingRow(item_id, name, place, rating.value, len(votes), float(sum(votes)), outcome.key)

    asked = [one(name, place) for name in geval.criteria for place in range(len(references))]
    return [row for row in await asyncio.gather(*asked) if row is not None]


def _overall(geval: GevalSpec, ratings: Sequence[RatingRow], n_references: int) -> float | None:
    """Of each criterion the best reference's rating, or the mean; of these the mean. None where a rating is missing."""
    if len(ratings) < len(geval.criteria) * n_references:
        return None
    values = [[row.rating for row in ratings if row.criterion == name] for name in geval.criteria]
    each = [max(found) if geval.over == "best" else sum(found) / len(found) for found in values]
    return sum(each) / len(each)
