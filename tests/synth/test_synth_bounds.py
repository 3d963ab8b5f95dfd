"""The bounds of a haystack's calls: they equal the arithmetic, and runs with any faults stay within them."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synth_world import SMALL, domain

from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Outcome
from summhay_ray.synth import (
    Bounds,
    CallTotals,
    Difficulty,
    ModelAsker,
    OfflineWriter,
    Shape,
    Synthesized,
    Topic,
    TopicRecipe,
    Unverified,
    bounds,
    load_domain,
    synthesize,
)
from summhay_ray.synth.making.asking import GROUP_OF
from summhay_ray.text import count_tokens

pytestmark = pytest.mark.core

LONGEST = 2000
TOPIC = Topic("t", "The rebuilding of a harbour railway", context=("A seed of an idea. " * 20,))


class Faulty:
    """The offline writer behind a gateway that counts calls and replaces a share of the answers by empty, short or wrong ones."""

    def __init__(self, rate: float, seed: int) -> None:
        self.rate, self.seed, self.writer = rate, seed, OfflineWriter()
        self.calls: Counter[str] = Counter()
        self.tokens: Counter[tuple[str, str]] = Counter()
        self.keys: set[str] = set()

    async def ask(self, request: Request) -> Outcome[RawAnswer]:
        task = json.loads(request.prompt.rpartition("\n")[2])["task"]
        chance = random.Random(f"{self.seed} {request.key}")
        text = self.writer.answer(request)
        if chance.random() < self.rate:
            text = chance.choice(["", "No.", self.worse(task, text, request)])
        if request.key not in self.keys:
            self.keys.add(request.key)
            self.calls[GROUP_OF[task]] += 1
            self.tokens[GROUP_OF[task], "in"] += count_tokens(request.prompt)
            self.tokens[GROUP_OF[task], "out"] += count_tokens(text)
        return Answer(RawAnswer(request.key, request.model, text, "stop", 1, 0, 1, 3, 1), request.key, 1, 3)

    def worse(self, task: str, text: str, request: Request) -> str:
        """A wrong answer of the right form: half a text, a leaking query, a vague insight, a duplicate, or only the first id."""
        if task in ("document", "chapter", "edit_document"):
            return text[: len(text) // 2] + "."
        if task == "query":
            return json.dumps({"query": json.loads(request.prompt.rpartition("\n")[2])["avoid"][0]})
        if task == "insights":
            entries = json.loads(text)["insights"]
            return json.dumps({"insights": [{"name": "vague", "insight": "Things went well."}, *entries[1:]]})
        if task == "subtopics":
            entries = json.loads(text)["subtopics"]
            return json.dumps({"subtopics": [*entries[:-1], entries[0]]})
        return text.replace("2", "1").replace("3", "1")


def run(faulty: Faulty, checked: bool, **changes: Any) -> tuple[Synthesized | Unverified, dict[Any, Bounds]]:
    job = TopicRecipe(**{"cell_id": "c", "topic": TOPIC, "domain": domain(), "shape": SMALL, "seed": faulty.seed, **changes})
    groups = ["outline", "write", *(["check"] if checked else [])]
    models: Any = dict.fromkeys(groups, "offline/writer")
    asker = ModelAsker(dict.fromkeys(models, faulty.ask), job.domain, models, {})
    result = asyncio.run(synthesize(job, asker))
    return result, dict(bounds(job.topic, job.domain, job.shape, job.difficulty, checked, LONGEST))


RATES = st.sampled_from([0.0, 0.02, 0.1, 0.3])
DIFFICULTIES = st.builds(
    Difficulty,
    documents_per_insight=st.none() | st.just(3),
    least=st.integers(1, 3),
    paraphrase=st.integers(0, 3),
    distractors=st.integers(0, 2),
    conflicts=st.integers(0, 2),
    cross_references=st.sampled_from([0, 0.5]),
)


@settings(max_examples=4)
@given(RATES, st.booleans(), st.sampled_from(["whole", "chapters"]), DIFFICULTIES, st.integers(0, 999))
def test_runs_with_faults_stay_within_the_bounds(
    rate: float, checked: bool, method: str, difficulty: Difficulty, seed: int
) -> None:
    faulty = Faulty(rate, seed)
    own = domain(method, tries=2, rounds=2, outline_rounds=2)
    result, bound = run(faulty, checked, domain=own, difficulty=difficulty)
    for group, one in bound.items():
        spent = CallTotals(faulty.calls[group], faulty.tokens[group, "in"], faulty.tokens[group, "out"])
        assert spent.calls <= one.most.calls
        assert spent.input_tokens <= one.most.input_tokens and spent.output_tokens <= one.most.output_tokens
        if isinstance(result, Synthesized):
            assert spent.calls >= one.least.calls
            assert spent.input_tokens >= one.least.input_tokens and spent.output_tokens >= one.least.output_tokens
    if rate == 0:
        assert isinstance(result, Synthesized)
    if isinstance(result, Synthesized):
        assert result.raw["topic_metadata"]["synthesis"]["usd_micros"] == 3 * len(faulty.keys)
    else:
        assert result.error and result.message and result.usd_micros == 3 * len(faulty.keys)


def calls(bound: Bounds) -> tuple[int, int, int]:
    return bound.least.calls, bound.expected.calls, bound.most.calls


def test_the_bounds_of_a_news_haystack_by_arithmetic() -> None:
    found = bounds(TOPIC, load_domain("news"), Shape(9, 7, 100, 750), Difficulty(), True, LONGEST)
    # Least: one call for the subtopics, and the rounds that leave 5 of 9: 3 more, and 5 for insights and 5 for queries.
    # Most: 4 rounds of 1 for subtopics, 9 for insights and 9 for queries, each call 3 times.
    assert calls(found["outline"])[::2] == (1 + 3 + 5 + 5, 3 * 4 * (1 + 9 + 9))
    # Most: 100 documents 3 times, with 5 edits of each in all, each call 3 times.
    assert calls(found["write"])[::2] == (100, 3 * 100 * (3 + 5))
    # Most: 4 rounds of overlaps, of duplicates, of assigning 63 insights, of 9 leaks; each text of a document is checked.
    assert calls(found["check"])[::2] == (0, 3 * (4 * (1 + 1 + 63 + 9) + 100 * (3 + 5)))
    assert all(least <= expected <= most for least, expected, most in map(calls, found.values()))
