"""`blend`, `cascade`, `panel`: the judges that they ask, and the outcome of each insight; no failure becomes a verdict."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from summhay_ray.judge import (
    Composed,
    JudgeSettings,
    Named,
    OfflineJudge,
    Verdict,
    blend,
    choose_uncertain,
    make_judge,
    offline,
    panel,
    parse_name,
    strategy_of,
    usable_verdict,
)
from summhay_ray.judge.prompt import read
from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome, Refusal
from summhay_ray.records import Insight

pytestmark = pytest.mark.core

BULLETS = ["one. [1]", "two. [2]", "three. [3]"]
INSIGHTS = [Insight("h", "s", f"i{number}", number - 1, "", f"finding number {number}") for number in (1, 2, 3)]
GPT = "openai/gpt-4o"
BLEND = f"blend({GPT},offline)"
FREE = [
    {"coverage": "PARTIAL_COVERAGE", "bullet_id": 1, "value": 0.4, "uncertainty": 0.4},
    {"coverage": "NO_COVERAGE", "bullet_id": "NA", "value": 0.1, "uncertainty": 0.1},
    {"coverage": "FULL_COVERAGE", "bullet_id": 3, "value": 0.9, "uncertainty": 0.2},
]
FULL_2 = '{"coverage": "FULL_COVERAGE", "bullet_id": 2}'
NO = '{"coverage": "NO_COVERAGE", "bullet_id": "NA"}'
Reply = Callable[[Request], Outcome[RawAnswer]]


def answer(request: Request, text: str, usd_micros: int = 7) -> Outcome[RawAnswer]:
    raw = RawAnswer(request.key, request.model, text, "stop", 100, 0, 10, usd_micros, 2)
    return Answer(raw, key=request.key, attempts=2, usd_micros=usd_micros)


def free_answer(request: Request) -> Outcome[RawAnswer]:
    question = read(request.prompt)
    assert question.together
    numbers = [int(text[-1]) for text in question.insights]
    judgments = [{"insight_id": place, **FREE[number - 1]} for place, number in enumerate(numbers, 1)]
    return answer(request, json.dumps({"judgments": judgments}), 0)


def judged(name: str, reply: Reply, free: Reply = free_answer) -> tuple[list[Outcome[Verdict]], list[Request]]:
    asked: list[Request] = []

    async def ask(request: Request) -> Outcome[RawAnswer]:
        asked.append(request)
        return free(request) if request.model == "offline/judge" else reply(request)

    async def ask_one(leaf: Named, some: Sequence[Insight], share: float) -> list[Outcome[Verdict]]:
        model, strategy = strategy_of(leaf)
        pinned = {"extra_body": {"revision": OfflineJudge.revision}} if model == "offline/judge" else {}
        sampling = {"max_tokens": 200, **pinned}
        return await make_judge(strategy).judge(some, BULLETS, JudgeSettings(model, sampling=sampling), ask)

    def chosen(cascade: Named, some: Sequence[Insight], uncertainties: Sequence[float] | None) -> list[int]:
        return choose_uncertain(cascade, uncertainties or ())

    composed = Composed(ask_one, lambda _, verdict: usable_verdict(verdict, len(BULLETS)), blend, panel, chosen)
    return asyncio.run(composed.judge(parse_name(name), INSIGHTS)), asked


@pytest.fixture(autouse=True)
def bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the insights have an uncertainty of 0.2 or more, a tenth 0.4."""
    monkeypatch.setattr(offline, "uncertainty_at", {0.5: 0.2, 0.1: 0.4, 0.01: 0.5}.__getitem__, raising=False)


def test_a_blend_asks_both_and_takes_their_mean() -> None:
    outcomes, asked = judged(BLEND, lambda request: answer(request, FULL_2))
    paid = [request for request in asked if request.model == "openai/gpt-4o"]
    (free,) = [request for request in asked if request.model == "offline/judge"]
    assert free.sampling["extra_body"] == {"revision": OfflineJudge.revision}
    # The judge's weight is 0.4, and the bullet is the judge's.
    values = [pytest.approx(0.4 * 1 + 0.6 * free) for free in (0.4, 0.1, 0.9)]
    labels = ["PARTIAL_COVERAGE", "PARTIAL_COVERAGE", "FULL_COVERAGE"]
    for outcome, value, label, request, uncertainty in zip(outcomes, values, labels, paid, (0.4, 0.1, 0.2), strict=True):
        assert isinstance(outcome, Answer)
        assert (outcome.value.coverage, outcome.value.bullet_id) == (label, "2")
        assert outcome.value.value == value
        assert outcome.value.uncertainty == pytest.approx(uncertainty)
        assert (outcome.key, outcome.attempts, outcome.usd_micros) == (request.key, 2, 7)


@pytest.mark.parametrize("strategy", [BLEND, f"cascade(offline,{GPT},0.1)", f"cascade(offline,{BLEND},0.1)"])
@pytest.mark.parametrize(
    ("reply", "kind", "error"),
    [
        (lambda request: answer(request, "Ganz gewiss."), Malformed, "no_json"),
        (lambda request: answer(request, FULL_2 + NO), Malformed, "two_verdicts"),
        (lambda request: Refusal("content_filter", "filtered", "k", 1, 7), Refusal, "content_filter"),
        (lambda request: Failed("timeout", "no answer", "k", 5, 7, True), Failed, "timeout"),
    ],
)
def test_a_judge_that_fails_is_a_failure_and_never_the_free_verdict(strategy: str, reply: Reply, kind: type, error: str) -> None:
    outcomes, _ = judged(strategy, reply)
    assert isinstance(outcomes[0], kind)
    assert (outcomes[0].error, outcomes[0].usd_micros) == (error, 7)  # type: ignore[union-attr]


@pytest.mark.parametrize("bullet_id", ['"NA"', "4", "0", "null", "[1, 2]"])
def test_a_blend_does_not_hide_that_its_judge_contradicts_itself(bullet_id: str) -> None:
    outcomes, asked = judged(BLEND, lambda request: answer(request, f'{{"coverage": "FULL_COVERAGE", "bullet_id": {bullet_id}}}'))
    for outcome in outcomes:
        assert isinstance(outcome, Malformed)
        assert (outcome.error, outcome.usd_micros) == ("unusable_bullet", 7) and outcome.key in {one.key for one in asked}


@pytest.mark.parametrize("strategy", [BLEND, GPT])
def test_no_coverage_by_a_bullet_is_no_verdict(strategy: str) -> None:
    outcomes, _ = judged(strategy, lambda request: answer(request, NO.replace('"NA"', "2")))
    assert [(type(one), one.error) for one in outcomes if not isinstance(one, Answer)] == [(Malformed, "unusable_bullet")] * 3


def test_a_free_judge_that_fails_is_a_failure_that_keeps_what_was_paid() -> None:
    outcomes, _ = judged(BLEND, lambda request: answer(request, FULL_2), free=lambda request: Failed("lost", "no answer"))
    assert [(type(outcome), outcome.usd_micros) for outcome in outcomes] == [(Failed, 7)] * 3


@pytest.mark.parametrize(("share", "expected"), [("0.5", [0, 2]), ("0.1", [0]), ("0.01", [])])
def test_a_cascade_asks_where_the_free_judge_is_uncertain(share: str, expected: list[int]) -> None:
    outcomes, asked = judged(f"cascade(offline,{GPT},{share})", lambda request: answer(request, FULL_2))
    paid = [request for request in asked if request.model == "openai/gpt-4o"]
    assert [read(request.prompt).insights[0] for request in paid] == [INSIGHTS[index].text for index in expected]
    for index, outcome in enumerate(outcomes):
        assert isinstance(outcome, Answer)
        if index in expected:
            assert (outcome.value, outcome.usd_micros) == (Verdict("FULL_COVERAGE", "2"), 7)
            assert outcome.key in {request.key for request in paid}
        else:
            assert (outcome.value.value, outcome.usd_micros) == (FREE[index]["value"], 0)


def test_a_cascade_of_one_call_a_summary_asks_about_the_uncertain_ones_together() -> None:
    judgments = {"judgments": [{"insight_id": number, **json.loads(FULL_2)} for number in (1, 2)]}
    outcomes, asked = judged(f"cascade(offline,per_summary({GPT}),0.5)", lambda request: answer(request, json.dumps(judgments)))
    assert [read(request.prompt).insights for request in asked[1:]] == [(INSIGHTS[0].text, INSIGHTS[2].text)]
    assert asked[1].sampling["max_tokens"] == 2 * 200
    assert [outcome.usd_micros for outcome in outcomes] == [4, 0, 3]


def test_a_free_judge_that_does_not_say_how_uncertain_it_is_is_not_guessed_for() -> None:
    def without(request: Request) -> Outcome[RawAnswer]:
        return answer(request, json.dumps({"judgments": [{"insight_id": n, **json.loads(NO)} for n in (1, 2, 3)]}), 0)

    outcomes, asked = judged(f"cascade(offline,{GPT},0.5)", lambda request: answer(request, FULL_2), free=without)
    assert len(asked) == 1
    assert [outcome.error for outcome in outcomes if isinstance(outcome, Malformed)] == ["no_uncertainty"] * 3


def test_a_panel_asks_each_member_and_takes_their_majority_and_their_mean() -> None:
    said = {"m/x": [FULL_2, FULL_2, NO], "m/y": [NO, FULL_2, '{"coverage": "PARTIAL_COVERAGE", "bullet_id": 3}']}

    def reply(request: Request) -> Outcome[RawAnswer]:
        return answer(request, said[request.model][int(read(request.prompt).insights[0][-1]) - 1])

    outcomes, asked = judged("panel(m/x,m/y,offline)", reply)
    assert Counter(request.model for request in asked) == {"m/x": 3, "m/y": 3, "offline/judge": 1}
    verdicts = [outcome.value for outcome in outcomes if isinstance(outcome, Answer)]
    # full, none, partial (0.4): a tie, and partial is nearest to (1 + 0 + 0.4) / 3. full, full, none. none, partial, full (0.9).
    assert [(verdict.coverage, verdict.bullet_id) for verdict in verdicts] == [
        ("PARTIAL_COVERAGE", "1"),
        ("FULL_COVERAGE", "2"),
        ("PARTIAL_COVERAGE", "3"),
    ]
    assert [verdict.value for verdict in verdicts] == [pytest.approx(total / 3) for total in (1 + 0.4, 1 + 1 + 0.1, 0.5 + 0.9)]
    # Law of total variance: the mean of 0, 0, 0.4 squared, and the variance of 1, 0, 0.4.
    assert verdicts[0].uncertainty == pytest.approx((0.16 / 3 + (1 + 0.16) / 3 - (1.4 / 3) ** 2) ** 0.5)
    assert [outcome.usd_micros for outcome in outcomes] == [14] * 3


def test_a_member_that_fails_is_the_panels_failure_and_is_named() -> None:
    outcomes, _ = judged("panel(m/x,offline)", lambda request: Refusal("content_filter", "filtered", "k", 1, 7))
    assert [(type(one), getattr(one, "message", "")) for one in outcomes] == [(Refusal, "m/x: filtered")] * 3
