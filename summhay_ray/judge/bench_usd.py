"""The estimated cost of stored predictions, for the dollars of Table 1. Part of the judge room; pure.

The release does not say what its calls cost. The estimate counts cl100k tokens of our per-insight prompt and of the answer, at
the model's price in the months of the paper (llm/paper_models.json). The paper's own prompts are worded differently.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from summhay_ray.judge.annotations import AnnotatedSummary
from summhay_ray.judge.base import Verdict
from summhay_ray.judge.prompt import Form, render, template
from summhay_ray.llm import Limits, ModelSettings
from summhay_ray.text import count_tokens

PAPER_MODELS = {
    "claude3-haiku": "claude-3-haiku-20240307",
    "claude3-opus": "claude-3-opus-20240229",
    "claude3-sonnet": "claude-3-sonnet-20240229",
    "gemini-1.5-flash": "gemini-1.5-flash-preview-0514",
    "gemini-1.5-pro": "gemini-1.5-pro-preview-0514",
    "gpt-4o": "gpt-4o-2024-05-13",
    "gpt3.5": "gpt-3.5-turbo-0125",
    "gpt4-turbo": "gpt-4-turbo-2024-04-09",
}
"""A model's name in stored predictions -> its provider's name."""

PROMPTED, FEW_SHOT = "predictions_prompted_", "predictions_9fs_"


def stored_micros(
    key: str, summaries: Sequence[AnnotatedSummary], verdicts: Sequence[Sequence[Verdict | None]], wanted: Sequence[Sequence[int]]
) -> int | None:
    """Micro-dollars for the stored predictions of the wanted insights, one call each; None where the key's model is unknown."""
    prefix = next((prefix for prefix in (PROMPTED, FEW_SHOT) if key.startswith(prefix)), "")
    model = PAPER_MODELS.get(key.removeprefix(prefix)) if prefix else None
    if model is None:
        return None
    settings = ModelSettings.written(model, {}, Limits())
    text = template(form=Form(nine=prefix == FEW_SHOT))
    total = 0
    for summary, row, places in zip(summaries, verdicts, wanted, strict=True):
        for place in places:
            prompt = render(text, summary.insights[place].text, summary.bullets)
            total += settings.expected_micros(count_tokens(prompt), _answer_tokens(row[place]))
    return total


def _answer_tokens(verdict: Verdict | None) -> int:
    if verdict is None:
        return 0
    return count_tokens(json.dumps({"coverage": verdict.coverage, "bullet_id": json.loads(verdict.bullet_id)}))
