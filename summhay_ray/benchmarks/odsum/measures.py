"""Metrics of a summary (paper, section 5.2): ROUGE, BERTScore, and G-EVAL against each reference."""

import asyncio
import functools
import importlib.util
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

from summhay_ray.benchmark import Ask, ModelSpec
from summhay_ray.benchmarks.odsum.spec import GEVAL, GEVAL_EXTRACT, BertScoreSpec, GevalSpec, OdsumSpec, RougeSpec
from summhay_ray.benchmarks.odsum.tables import RatingRow, SummaryScore
from summhay_ray.benchmarks.rating import ExtractSpec, rate_text
from summhay_ray.encoders import find_model, find_reachable
from summhay_ray.judge import Criterion, Rater, Scale
from summhay_ray.metrics import ROUGE_TYPES, bertscore, check_bertscore, rouge
from summhay_ray.outcome import Answer

CRITERIA = ("consistency", "relevance")


@functools.cache
def criterion(name: str) -> Criterion:
    """Return a criterion of G-EVAL on the paper's scale of 1 to 5, reworded. It rates a summary against a reference (section
    5.2.1)."""
    prompt = resources.files("summhay_ray.benchmarks.odsum").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    return Criterion(name, Scale(1, 5), prompt, needs=("REFERENCE", "SUMMARY"))


def check(spec: OdsumSpec) -> None:
    """Raise ValueError or NoModel if this machine cannot compute a metric of the spec."""
    bert = spec.metric(BertScoreSpec)
    if bert is not None:
        if importlib.util.find_spec("bert_score") is None:
            raise ValueError("metrics: bertscore is not installed; run: pip install 'summhay-ray[bertscore]'")
        find_reachable(bert.bertscore)
        check_bertscore(bert_model(bert), bert.layer)


def bert_model(bert: BertScoreSpec) -> str:
    """Return the folder of BERTScore's model, or its name on a model hub. Raises NoModel."""
    model = find_model(bert.bertscore)
    return str(model.folder) if model.folder else bert.bertscore


async def measure(
    spec: OdsumSpec, item_id: str, text: str, references: Sequence[str], ask: Ask, sampling: Callable[[ModelSpec], dict[str, Any]]
) -> tuple[SummaryScore, list[RatingRow]]:
    """Return a summary's scores and its G-EVAL ratings; scores are None without a reference. A plan runs only G-EVAL, which
    makes paid calls."""
    references = [reference for reference in references if reference.strip()]
    scores: dict[str, float | None] = dict.fromkeys((*ROUGE_TYPES, "bertscore", GEVAL, GEVAL_EXTRACT))
    if references and not ask.planning:
        if (rouge_spec := spec.metric(RougeSpec)) is not None:
            scores.update(rouge(text, references, rouge_spec.rouge, spec.script))
        if (bert := spec.metric(BertScoreSpec)) is not None:
            scores["bertscore"] = await asyncio.to_thread(bertscore, text, references, bert_model(bert), bert.layer)
    ratings: list[RatingRow] = []
    for name, geval in spec.gevals.items() if references else ():
        given = await _rate(geval, (item_id, name), text, references, ask, sampling)
        ratings += given
        # The mean over criteria of the best rating (or mean rating) over references; None if a rating is missing.
        if len(given) == len(geval.criteria) * len(references):
            values = [[row.rating for row in given if row.criterion == criterion] for criterion in geval.criteria]
            by_criterion = [max(of) if geval.over == "best" else sum(of) / len(of) for of in values]
            scores[name] = sum(by_criterion) / len(by_criterion)
    return SummaryScore(item_id, **scores), ratings


async def _rate(
    geval: GevalSpec,
    of: tuple[str, str],
    text: str,
    references: Sequence[str],
    ask: Ask,
    sampling: Callable[[ModelSpec], dict[str, Any]],
) -> list[RatingRow]:
    def settings(one: ModelSpec) -> tuple[Rater, ExtractSpec | None]:
        return Rater(one.model, sampling(one), geval.samples, logprobs=geval.logprobs), geval.extract

    async def row(name: str, place: int) -> RatingRow | None:
        texts = {"REFERENCE": references[place], "SUMMARY": text}
        outcome = await rate_text(ask, "rate", geval.geval, settings, criterion(name), texts)
        if not isinstance(outcome, Answer):
            ask.fail("rate", outcome, judge=geval.geval.label, insight_id=f"{name}/{place}")
            return None
        rating = outcome.value
        item_id, rater_name = of
        panel, samples = (rating.votes, ()) if rating.how == "panel" else ((), rating.votes)
        fields = (rating.value, len(samples), float(sum(samples)), outcome.key, rater_name, tuple(panel), tuple(rating.keys))
        return RatingRow(item_id, name, place, *fields)

    calls = [row(name, place) for name in geval.criteria for place in range(len(references))]
    return [made for made in await asyncio.gather(*calls) if made is not None]
