"""The plan compared with the real use, the starts that a budget stopped, and their report in `status`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from summhay_ray import api
from summhay_ray.engine import ITEM, all_tables, plan, status
from summhay_ray.engine.state.history import History, keep_plan, keep_start, keep_stop
from summhay_ray.llm import RawAnswer
from summhay_ray.records import Failure
from summhay_ray.store import RUN, Finished, LogWriter, MoneyRecord, RunStore, Store

pytestmark = pytest.mark.core

PRICE = {"input_per_mtok": 10.0, "output_per_mtok": 20.0}
SPEC: dict[str, Any] = {
    "name": "small",
    "haystacks": ["sample/news"],
    "retrievers": ["bm25"],
    "token_budget": 1500,
    "summarizers": [{"model": "openai/gpt-mine", "price": PRICE}],
    "judges": ["offline/judge"],
    "budget_usd": 3,
}
N_CELLS = 4
NOTHING = {"spent": 0.0, "reserved": 0.0, "uncertain": 0.0, "left": None, "budget": None}
BUDGET = {"status": "budget", "budget_usd": 5.0, "left": {"cells": 3, "calls": 4, "usd": {"expected": 0.5}}}


@pytest.fixture
def run(tmp_path: Path) -> RunStore:
    grid = api.load(SPEC)
    spec, stages = grid.spec.model_dump(mode="json"), [stage.name for stage in grid.stages]
    record = {"kind": "summhay", "name": "small", "spec": spec, "prompts": {}, "haystacks": [], "cells": N_CELLS}
    return Store(str(tmp_path / "store")).create_run(grid.run_id, {**record, "stages": stages}, all_tables(type(grid)))


def plan_of(run: RunStore, budget: float | None = None) -> Any:
    return plan(api.load(SPEC), run.store, budget)


def stops(run: RunStore) -> list[dict[str, Any]]:
    """The records of the starts that their budget ended, in order."""
    folder = Path(run.store.uri) / f"runs/{run.run_id}/stops"
    return [json.loads(path.read_bytes()) for path in sorted(folder.glob("[0-9]*.json"))]


def commit(run: RunStore, cell: str, **tables: list[Any]) -> None:
    run.commit(ITEM, [Finished(cell, tables)])


def write_log(run: RunStore, *records: dict[str, Any]) -> Path:
    """The log file with these records."""
    writer = LogWriter(run.store.files, 1)
    places = writer.append([{"run": run.run_id, "key": f"k{place}", **one} for place, one in enumerate(records)])
    writer.close()
    return Path(run.store.uri) / places[0].name


def answer(stage: str, model: str, **fields: Any) -> dict[str, Any]:
    tokens = {"input_tokens": 100, "cached_tokens": 0, "output_tokens": 10, "usd_micros": 1000, "saved_micros": 0}
    texts = {"text": "", "finish_reason": "stop", "attempts": 1}
    return {"kind": "answer", "stage": stage, "model": model, **tokens, **texts, **fields}


def test_the_first_plan_stays(run: RunStore) -> None:
    assert History(run).plan is None
    found = plan_of(run)
    keep_plan(run, found.to_json())
    keep_plan(run, plan_of(run, 99).to_json())
    assert History(run).plan == json.loads(json.dumps(found.to_json()))
    assert (History(run).plan or {})["budget_usd"] == 3


def test_stops_are_kept_in_order_and_never_replaced(run: RunStore) -> None:
    assert stops(run) == [] and History(run).stop is None
    keep_stop(run, 2, BUDGET)
    commit(run, "c1")
    # A start without a commit would have the same generation as the next one.
    keep_stop(run, 2, {**BUDGET, "budget_usd": 6.0})
    run.committer(3).finish()
    keep_stop(run, 10, {**BUDGET, "budget_usd": 7.0})
    assert [(stop["session"], stop["budget_usd"], stop["commits"]) for stop in stops(run)] == [
        (2, 5.0, 0),
        (2, 6.0, 1),
        (10, 7.0, 1),
    ]


def test_a_run_stands_at_its_last_stop_until_something_is_committed(run: RunStore) -> None:
    keep_stop(run, 1, BUDGET)
    assert (History(run).stop or {})["left"] == BUDGET["left"]
    commit(run, "c1")
    assert History(run).stop is None


def test_neither_merging_nor_taking_a_run_over_is_going_on(run: RunStore) -> None:
    for cell in ("c1", "c2"):
        commit(run, cell)
    keep_stop(run, 1, BUDGET)
    keep_stop(run, 1, BUDGET)
    run.committer(1).finish()
    run.committer(2)
    assert run.version() == 5, "two commits, taken over, merged, taken over"
    assert len(stops(run)) == 2 and (History(run).stop or {})["left"] == BUDGET["left"]


def test_status_of_a_run_that_its_budget_stopped(run: RunStore) -> None:
    keep_start(run, 1, 5.0)
    commit(run, "c1")
    keep_stop(run, 1, BUDGET)
    found = status(run)
    assert (found.status, found.usd) == ("budget", {**NOTHING, "left": 5.0, "budget": 5.0})
    assert found.stop is not None and found.stop["left"] == BUDGET["left"]
    assert found.cells == {"total": N_CELLS, "done": 1, "failed": 0}
    commit(run, "c2")
    assert (status(run).status, status(run).stop) == ("interrupted", None)
    for cell in ("c3", "c4"):
        commit(run, cell)
    assert status(run).status == "done"
    keep_stop(run, 2, BUDGET)
    assert (status(run).status, status(run).stop) == ("done", None), "what is finished does not stand at a stop"


def test_planned_and_real_use_are_shown_together(run: RunStore) -> None:
    keep_start(run, 1, 3.0)
    found = plan_of(run)
    keep_plan(run, found.to_json())
    write_log(
        run,
        answer("summarize", "openai/gpt-mine", cached_tokens=60, saved_micros=300),
        answer("summarize", "openai/gpt-mine", input_tokens=140, output_tokens=30, usd_micros=500),
        answer("judge", "some/other", saved_micros=1),
        answer("summarize", "openai/gpt-mine", run="rother"),
    )
    records = run.money
    records.take_over(1)
    records.append(MoneyRecord(1, ended=False, ceiling={RUN: 2507}))
    usage = status(run).usage
    assert [(row["stage"], row["model"]) for row in usage] == [
        ("summarize", "openai/gpt-mine"),
        ("judge", "offline/judge"),
        ("judge", "some/other"),
    ]
    summarize, planned = usage[0], found.stages[0]
    assert summarize["planned"] == {
        "calls": N_CELLS,
        "reused": 0,
        "input_tokens": planned.input_tokens,
        "output_tokens": planned.output_tokens,
        "usd": planned.usd,
        "usd_max": planned.usd_max,
        "minutes": planned.minutes,
    }
    assert summarize["real"] == {
        "calls": 2,
        "input_tokens": 100 + 140,
        "cached_tokens": 60,
        "output_tokens": 10 + 30,
        "usd": (1000 + 500) / 1e6,
    }
    assert (summarize["cached_share"], summarize["saved_usd"]) == (60 / 240, 0.0003)
    assert (usage[1]["real"]["calls"], usage[1]["cached_share"]) == (0, None)
    assert (usage[2]["planned"], usage[2]["saved_usd"]) == (None, 0.000001)
    # The amount that the killed session may have spent beyond its answers is uncertain, not spent.
    assert status(run).usd == {
        **NOTHING,
        "spent": 2500 / 1e6,
        "uncertain": 7 / 1e6,
        "left": pytest.approx(3 - 2507 / 1e6),
        "budget": 3.0,
    }
    json.dumps(status(run).to_json(), allow_nan=False)


def test_cut_answers_and_damaged_records_are_counted(run: RunStore) -> None:
    ends = ["stop", "length", "length", "content_filter"]
    raw = [RawAnswer(f"k{place}", "m", "text", end, 1, 0, 1, 0, 1) for place, end in enumerate(ends)]
    failure = Failure("c1", "judge", "j", "i", "malformed", "cut_answer", "cut", "k1", 1, 0)
    commit(run, "c1", raw_answers=raw, failures=[failure])
    path = write_log(run, answer("judge", "m"))
    path.write_bytes(path.read_bytes().replace(b'"judge"', b'"jugde"'))
    found = status(run)
    assert found.finish_reasons == {"content_filter": 1, "length": 2}
    assert (found.damaged, found.failures) == (1, {"cut_answer": 1})
    assert found.usage == [] and found.usd["spent"] == 0.0


def test_a_person_reads_what_is_left(run: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    from summhay_ray.cli.read import status as command

    keep_start(run, 1, 5.0)
    write_log(run, answer("judge", "m"))
    left = {"cells": 7, "calls": 45, "usd": {"min": 0.1, "expected": 0.2, "max": 0.34567}}
    keep_stop(run, 1, {**BUDGET, "left": left})
    command(run.run_id, run.store.uri)
    out = capsys.readouterr().out
    said = " ".join(out.split())
    assert "status budget began" in said and "dollars 0.001000 spent, 4.999000 left of 5 " in said
    assert "left to do 7 cells, about 45 calls, 0.2000 dollars expected, 0.3457 dollars at most; go on with: " in said
    assert "Used / planned" in out and "│ judge │ m " in out
