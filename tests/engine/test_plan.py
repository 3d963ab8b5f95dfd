"""The plan: exact if possible, bounds that every real run keeps, minutes, budgets, and no writing."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inline_runs import N_INSIGHTS, N_QUERIES

from summhay_ray import api
from summhay_ray.engine import ITEM, Ask, PlanResult, Workload, open_run, plan
from summhay_ray.engine.ask import Kept, Turns
from summhay_ray.engine.stage_plan import StagePlan
from summhay_ray.llm import RawAnswer, Request
from summhay_ray.llm.request import Usage
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.store import RUN, Finished, LogWriter, MoneyRecord, Store

pytestmark = pytest.mark.core

PRICE = {"input_per_mtok": 10.0, "output_per_mtok": 20.0, "cached_input_per_mtok": 1.0, "cache_write_per_mtok": 12.5}
MODEL = {"model": "openai/gpt-mine", "price": PRICE, "max_tokens": 400}
JUDGE = {"model": "some/judge", "price": {"input_per_mtok": 1.0, "output_per_mtok": 4.0}, "max_tokens": 60}
SMALL = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "token_budget": 1500, "summarizers": [MODEL], "judges": [JUDGE]}


def grid_of(**fields: Any) -> Workload[Any]:
    return api.load({**SMALL, **fields})


def planned(tmp_path: Path, **fields: Any) -> PlanResult:
    return plan(grid_of(**fields), Store(str(tmp_path / "store")))


class Provider:
    """Answers every request of a workload, and bills it by its own token counts; each answer may be logged."""

    def __init__(self, grid: Workload[Any], seed: int) -> None:
        self.grid, self.settings, self.draw = grid, grid.models.settings(), random.Random(seed)
        self.micros: dict[tuple[str, str], int] = {}
        self.records: dict[str, dict[str, Any]] = {}
        self.judged = True

    async def complete(self, request: Request, stage: str, kept: Kept) -> Outcome[RawAnswer]:
        if stage == "judge" and not self.judged:
            return kept(Failed("refused", "not asked"), None)
        settings = self.settings[request.model]
        ours = settings.prompt_tokens(request.prompt, request.sampling)
        # The provider's counts differ by up to a tenth; its cache has anything from nothing to the whole prompt.
        tokens_in = round(ours * self.draw.uniform(0.9, 1.1))
        tokens_out = self.draw.randint(1, int(request.sampling["max_tokens"]))
        cached = self.draw.choice([0, tokens_in // 2, tokens_in])
        usage = Usage(tokens_in, tokens_out, cached, self.draw.randint(0, tokens_in - cached))
        place = (stage, request.model)
        micros = settings.price.micros(usage)
        self.micros[place] = self.micros.get(place, 0) + micros
        text = "- a word [1]\n" * (tokens_out // 10 + 1) if stage == "summarize" else '{"coverage": "NO_COVERAGE"}'
        raw = RawAnswer(request.key, request.model, text, "stop", tokens_in, cached, tokens_out, micros, 1)
        self.records[request.key] = {name: getattr(raw, name) for name in RawAnswer.__slots__}
        return kept(Answer(raw, raw.key), raw)

    def answer_all(self, judged: bool = True) -> None:
        self.judged = judged
        asyncio.run(self._answer_all())

    async def _answer_all(self) -> None:
        turns: Turns = {}
        for item in self.grid.items():
            ask = Ask(self.grid, item, self.complete, turns)
            ask.prepared = self.grid.prepare(item.source, [item]).shared
            await self.grid.answer(item, ask)

    def log(self, store: Store) -> None:
        writer = LogWriter(store.files, 1)
        known = {"kind": "answer", "run": "rother", "stage": "x"}
        writer.append([{**known, **record} for record in self.records.values()])
        writer.close()


def test_calls_and_tokens_are_counted_and_nothing_is_written(tmp_path: Path) -> None:
    found = planned(tmp_path).to_json()
    assert [(stage["stage"], stage["model"], stage["calls"], stage["reused"]) for stage in found["stages"]] == [
        ("summarize", "openai/gpt-mine", N_QUERIES, 0),
        ("judge", "some/judge", N_INSIGHTS, 0),
    ]
    assert (found["cells"], found["cells_finished"], found["usd"]["spent"], found["usd"]["budget"]) == (N_QUERIES, 0, 0.0, None)
    assert found["minutes"] is None and found["warnings"] == [] and found["stages"][0]["minutes"] is None
    assert not (tmp_path / "store").exists()


def test_expected_dollars_are_our_counts_with_nothing_cached(tmp_path: Path) -> None:
    stage = planned(tmp_path).stages[0]
    # A prompt or an answer costs whole micro-dollars (10 and 20 per token), so nothing is rounded up.
    assert stage.usd_micros == stage.input_tokens * 10 + stage.output_tokens * 20
    # At least: 1.15 times fewer tokens, all cached at 1, and one token of answer.
    assert stage.min_micros == pytest.approx(stage.input_tokens / 1.15 + N_QUERIES * 20, abs=2 * N_QUERIES)
    # At most: 1.15 times more and 16, all written to the cache at 12.5, and 400 tokens of answer.
    assert stage.max_micros == pytest.approx(
        stage.input_tokens * 1.15 * 12.5 + N_QUERIES * (16 * 12.5 + 400 * 20), abs=14 * N_QUERIES
    )
    assert (stage.usd, stage.usd_min, stage.usd_max) == (
        stage.usd_micros / 1e6,
        stage.min_micros / 1e6,
        stage.max_micros / 1e6,
    )


@pytest.mark.parametrize("seed", range(2))
def test_a_real_run_costs_no_less_than_the_least_and_no_more_than_the_most(tmp_path: Path, seed: int) -> None:
    grid = grid_of(retrievers=["bm25", "full"], orderings=["given", "top"])
    found = plan(grid, Store(str(tmp_path / "store")))
    provider = Provider(grid, seed)
    provider.answer_all()
    for stage in found.stages:
        assert stage.min_micros <= stage.usd_micros <= stage.max_micros
        assert stage.min_micros <= provider.micros[stage.stage, stage.model] <= stage.max_micros, stage
    real = sum(provider.micros.values()) / 1e6
    assert found.usd["min"] <= real <= found.usd["max"]
    assert found.usd["min"] <= found.usd["expected"] <= found.usd["max"]


def test_what_the_log_has_is_reused_and_known_summaries_make_judgments_exact(tmp_path: Path) -> None:
    grid, store = grid_of(), Store(str(tmp_path / "store"))
    before = plan(grid, store)
    provider = Provider(grid, 1)
    provider.answer_all(judged=False)
    provider.log(store)
    summarized = plan(grid, store)
    assert [(stage.calls, stage.reused) for stage in summarized.stages] == [(0, N_QUERIES), (N_INSIGHTS, 0)]
    assert summarized.stages[0].to_json() | {"reused": 0} == StagePlan("summarize", "openai/gpt-mine").to_json()
    judge, earlier = summarized.stages[1], before.stages[1]
    # A known summary is not estimated any more, so the bounds are closer together.
    assert earlier.min_micros <= judge.min_micros <= judge.max_micros <= earlier.max_micros
    provider.answer_all()
    again = Store(str(tmp_path / "again"))
    provider.log(again)
    assert plan(grid, again).usd == {"min": 0.0, "expected": 0.0, "max": 0.0}


def test_finished_items_are_no_calls_whatever_the_log_has(tmp_path: Path) -> None:
    grid, store = grid_of(), Store(str(tmp_path / "store"))
    items = [item.id for item in grid.items()]
    run = open_run(grid, store)
    run.commit(ITEM, [Finished(items[0], {}), Finished(items[1], {}, retry=True)])
    found = plan(grid, store)
    # The provider filtered the first answer, for example: it is no answer, and not requested again. The second one may be.
    assert (found.cells, found.cells_finished, found.stages[0].calls) == (N_QUERIES, 1, N_QUERIES - 1)


def test_two_names_of_one_request_are_one_call(tmp_path: Path) -> None:
    twice = [MODEL, {**MODEL, "name": "again"}]
    summarize, judge = planned(tmp_path, summarizers=twice).stages
    assert (summarize.calls, summarize.reused) == (N_QUERIES, N_QUERIES)
    assert (judge.calls, judge.reused) == (N_INSIGHTS, N_INSIGHTS), "one answer is one summary, whatever it is called"


def test_questions_about_unknown_answers_may_all_differ(tmp_path: Path) -> None:
    summarize, judge = planned(tmp_path, retrievers=["bm25", "oracle"]).stages
    assert (summarize.calls, judge.calls, judge.reused) == (2 * N_QUERIES, 2 * N_INSIGHTS, 0)


def test_prompts_beyond_the_window_are_no_calls(tmp_path: Path) -> None:
    found = planned(tmp_path, summarizers=[{**MODEL, "context_window": 1000}])
    assert (found.too_long, found.usd["max"]) == (N_QUERIES, 0.0)
    assert [stage.calls for stage in found.stages] == [0]


def test_a_judge_whose_window_is_small_is_never_planned_beyond_it(tmp_path: Path) -> None:
    window = planned(tmp_path, judges=[{**JUDGE, "context_window": 1200}]).stages[1]
    free = planned(tmp_path, judges=[JUDGE]).stages[1]
    assert (window.calls, window.min_micros) == (free.calls, free.min_micros)
    assert window.max_micros < free.max_micros
    # 1200 tokens of prompt and answer: (1140 x 1.5 + 16) x 1 + 60 x 4
    assert window.max_micros <= N_INSIGHTS * (1140 * 1.5 + 16 + 60 * 4)


LIMITS = {"openai/gpt-mine": {"rpm": 2, "input_tpm": 10**9}, "some/judge": {"rpm": 11, "output_tpm": 44}}


def test_minutes_are_what_the_limits_imply(tmp_path: Path) -> None:
    found = planned(tmp_path, limits=LIMITS)
    # 4 calls at 2 per minute. 22 calls at 11 per minute take 2 minutes; their 20 tokens each at 44 per minute take 10.
    assert [stage.minutes for stage in found.stages] == [2.0, 10.0]
    assert found.minutes == 10.0, "models run side by side"


def test_the_stages_of_one_model_wait_for_each_other(tmp_path: Path) -> None:
    found = planned(tmp_path, judges=[{**MODEL, "max_tokens": 60}], limits={"openai/gpt-mine": {"rpm": 2}})
    assert [stage.minutes for stage in found.stages] == [2.0, 11.0]
    assert found.minutes == 13.0


def test_budgets_that_are_too_small_are_named(tmp_path: Path) -> None:
    budgets = {"stage_budgets_usd": {"judge": 0.001}, "model_budgets_usd": {"openai/gpt-mine": 0.002, "some/judge": 900}}
    found = planned(tmp_path, budget_usd=0.003, **budgets)
    summarize, judge = (stage.usd_micros / 1e6 for stage in found.stages)
    assert summarize > 0.003 and judge > 0.001
    will = "dollars are expected: it will stop the run; raise it"
    assert found.warnings == (
        f"budget_usd is 0.003, and {summarize + judge:.4f} {will}",
        f"stage_budgets_usd.judge is 0.001, and {judge:.4f} {will}",
        f"model_budgets_usd.openai/gpt-mine is 0.002, and {summarize:.4f} {will}",
    )
    assert planned(tmp_path, budget_usd=900).warnings == ()


def test_what_is_spent_counts_against_the_budget_and_another_may_be_given(tmp_path: Path) -> None:
    grid, store = grid_of(budget_usd=900), Store(str(tmp_path / "store"))
    records = open_run(grid, store).money
    records.take_over(1)
    records.append(MoneyRecord(1, ended=False, ceiling={RUN: 899_999_999}))
    found = plan(grid, store)
    # The amount that a killed session may have spent is uncertain, and counts against the budget like spent money.
    assert (found.spent_usd, found.uncertain_usd, found.left_usd) == (0.0, 899.999999, pytest.approx(1e-6))
    assert len(found.warnings) == 1
    assert (found.budget_usd, plan(grid, store, 2000).warnings, plan(grid, store, 2000).budget_usd) == (900, (), 2000)


Figures = tuple[str, str, int, int, int, int, int]
# Stage, model, calls, input tokens, micro-dollars expected, at least, at most.
RELEASED: dict[int, list[Figures]] = {
    1: [
        ("summarize", "offline/lead", 18, 1025899, 0, 0, 0),
        ("summarize", "openai/gpt-mine", 18, 1025899, 10386190, 892436, 14895018),
        ("judge", "a/b", 36, 49568, 70368, 24628, 185488),
        ("judge", "some/judge", 260, 253972, 274772, 102304, 781392),
    ],
}


@pytest.mark.parametrize("news", RELEASED)
def test_a_released_haystack_is_planned_to_the_token_and_the_micro_dollar(tmp_path: Path, summhay_data: Path, news: int) -> None:
    models = {"summarizers": [MODEL, "offline/lead"], "judges": [JUDGE, {**JUDGE, "model": "a/b", "strategy": "per_summary"}]}
    shown = {"retrievers": ["bm25", "full"], "orderings": ["top"], "token_budget": 15000}
    found = planned(tmp_path, haystacks=[str(summhay_data / f"topic_news{news}.json")], **shown, **models)
    names = ("stage", "model", "calls", "input_tokens", "usd_micros", "min_micros", "max_micros")
    assert [tuple(getattr(stage, name) for name in names) for stage in found.stages] == RELEASED[news]


@pytest.mark.parametrize("summarizer", [MODEL, "offline/lead"])
def test_a_marked_repeat_is_planned_as_an_unmarked_one(tmp_path: Path, summarizer: str | dict[str, object]) -> None:
    # Its summaries may be longer than the judge can read.
    long, judge = {**MODEL, "model": "openai/long", "max_tokens": 8000}, {**JUDGE, "context_window": 4000}
    grid = grid_of(repeats=2, summarizers=[summarizer, long], judges=[judge, "offline/judge"])
    items = list(grid.items())
    assert sum(bool(item.repeat_of) for item in items) == len(items) // 2
    found = plan(grid, Store(str(tmp_path)))
    grid.items = lambda: (replace(item, repeat_of="") for item in items)  # type: ignore[method-assign]
    assert plan(grid, Store(str(tmp_path))) == found


@pytest.mark.parametrize(("summarizer", "judgings"), [(MODEL, 3), ("offline/lead", 1)])
def test_repeats_are_judged_once_where_their_model_gives_every_sample_one_answer(
    tmp_path: Path, summarizer: str | dict[str, object], judgings: int
) -> None:
    once, thrice = (
        plan(grid_of(repeats=repeats, summarizers=[summarizer], judges=[JUDGE]), Store(str(tmp_path))) for repeats in (1, 3)
    )
    calls = [{stage.stage: stage.calls for stage in found.stages} for found in (once, thrice)]
    assert calls[1] == {"summarize": 3 * calls[0]["summarize"], "judge": judgings * calls[0]["judge"]}
