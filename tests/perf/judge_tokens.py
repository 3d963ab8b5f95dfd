"""Tokens and dollars of asking a judge about all insights of a summary at once, against one call an insight.

    python tests/perf/judge_tokens.py judge_annotations.json

Every strategy asks its real requests about the annotated summaries, and a stand-in answers as people judged. Tokens are
GPT-4o's own (o200k_base), at its price in the paper's months ($5 and $15 a million) and, for the shared beginnings of the
prompts, also at the half price that OpenAI takes since October 2024 for a beginning of 1,024 tokens and more that it has
just read.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from summhay_ray.judge import JudgeSettings, make_judge
from summhay_ray.judge.annotations import AnnotatedSummary, load_summaries
from summhay_ray.judge.prompt import read
from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Outcome

STRATEGIES = ("per_insight", "few_shot", "per_summary", "few_shot+per_summary")
INPUT, OUTPUT = 5.0, 15.0
"""Dollars a million tokens: gpt-4o-2024-05-13."""
SHORTEST, STEP = 1024, 128
"""Tokens from which on OpenAI caches a prompt's beginning, and by how many more."""
LABEL = {0.0: "NO_COVERAGE", 0.5: "PARTIAL_COVERAGE", 1.0: "FULL_COVERAGE"}


def encoding() -> Any:
    """GPT-4o's vocabulary, from the folder of litellm that bundles it."""
    found = importlib.util.find_spec("litellm")
    assert found is not None and found.origin is not None
    os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(found.origin).parent / "litellm_core_utils" / "tokenizers")
    import tiktoken

    return tiktoken.get_encoding("o200k_base")


def verdict(coverage: float, bullet: int | None) -> dict[str, Any]:
    """People's verdict as a judge would write it."""
    return {"coverage": LABEL[coverage], "bullet_id": "NA" if bullet is None else bullet}


class People:
    """`ask` that answers as people judged, and keeps what was asked and answered."""

    def __init__(self, summary: AnnotatedSummary) -> None:
        judged = zip(summary.insights, summary.coverage, summary.bullet, strict=True)
        self._verdicts = {insight.text: verdict(coverage, bullet) for insight, coverage, bullet in judged}
        self.calls: list[tuple[str, str]] = []

    async def __call__(self, request: Request) -> Outcome[RawAnswer]:
        question = read(request.prompt)
        numbered = zip(question.insight_ids, question.insights, strict=True)
        if question.together:
            judgments = [{"insight_id": number, **self._verdicts[text]} for number, text in numbered]
            answer = json.dumps({"judgments": judgments})
        else:
            answer = json.dumps(self._verdicts[question.insight])
        self.calls.append((request.prompt, answer))
        return Answer(RawAnswer(request.key, request.model, answer, "stop", 0, 0, 0, 0, 1), key=request.key)


def asked(strategy: str, summaries: list[AnnotatedSummary]) -> Iterator[tuple[str, str]]:
    """All (prompt, answer) of a strategy, summary by summary."""
    for summary in summaries:
        people = People(summary)
        outcomes = asyncio.run(make_judge(strategy).judge(summary.insights, summary.bullets, JudgeSettings("gpt-4o"), people))
        assert all(isinstance(outcome, Answer) for outcome in outcomes)
        yield from people.calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("annotations")
    summaries = load_summaries(Path(parser.parse_args().annotations))
    vocabulary = encoding()
    judged = sum(len(summary.insights) for summary in summaries)
    print(f"{len(summaries)} summaries, {judged} insights; per insight judged: tokens in (of them cached) and out; dollars")
    print(f"{'strategy':22} {'calls':>6} {'in':>8} {'cached':>8} {'out':>6} {'$/200':>8} {'cached $/200':>13}")
    for strategy in STRATEGIES:
        calls = tokens_in = tokens_out = cached = 0
        before: list[int] = []
        for prompt, answer in asked(strategy, summaries):
            tokens = vocabulary.encode_ordinary(prompt)
            same = len(os.path.commonprefix([tokens, before]))
            cached += SHORTEST + (same - SHORTEST) // STEP * STEP if same >= SHORTEST else 0
            calls, tokens_in = calls + 1, tokens_in + len(tokens)
            tokens_out += len(vocabulary.encode_ordinary(answer))
            before = tokens
        dollars = (tokens_in * INPUT + tokens_out * OUTPUT) / 1e6
        less = dollars - cached * INPUT / 2 / 1e6
        per_200 = 200 / len(summaries)
        print(
            f"{strategy:22} {calls:6} {tokens_in / judged:8.1f} {cached / judged:8.1f} {tokens_out / judged:6.1f} "
            f"{dollars * per_200:8.2f} {less * per_200:13.2f}"
        )


if __name__ == "__main__":
    main()
