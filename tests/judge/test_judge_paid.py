"""`per_summary` through the real gateway, ledger and log: its outcomes cost what was spent, and nothing is paid for twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_provider import FakeProvider, Reply, fake_provider
from gateway_room import KEY, KEY_ENV, MODEL, Room, close_all, settings_of

from summhay_ray.judge import JudgeSettings, Verdict, make_judge
from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.records import Insight

pytestmark = pytest.mark.core

BULLETS = ["Walks of half an hour were recommended. [3][7]"]
INSIGHTS = [Insight("h", "s", f"i{number}", number - 1, "", f"finding number {number}") for number in (1, 2, 3)]
TWO_OF_THREE = {"judgments": [{"insight_id": number, "coverage": "FULL_COVERAGE", "bullet_id": 1} for number in (1, 3)]}
ALONE = {"coverage": "NO_COVERAGE", "bullet_id": "NA"}


def reply(content: object, prompt_tokens: int, completion_tokens: int) -> Reply:
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return Reply(json.dumps(content), usage={**usage, "total_tokens": sum(usage.values())})


# At $2 and $10 per million tokens: 1000 * 2 + 500 * 10 = 7000 and 900 * 2 + 30 * 10 = 2100 micro-dollars.
REPLIES = [reply(TWO_OF_THREE, 1000, 500), reply(ALONE, 900, 30)]


@pytest.fixture(scope="module")
def served() -> Iterator[FakeProvider]:
    with fake_provider() as provider:
        yield provider


@pytest.fixture
def room(served: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    served.clear()
    monkeypatch.setenv(KEY_ENV, KEY)
    loop = asyncio.new_event_loop()
    yield Room(tmp_path / "store", [settings_of(served.base)], loop)
    close_all(loop)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def judged(room: Room) -> list[Outcome[Verdict]]:
    async def ask(request: Request) -> Outcome[RawAnswer]:
        return (await room.gateway.complete(request, "judge"))[0]

    settings = JudgeSettings(MODEL, sampling={"temperature": 0, "max_tokens": 200})
    return room.run(make_judge("per_summary").judge(INSIGHTS, BULLETS, settings, ask))


def test_outcomes_cost_together_what_was_spent_and_a_second_run_pays_nothing(room: Room, served: FakeProvider) -> None:
    served.replies.extend(REPLIES)
    first = judged(room)
    assert [outcome.value.coverage[0] for outcome in first if isinstance(outcome, Answer)] == ["F", "N", "F"]
    assert [sent["max_tokens"] for sent in served.requests] == [3 * 200, 200]
    # Each has a third of the first call, and the second call if it was needed.
    assert [outcome.usd_micros for outcome in first] == [2334, 2333 + 2100, 2333]
    assert room.money[0] == 7000 + 2100
    again = judged(room.again())
    assert again == first and len(served.requests) == 2


def test_a_budget_that_ends_between_the_two_questions_loses_no_verdict_and_no_cent(room: Room, served: FakeProvider) -> None:
    served.replies.extend(REPLIES)
    poor = room.again(budget_micros=10_000, run_id="poor")
    stopped = judged(poor)
    assert [type(outcome) for outcome in stopped] == [Answer, Failed, Answer]
    assert isinstance(stopped[1], Failed) and stopped[1].error == "budget"
    assert sum(outcome.usd_micros for outcome in stopped) == poor.money[0] == 7000
    rich = judged(room.again(run_id="poor", budget_micros=20_000))
    assert all(isinstance(outcome, Answer) for outcome in rich) and len(served.requests) == 2
