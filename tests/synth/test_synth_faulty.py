"""`faulty`: faults at the requested shares, only in prompts of the synthesis."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from writer_asking import listed, outline, prompt_of

from summhay_ray.llm import Request
from summhay_ray.synth import Faults, OfflineWriter, faulty
from summhay_ray.synth.checking.presence import Presence

pytestmark = pytest.mark.core

N = 100
EVERYTHING: list[str] = []
TOLD: list[str] = []
KEPT_OUT: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def _insights() -> None:
    """Insights that documents state, and others: made where they are used, not where tests are collected."""
    EVERYTHING[:] = [text for insights in outline("news").values() for text in insights]
    TOLD[:], KEPT_OUT[:] = EVERYTHING[:3], EVERYTHING[3:]


@cache
def presence() -> Presence:
    return Presence(EVERYTHING)


def honest(model: str, prompt: str) -> str:
    return OfflineWriter().answer(Request(model, prompt))


def document(number: int, **more: Any) -> str:
    fields = {"insights": listed(TOLD), "words": 150, "paraphrase": 1, "avoid": KEPT_OUT, "number": number}
    return prompt_of("document", **{**fields, **more})


def held(text: str) -> set[str]:
    findings = presence().find(text)
    return {insight for insight, finding in zip(EVERYTHING, findings, strict=True) if finding.found}


def share(counted: int) -> float:
    return counted / N


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_documents_forget_one_insight_at_the_rate_asked_for(rate: float) -> None:
    answer = faulty(honest, Faults(forget=rate))
    lacking = [len(set(TOLD) - held(answer("m", document(number)))) for number in range(N)]
    assert set(lacking) <= {0, 1} and abs(share(sum(lacking)) - rate) <= 0.06
    # A forgotten insight is one of the three, not always the same one.
    if rate == 1:
        lost = {next(iter(set(TOLD) - held(answer("m", document(number))))) for number in range(30)}
        assert lost == set(TOLD)


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_documents_state_one_insight_that_they_should_not(rate: float) -> None:
    answer = faulty(honest, Faults(extra=rate))
    found = [held(answer("m", document(number))) for number in range(N)]
    assert all(set(TOLD) <= texts for texts in found)
    extra = [len(texts - set(TOLD)) for texts in found]
    assert set(extra) <= {0, 1} and abs(share(sum(extra)) - rate) <= 0.06


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_json_answers_are_malformed_at_the_rate_asked_for(rate: float) -> None:
    answer = faulty(honest, Faults(malformed=rate))
    kinds = {"good": 0, "no json": 0, "other": 0}
    for number in range(N):
        text = answer("m", prompt_of("subtopics", n=3, number=number))
        try:
            kinds["good" if "subtopics" in json.loads(text) else "other"] += 1
        except ValueError:
            kinds["no json"] += 1
    assert abs(share(kinds["good"]) - (1 - rate)) <= 0.07
    if rate:
        assert min(kinds["no json"], kinds["other"]) > 0.2 * rate * N


def test_faults_are_the_same_for_the_same_seed_and_prompt() -> None:
    prompts = [document(number) for number in range(60)]
    runs = [[faulty(honest, Faults(0.5, 0.5, 0.5, seed))("m", prompt) for prompt in prompts] for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("fields", [{"forget": -0.1}, {"extra": 1.1}, {"malformed": float("nan")}])
def test_a_share_is_between_0_and_1(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"the share {next(iter(fields))} is .*; expected 0 to 1"):
        Faults(**fields)
