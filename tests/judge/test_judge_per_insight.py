"""`per_insight` end to end, with a test function as gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from summhay_ray.judge import JudgeSettings, Verdict, make_judge
from summhay_ray.judge.strategies import PerInsight
from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome, Refusal
from summhay_ray.plugins import UnknownName
from summhay_ray.records import Insight

pytestmark = pytest.mark.core

BULLETS = ["Walks of half an hour were recommended. [3][7]", "The app Calm was used for 15 minutes each morning. [1]"]
INSIGHTS = [
    Insight("h", "s", "i1", 0, "calm", "A student uses the app Calm for 15 minutes each morning."),
    Insight("h", "s", "i2", 1, "breathing", "Ten deep breaths before every exam lower one student's pulse."),
]


def answer(request: Request, text: str, finish_reason: str = "stop") -> Outcome[RawAnswer]:
    raw = RawAnswer(request.key, request.model, text, finish_reason, 100, 0, 10, 7, 2)
    return Answer(raw, key=request.key, attempts=2, usd_micros=7)


Reply = Callable[[Request], Outcome[RawAnswer]]


def judged(reply: Reply, settings: JudgeSettings) -> tuple[list[Outcome[Verdict]], list[Request]]:
    asked: list[Request] = []

    async def ask(request: Request) -> Outcome[RawAnswer]:
        asked.append(request)
        return reply(request)

    return asyncio.run(make_judge().judge(INSIGHTS, BULLETS, settings, ask)), asked


def test_every_insight_is_one_request_and_one_outcome_in_order() -> None:
    replies = {"Calm": '{"coverage": "FULL_COVERAGE", "bullet_id": 2}', "breaths": '{"coverage": "NO_COVERAGE"}'}
    settings = JudgeSettings("openai/gpt-4o", sampling={"temperature": 0})

    def reply(request: Request) -> Outcome[RawAnswer]:
        insight = request.prompt.rpartition("Reference Insight:")[2]
        return answer(request, next(text for word, text in replies.items() if word in insight))

    outcomes, asked = judged(reply, settings)
    assert outcomes == [
        Answer(Verdict("FULL_COVERAGE", "2"), key=asked[0].key, attempts=2, usd_micros=7),
        Answer(Verdict("NO_COVERAGE", "null"), key=asked[1].key, attempts=2, usd_micros=7),
    ]
    assert [request.model for request in asked] == ["openai/gpt-4o"] * 2
    assert [dict(request.sampling) for request in asked] == [{"temperature": 0}] * 2
    assert [request.lookup for request in asked] == ["", ""]
    assert asked[0].prompt_hash == asked[1].prompt_hash and len(asked[0].prompt_hash) == 64


def test_the_lookup_names_summary_and_insight() -> None:
    settings = JudgeSettings("replay/gpt-4o", lookup="h/s/system")
    _, asked = judged(lambda request: answer(request, "{}"), settings)
    assert [request.lookup for request in asked] == ["h/s/system/i1", "h/s/system/i2"]


def test_a_users_prompt_is_used_and_is_another_request() -> None:
    def reply(request: Request) -> Outcome[RawAnswer]:
        return answer(request, '{"coverage": "NO_COVERAGE"}')

    _, ours = judged(reply, JudgeSettings("m"))
    _, theirs = judged(reply, JudgeSettings("m", prompt="Judge [[INSIGHT]] by [[BULLETS]]"))
    assert theirs[0].prompt.startswith(f"Judge {INSIGHTS[0].text} by " + '{"bullets": [{"bullet_id": 1, ')
    assert ours[0].prompt_hash != theirs[0].prompt_hash


def test_an_unreadable_answer_is_malformed_with_its_key_and_price() -> None:
    outcomes, asked = judged(lambda request: answer(request, "Surely covered."), JudgeSettings("m"))
    for outcome, request in zip(outcomes, asked, strict=True):
        assert isinstance(outcome, Malformed)
        assert (outcome.error, outcome.key, outcome.attempts, outcome.usd_micros) == ("no_json", request.key, 2, 7)


def test_an_unusable_bullet_is_still_an_answer_for_scoring_to_decide() -> None:
    text = '{"coverage": "FULL_COVERAGE", "bullet_id": "NA"}'
    outcomes, _ = judged(lambda request: answer(request, text), JudgeSettings("m"))
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Answer)] == [Verdict("FULL_COVERAGE", '"NA"')] * 2


@pytest.mark.parametrize("outcome", [Refusal("content_filter", "filtered", "k"), Failed("timeout", "no answer", "k", 5, 0, True)])
def test_no_answer_comes_back_as_it_is(outcome: Refusal | Failed) -> None:
    outcomes, _ = judged(lambda request: outcome, JudgeSettings("m"))
    assert outcomes == [outcome, outcome]


def test_all_calls_of_a_summary_are_in_flight_together() -> None:
    async def run() -> list[Outcome[Verdict]]:
        together = asyncio.Barrier(len(INSIGHTS))

        async def ask(request: Request) -> Outcome[RawAnswer]:
            await together.wait()
            return answer(request, '{"coverage": "NO_COVERAGE", "bullet_id": "NA"}')

        async with asyncio.timeout(60):
            return await PerInsight().judge(INSIGHTS, BULLETS, JudgeSettings("m"), ask)

    assert len(asyncio.run(run())) == len(INSIGHTS)


def test_few_shot_asks_the_same_after_nine_examples() -> None:
    def asked_by(strategy: str) -> list[Request]:
        asked: list[Request] = []

        async def ask(request: Request) -> Outcome[RawAnswer]:
            asked.append(request)
            return answer(request, '{"coverage": "FULL_COVERAGE", "bullet_id": [2], "value": 0.9}')

        outcomes = asyncio.run(make_judge(strategy).judge(INSIGHTS, BULLETS, JudgeSettings("m"), ask))
        assert [outcome.value for outcome in outcomes if isinstance(outcome, Answer)] == [Verdict("FULL_COVERAGE", "2", 0.9)] * 2
        return asked

    one, nine = asked_by("per_insight"), asked_by("few_shot")
    for short, long in zip(one, nine, strict=True):
        assert short.prompt_hash != long.prompt_hash
        assert short.prompt[short.prompt.index("Now judge") :] == long.prompt[long.prompt.index("Now judge") :]
    with pytest.raises(ValueError, match=r"lacks \[\[FEW_SHOT_EXAMPLES\]\]"):
        asyncio.run(make_judge("few_shot").judge(INSIGHTS, BULLETS, JudgeSettings("m", "[[INSIGHT]] [[BULLETS]]"), None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("per_insigt", "did you mean 'per_insight'"),
        ("offline/judge", "per_insight"),
        ("summhay_ray.judge.offline:OfflineJudge", "has no method `judge`"),
        ("no_such_module:Judge", "module:Class"),
    ],
)
def test_what_is_no_judge_is_refused(strategy: str, message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        make_judge(strategy)
