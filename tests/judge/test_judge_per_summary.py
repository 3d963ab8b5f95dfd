"""`per_summary` end to end, with a test function as gateway: every insight has an outcome, and every cent counts once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.judge import JudgeSettings, Verdict, make_judge
from summhay_ray.judge.prompt import read
from summhay_ray.judge.strategies import divide_price
from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome, Refusal
from summhay_ray.records import Insight

pytestmark = pytest.mark.core

BULLETS = ["Walks of half an hour were recommended. [3][7]", "The app Calm was used for 15 minutes each morning. [1]"]
INSIGHTS = [Insight("h", "s", f"i{number}", number - 1, "", f"finding number {number}") for number in (1, 2, 3)]
SETTINGS = JudgeSettings("openai/gpt-4o", sampling={"temperature": 0, "max_tokens": 200})
Reply = Callable[[Request], Outcome[RawAnswer]]
NONE = {"coverage": "NO_COVERAGE", "bullet_id": "NA"}
FULL = {"coverage": "FULL_COVERAGE", "bullet_id": 2}


def answer(request: Request, content: Any, usd_micros: int = 10, finish_reason: str = "stop") -> Outcome[RawAnswer]:
    text = content if isinstance(content, str) else json.dumps(content)
    raw = RawAnswer(request.key, request.model, text, finish_reason, 100, 0, 10, usd_micros, 2)
    return Answer(raw, key=request.key, attempts=2, usd_micros=usd_micros)


def together(*verdicts: dict[str, Any] | None) -> dict[str, Any]:
    """The answer with these verdicts for insights 1, 2, ...; None leaves one out."""
    return {"judgments": [{"insight_id": number, **one} for number, one in enumerate(verdicts, 1) if one is not None]}


def judged(
    reply: Reply, settings: JudgeSettings = SETTINGS, strategy: str = "per_summary", insights: Sequence[Insight] = INSIGHTS
) -> tuple[list[Outcome[Verdict]], list[Request]]:
    asked: list[Request] = []

    async def ask(request: Request) -> Outcome[RawAnswer]:
        asked.append(request)
        return reply(request)

    return asyncio.run(make_judge(strategy).judge(insights, BULLETS, settings, ask)), asked


def test_all_insights_are_one_request_and_one_outcome_each_in_order() -> None:
    outcomes, asked = judged(
        lambda request: answer(request, together(FULL, NONE, {"coverage": "PARTIAL", "bullet_id": "bullet 1"}))
    )
    (request,) = asked
    # 10 micro-dollars for 3 insights: 4 + 3 + 3.
    assert outcomes == [
        Answer(Verdict("FULL_COVERAGE", "2"), key=request.key, attempts=2, usd_micros=4),
        Answer(Verdict("NO_COVERAGE", '"NA"'), key=request.key, attempts=2, usd_micros=3),
        Answer(Verdict("PARTIAL_COVERAGE", "1"), key=request.key, attempts=2, usd_micros=3),
    ]
    question = read(request.prompt)
    assert question.together and question.insights == tuple(insight.text for insight in INSIGHTS)
    assert question.bullets == tuple(BULLETS)
    assert dict(request.sampling) == {"temperature": 0, "max_tokens": 3 * 200}


def test_an_insight_that_is_missing_is_asked_about_alone_once() -> None:
    def reply(request: Request) -> Outcome[RawAnswer]:
        return answer(request, together(FULL, None, NONE)) if read(request.prompt).together else answer(request, FULL, 5)

    outcomes, asked = judged(reply)
    assert [read(request.prompt).insights for request in asked] == [tuple(one.text for one in INSIGHTS), (INSIGHTS[1].text,)]
    assert asked[1].sampling["max_tokens"] == 200
    _, alone = judged(lambda request: answer(request, NONE), strategy="per_insight", insights=INSIGHTS[1:2])
    assert asked[1].key == alone[0].key
    assert [(outcome.key, outcome.usd_micros) for outcome in outcomes] == [
        (asked[0].key, 4),
        (asked[1].key, 3 + 5),
        (asked[0].key, 3),
    ]


@pytest.mark.parametrize(
    "content",
    [
        "I would rather not.",
        "",
        {"judgments": []},
        {"judgments": [FULL, FULL, FULL]},
        {"judgments": [{"insight_id": number, **FULL} for number in (0, 1, 2)]},
        {"judgments": [{"id": 1, "couverture": "totale"}]},
    ],
)
def test_an_answer_that_judges_nothing_has_every_insight_asked_alone(content: Any) -> None:
    def reply(request: Request) -> Outcome[RawAnswer]:
        return answer(request, content, 7) if read(request.prompt).together else answer(request, NONE, 5)

    outcomes, asked = judged(reply)
    assert len(asked) == 1 + 3
    assert [outcome.key for outcome in outcomes] == [request.key for request in asked[1:]]
    assert sum(outcome.usd_micros for outcome in outcomes) == 7 + 3 * 5


def test_an_insight_whose_second_answer_is_malformed_too_stays_malformed() -> None:
    outcomes, asked = judged(lambda request: answer(request, "Surely covered."))
    assert len(asked) == 1 + 3
    for outcome, request in zip(outcomes, asked[1:], strict=True):
        assert isinstance(outcome, Malformed)
        assert (outcome.error, outcome.key) == ("no_json", request.key)
    assert sum(outcome.usd_micros for outcome in outcomes) == 4 * 10


@pytest.mark.parametrize(
    "outcome", [Refusal("content_filter", "filtered", "k", 1, 8), Failed("timeout", "no answer", "k", 5, 8, True)]
)
def test_no_answer_is_every_insights_and_asks_nothing_again(outcome: Refusal | Failed) -> None:
    outcomes, asked = judged(lambda request: outcome)
    assert len(asked) == 1
    assert [type(one) for one in outcomes] == [type(outcome)] * 3
    assert [(one.key, one.usd_micros) for one in outcomes] == [("k", 3), ("k", 3), ("k", 2)]


@pytest.mark.parametrize("second", [Refusal("content_filter", "filtered", "k", 1, 8), Failed("budget", "stopped", "k")])
def test_a_second_question_that_fails_is_that_insights_failure(second: Refusal | Failed) -> None:
    outcomes, _ = judged(lambda request: answer(request, together(FULL, FULL, None)) if read(request.prompt).together else second)
    assert [type(outcome) for outcome in outcomes] == [Answer, Answer, type(second)]
    assert outcomes[2].usd_micros == second.usd_micros + 3


def test_a_users_prompt_asks_again_with_itself() -> None:
    prompt = "Judge [[INSIGHTS]] by [[BULLETS]]"
    replies = iter([together(FULL, NONE, None), together(FULL)])
    outcomes, asked = judged(lambda request: answer(request, next(replies)), JudgeSettings("m", prompt, {"max_tokens": 90}))
    assert asked[0].prompt.startswith('Judge {"insights": [{"insight_id": 1, ') and "by {" in asked[0].prompt
    assert INSIGHTS[2].text in asked[1].prompt and INSIGHTS[0].text not in asked[1].prompt
    assert [request.sampling["max_tokens"] for request in asked] == [3 * 90, 90]
    assert asked[0].prompt_hash == asked[1].prompt_hash
    assert [outcome.usd_micros for outcome in outcomes] == [4, 3, 3 + 10]
    with pytest.raises(ValueError, match=r"lacks \[\[INSIGHTS\]\].*\[\[INSIGHT\]\] belongs to a judge that asks per_insight"):
        judged(lambda request: answer(request, ""), JudgeSettings("m", "Judge [[INSIGHT]] by [[BULLETS]]"))


def test_replayed_judgments_are_looked_up_one_by_one() -> None:
    outcomes, asked = judged(lambda request: answer(request, FULL), JudgeSettings("replay/gpt-4o", lookup="h/s/system"))
    assert [request.lookup for request in asked] == ["h/s/system/i1", "h/s/system/i2", "h/s/system/i3"]
    assert len(outcomes) == 3


@given(st.integers(0, 10**9), st.integers(1, 50))
def test_a_price_is_spread_without_loss(usd_micros: int, n: int) -> None:
    parts = divide_price(usd_micros, n)
    assert sum(parts) == usd_micros and max(parts) - min(parts) <= 1
