"""Requests of a synthesis: all are distinct, unreadable answers are requested again, and costs are added up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome, Refusal
from summhay_ray.synth import ModelAsker, Topic, TopicRecipe, load_domain
from summhay_ray.synth.making.asking import GaveUp, Work, all_of
from summhay_ray.text import text_hash

pytestmark = pytest.mark.core

DOMAIN = load_domain("news")
GIVEN = {"topic": "rain", "subtopic": "floods", "avoid": [], "participants": []}
GOOD = '{"query": "What of floods?"}'


class Room:
    """A gateway with given answers that keeps every request."""

    def __init__(self, *texts: str | Outcome[RawAnswer]) -> None:
        self.texts, self.requests = list(texts), list[Request]()

    async def ask(self, request: Request) -> Outcome[RawAnswer]:
        self.requests.append(request)
        text = self.texts.pop(0)
        if not isinstance(text, str):
            return text
        finish = "length" if text == "cut" else "stop"
        return Answer(RawAnswer(request.key, request.model, text, finish, 10, 0, 5, 100, 1), request.key, 1, 100)


def asker(room: Room, **models: str) -> ModelAsker:
    models = models or {"outline": "a/plan", "write": "a/pen", "check": "a/eye"}
    sampling = {group: {"temperature": 0, "max_tokens": place} for place, group in enumerate(("outline", "write", "check"), 7)}
    return ModelAsker(dict.fromkeys(models, room.ask), DOMAIN, models, sampling)  # type: ignore[arg-type]


def asked(room: Room, task: Any = "query", given: Any = GIVEN, sample: int = 0) -> Outcome[Any]:
    return asyncio.run(asker(room).ask(task, given, sample))


def test_a_request_has_the_prompt_the_group_s_sampling_and_the_template_s_hash() -> None:
    room = Room(GOOD)
    outcome = asked(room)
    request = room.requests[0]
    assert outcome == Answer("What of floods?", request.key, 1, 100)
    assert (request.model, request.sampling, request.sample) == ("a/plan", {"temperature": 0, "max_tokens": 7}, 0)
    assert request.prompt_hash == text_hash(DOMAIN.prompts["query"])
    shown = json.loads(request.prompt.rpartition("\n")[2])
    assert shown == {"task": "query", "domain": "news", "language": "English", **GIVEN}


def test_an_unreadable_answer_is_requested_twice_more_and_every_attempt_is_paid() -> None:
    room = Room("no", "cut", GOOD)
    outcome = asked(room)
    assert isinstance(outcome, Answer) and (outcome.attempts, outcome.usd_micros) == (3, 300)
    assert [request.sample for request in room.requests] == [0, 1, 2]
    assert len({request.key for request in room.requests}) == 3 and outcome.key == room.requests[2].key
    assert [json.loads(request.prompt.rpartition("\n")[2]).get("attempt") for request in room.requests] == [None, 1, 2]
    room = Room("no", '{"query": ""}', "cut", GOOD)
    outcome = asked(room)
    assert isinstance(outcome, Malformed) and (outcome.error, outcome.attempts, outcome.usd_micros) == ("cut_answer", 3, 300)
    assert len(room.texts) == 1


@pytest.mark.parametrize("outcome", [Refusal("refusal", "no", "k", 1, 3), Failed("budget", "spent", "k", 0, 0, True)])
def test_refusals_and_failures_are_not_requested_again(outcome: Any) -> None:
    room = Room(outcome, GOOD)
    assert asked(room) == outcome
    assert len(room.requests) == 1


def test_work_counts_the_cost_of_a_key_once_and_names_the_stage_that_lacks_an_answer() -> None:
    async def main() -> None:
        room = Room(GOOD, GOOD, "no", GOOD, Failed("budget", "nothing is left", "k", 0, 0, True))
        work = Work(TopicRecipe("c", Topic("t", "rain"), DOMAIN), asker(room))
        assert await work.need("queries", "query", GIVEN) == await work.need("queries", "query", GIVEN) == "What of floods?"
        assert sum(work.costs.values()) == 100
        await work.need("queries", "query", GIVEN, 1)
        assert sum(work.costs.values()) == 100 + 200
        with pytest.raises(GaveUp, match="query: no answer: nothing is left") as caught:
            await work.need("queries", "query", GIVEN, 2)
        assert (caught.value.stage, caught.value.error) == ("queries", "budget")
        assert caught.value.outcome is not None and caught.value.outcome.key == "k"

    asyncio.run(main())


def test_of_several_errors_the_first_in_order_is_raised_but_bugs_come_first() -> None:
    async def after(seconds: float, result: Callable[[], int]) -> int:
        await asyncio.sleep(seconds)
        return result()

    def give_up(stage: str) -> Callable[[], int]:
        def result() -> int:
            raise GaveUp(stage, "e", "m")

        return result

    assert asyncio.run(all_of([after(0.01, lambda: 1), after(0, lambda: 2)])) == [1, 2]
    with pytest.raises(GaveUp) as caught:
        asyncio.run(all_of([after(0.02, give_up("first")), after(0, give_up("second")), after(0, lambda: 3)]))
    assert caught.value.stage == "first"
    with pytest.raises(ZeroDivisionError):
        asyncio.run(all_of([after(0, give_up("first")), after(0.01, lambda: 1 // 0)]))
