"""The option `extract` of a judge: each insight is judged by the bullets that it needs; the saving and the changes are
reported."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import summhay_ray
from summhay_ray.benchmarks.rating import ExtractSpec
from summhay_ray.benchmarks.summhay.grid.judgments import judge_by_extract
from summhay_ray.engine import SpecError
from summhay_ray.extract import choose_units
from summhay_ray.judge import JudgeSettings, OfflineJudge, Verdict
from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Malformed, Outcome
from summhay_ray.records import Insight

pytestmark = pytest.mark.core

BULLETS = ["Whales sang at noon. [1]", "Rain fell for nine days. [2]", "The cook hid the key in the bell. [3]", "All slept. [4]"]
KEY = Insight("h", "s", "i1", 0, "key", "The cook hid the key in the bell.")
RAIN = Insight("h", "s", "i2", 1, "rain", "It rained for nine days.")


def test_bullets_are_chosen_by_the_insight_and_keep_their_order() -> None:
    assert choose_units(BULLETS, KEY.text, "rouge-1+2", 14) == (2,)
    assert choose_units(BULLETS, RAIN.text, "rouge-1", 12) == (1,)
    assert choose_units(BULLETS, RAIN.text, "rouge-1", 3) == (1,), "the best one, though it is too long"
    assert choose_units(BULLETS, RAIN.text, "rouge-1", 500) == (0, 1, 2, 3) and choose_units([], "x", "lead", 9) == ()


def test_verdicts_name_bullets_as_the_summary_numbers_them() -> None:
    asked: list[Request] = []

    async def ask(request: Request) -> Outcome[RawAnswer]:
        asked.append(request)
        raw = RawAnswer(request.key, request.model, OfflineJudge().answer(request), "stop", 9, 0, 9, 0, 1)
        return Answer(raw, request.key)

    lever = ExtractSpec(method="rouge-1+2", tokens=14)
    judged = judge_by_extract("per_insight", [KEY, RAIN], BULLETS, JudgeSettings("offline/judge"), ask, lever)
    found = asyncio.run(judged)
    verdicts = [one.value for one in found if isinstance(one, Answer)]
    assert [(one.coverage, one.bullet_id) for one in verdicts] == [("FULL_COVERAGE", "3"), ("FULL_COVERAGE", "2")]
    assert BULLETS[2] in asked[0].prompt and BULLETS[1] not in asked[0].prompt


def test_what_names_no_bullet_stays() -> None:
    replies = iter(['{"coverage": "NO_COVERAGE", "bullet_id": "NA"}', "no idea"])

    async def ask(request: Request) -> Outcome[RawAnswer]:
        return Answer(RawAnswer(request.key, "m", next(replies), "stop", 9, 0, 9, 0, 1), request.key)

    lever = ExtractSpec(tokens=14)
    none, unread = asyncio.run(judge_by_extract("per_insight", [KEY, RAIN], BULLETS, JudgeSettings("m"), ask, lever))
    assert isinstance(none, Answer) and none.value == Verdict("NO_COVERAGE", '"NA"')
    assert isinstance(unread, Malformed)


def spec(**judge: Any) -> dict[str, Any]:
    whole = {"model": "offline/judge", "strategy": "per_insight"}
    return {
        "haystacks": ["sample/news"],
        "retrievers": ["oracle"],
        "token_budget": 2000,
        "summarizers": ["offline/support"],
        "judges": [whole, {**whole, "name": "reduced", "extract": {"tokens": 120}, **judge}],
    }


def test_the_plan_shows_the_saving_and_compare_the_changes(tmp_path: Path) -> None:
    store = str(tmp_path)
    done = summhay_ray.run(spec(), store=store, executor="inline")
    assert done.status == "done"
    again = summhay_ray.plan(spec(name="other", max_tokens=150), store)
    [judging] = [one for one in again.stages if one.stage == "judge"]
    assert judging.spared_tokens > 0 and judging.to_json()["usd_spared"] == 0
    found = summhay_ray.compare(done.run, ["offline/judge", "reduced"], store)
    assert found.input_tokens[1] < found.input_tokens[0] and found.usd == (0, 0)
    assert found.agreement.n == found.n_scored[0] and (found.agreement.same_label or 0) > 0.9 and (found.kappa or 0) > 0.8
    told = json.loads(json.dumps(found.to_json()))
    assert told["agreement"]["kappa"] == found.kappa and told["input_tokens"] == list(found.input_tokens)


def test_a_judge_that_asks_about_all_at_once_takes_no_extract(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="extract: per_summary asks about all insights at once"):
        summhay_ray.plan(spec(strategy="per_summary"), str(tmp_path))


def test_a_run_without_the_lever_is_the_run_that_it_was() -> None:
    from summhay_ray.benchmarks.summhay.spec import JudgeSpec

    assert (
        "extract" not in JudgeSpec(model="m").semantic() and "extract" in JudgeSpec(model="m", extract=ExtractSpec()).semantic()
    )
