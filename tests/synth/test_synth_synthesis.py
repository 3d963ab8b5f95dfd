"""From a topic to a verified haystack, end to end: with the offline writer and the real verifier, in every domain."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from synth_world import SMALL, FakeVerifier, World, domain, job

from summhay_ray.haystack import read_released
from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome
from summhay_ray.records import Check
from summhay_ray.store.names import StoreUnavailable
from summhay_ray.synth import (
    Difficulty,
    ModelAsker,
    OfflineWriter,
    Synthesized,
    Topic,
    TopicRecipe,
    Unverified,
    checked_tables,
    load_domain,
    synthesize,
)
from summhay_ray.synth.making.domains import domain_names

pytestmark = pytest.mark.core

HARD = Difficulty(least=4, spread=0.3, paraphrase=2, distractors=1, conflicts=1, cross_references=0.5)
TOPIC = Topic("tram", "The tram line of a town comes back after the flood")


class Gateway:
    """The offline writer as every model. Each answer costs 7; answers come in random order."""

    def __init__(self, slow: int = 1) -> None:
        self.writer, self.slow, self.asked = OfflineWriter(), slow, list[Request]()

    async def ask(self, request: Request) -> Outcome[RawAnswer]:
        self.asked.append(request)
        for _ in range(int(request.key[:2], 16) * self.slow % 11):
            await asyncio.sleep(0)
        text = self.writer.answer(request)
        return Answer(RawAnswer(request.key, request.model, text, "stop", 1, 0, 1, 7, 1), request.key, 1, 7)


@cache
def made(name: str, difficulty: Difficulty = HARD, checked: bool = True, slow: int = 1) -> tuple[Synthesized, Gateway]:
    gateway, mine = Gateway(slow), load_domain(name)
    models: Any = dict.fromkeys(("outline", "write", "check") if checked else ("outline", "write"), "offline/writer")
    asker = ModelAsker(dict.fromkeys(models, gateway.ask), mine, models, {})
    wanted = TopicRecipe("cell", TOPIC, mine, SMALL, difficulty, 7, {"license": "CC0-1.0"})
    result = asyncio.run(synthesize(wanted, asker))
    assert isinstance(result, Synthesized), result
    return result, gateway


def right(check: Check) -> bool:
    return check.found == check.expected


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("news", "conversation") else pytest.mark.soak) for name in domain_names()]
)
def test_every_domain_gives_a_haystack_of_the_requested_size(name: str) -> None:
    result, _ = made(name)
    haystack = read_released(json.dumps(result.raw), "tram.json").haystack
    assert (haystack.domain, len(haystack.documents), len(haystack.subtopics)) == (name, 12, 4)
    assert [len(haystack.insights_of(one.subtopic_id)) for one in haystack.subtopics].count(3) == 3
    assert len(haystack.insights) == 4 * 3 + 1
    assert min(len(numbers) for numbers in haystack.gold.values()) >= 4
    assert haystack.participants == load_domain(name).participants
    words = [len(one.text.split()) for one in haystack.documents]
    assert min(words) > 80 and max(words) < 450


@pytest.mark.parametrize("name", domain_names())
def test_every_insight_was_looked_for_in_every_document_and_found_where_it_should_be(name: str) -> None:
    result, _ = made(name)
    last: dict[tuple[str, str], Check] = {}
    for check in result.checks:
        if check.kind == "document_insight":
            last[check.subject, check.object] = check
    # 15 insights of 5 subtopics and another side, 12 documents.
    assert len(last) == 16 * 12 and all(map(right, last.values()))
    held = {(one["document_id"], insight) for one in result.raw["documents"] for insight in one["insights_included"]}
    told = result.raw["topic_metadata"]["synthesis"]["distractors"]
    held |= {
        (one, insight["insight_id"]) for subtopic in told for insight in subtopic["insights"] for one in insight["documents"]
    }
    assert held == {pair for pair, check in last.items() if check.found == "yes"}
    texts = {one["document_id"]: " ".join(one["document_text"].split()) for one in result.raw["documents"]}
    shown = [check for check in last.values() if check.found == "yes"]
    assert sum(" ".join(check.evidence.split()) in texts[check.subject] for check in shown) >= 0.95 * len(shown)


@pytest.mark.parametrize("name", domain_names())
def test_every_kind_of_check_was_made_and_its_row_is_numbered(name: str) -> None:
    result, gateway = made(name)
    assert [check.position for check in result.checks] == list(range(len(result.checks)))
    kinds = Counter(check.kind for check in result.checks)
    expected = {"subtopic_distinct", "insight_specific", "insight_distinct", "insight_subtopic", "query_leak", "document_insight"}
    expected |= {"subtopic_leak", "insight_conflict", "document_reference", "document_copy"}
    expected |= {"chapter_insight"} if name == "conversation" else set()
    assert set(kinds) == expected and {check.cell_id for check in result.checks} == {"cell"}
    keys = {request.key for request in gateway.asked}
    assert {check.key for check in result.checks if check.by != "offline"} <= keys
    assert result.raw["topic_metadata"]["synthesis"]["usd_micros"] == 7 * len(keys)


@pytest.mark.parametrize("name", ["news", "conversation"])
def test_the_same_answers_in_another_order_give_the_same_haystack_to_the_byte(name: str) -> None:
    one, other = made(name)[0], made(name, slow=5)[0]
    assert json.dumps(one.raw) == json.dumps(other.raw) and one.checks == other.checks


def unverified(world: World, eyes: Any = None, **changes: Any) -> Unverified:
    result = asyncio.run(synthesize(job(**changes), world, eyes or FakeVerifier()))
    assert isinstance(result, Unverified)
    return result


def test_a_failed_stage_is_reported_with_its_cost_and_whether_to_retry() -> None:
    world = World(always={"query": Failed("budget", "nothing is left", "k", 2, 0, True)})
    result = unverified(world)
    assert (result.stage, result.error, result.retryable, result.key, result.attempts) == ("queries", "budget", True, "k", 2)
    # One answer for the subtopics and four for their insights, at 10 each.
    assert result.usd_micros == 10 * (1 + 4)
    leaking = unverified(World(faults={"query": 1}))
    assert (leaking.stage, leaking.error, leaking.retryable, leaking.key) == ("queries", "query_leaks", False, "")


def test_a_check_that_gets_no_answer_leaves_the_haystack_unverified() -> None:
    class Blind(World):
        async def ask(self, task: Any, given: Any, sample: int = 0) -> Any:
            outcome = await super().ask(task, given, sample)
            return Malformed("no_json", "nothing to read", outcome.key, 3, 30) if task == "assign_subtopic" else outcome

        def _do_assign_subtopic(self, given: Any, bad: bool, chance: Any) -> Any:
            return 0

        def _do_insights(self, given: Any, bad: bool, chance: Any) -> Any:
            return tuple(("n", f"{word} was paid 17 crowns in Ulm.") for word in ("Bo", "Jan", "Eva")[: given["n"]])

    result = asyncio.run(synthesize(job(), Blind()))
    assert isinstance(result, Unverified)
    assert (result.stage, result.error) == ("verification", "no_json") and result.message.startswith(
        "assign_subtopic: unreadable"
    )
    assert result.usd_micros > 0 and result.checks


def test_an_error_of_the_store_is_raised() -> None:
    class Away(World):
        async def ask(self, task: Any, given: Any, sample: int = 0) -> Any:
            if task == "document":
                raise StoreUnavailable("s3://bucket does not answer")
            return await super().ask(task, given, sample)

    with pytest.raises(StoreUnavailable, match="does not answer"):
        asyncio.run(synthesize(job(domain=domain()), Away(), FakeVerifier()))


@pytest.mark.parametrize("name", ["conversation", "news"])
def test_a_refusal_is_not_part_of_any_haystack(name: str) -> None:
    refusal = (
        "I'm sorry, but I can't write this part of the conversation, because it concerns real people and could mislead readers. "
        "I can offer a neutral summary of the background instead if you like that."
    )
    gateway = Gateway()

    async def write(request: Request) -> Outcome[RawAnswer]:
        outcome = await gateway.ask(request)
        asked = json.loads(request.prompt.rpartition("\n")[2])
        if asked["task"] in ("chapter", "document") and asked["number"] in (1, 2) and isinstance(outcome, Answer):
            return replace(outcome, value=replace(outcome.value, text=refusal))
        return outcome

    models: Any = {"outline": "offline/writer", "write": "offline/writer"}
    asker = ModelAsker({"outline": gateway.ask, "write": write}, load_domain(name), models, {})
    result = asyncio.run(synthesize(TopicRecipe("cell", TOPIC, load_domain(name), SMALL, Difficulty(), 7), asker))
    assert isinstance(result, Unverified)
    assert result.error == ("no_chapter" if name == "conversation" else "too_short") and result.kind == "malformed"


def test_a_haystack_s_checks_give_its_audit_figures() -> None:
    result, _ = made("news")
    found = checked_tables(result.raw, result.checks)
    insights = sum(len(one["insights"]) for one in result.raw["subtopics"])
    distracting = sum(len(one["insights"]) for one in result.raw["topic_metadata"]["synthesis"]["distractors"])
    assert found["insight_subtopic"] == {
        "insights_annotated": insights + distracting,
        "assigned_to_several": 0.0,
        "accuracy": 100.0,
    }
    table = {"accuracy": 100.0, "precision": 100.0, "recall": 100.0, "f1": 100.0}
    held = sum(len(one["insights_included"]) for one in result.raw["documents"])
    held += sum(
        len(one["documents"]) for other in result.raw["topic_metadata"]["synthesis"]["distractors"] for one in other["insights"]
    )
    samples = {"num_samples": (insights + distracting) * len(result.raw["documents"]), "stated_present": held}
    assert found["document_insight"] == {**samples, **table}
    assert found["plan_corrected"] == 0
    # A document that lacked an insight at first and was edited, and one whose plan was corrected.
    one = next(check for check in result.checks if check.kind == "document_insight" and check.expected == "yes")
    for last, corrected in ((one, 0), (replace(one, found="no"), 1)):
        mended = [replace(one, found="no"), *(check for check in result.checks if check is not one), replace(last, round=1)]
        table = checked_tables(result.raw, mended)
        assert table["plan_corrected"] == corrected and table["document_insight"]["recall"] < 100.0
        assert table["document_insight"]["precision"] == 100.0
