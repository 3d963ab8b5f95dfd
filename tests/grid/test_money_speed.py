"""How long a plan, a count and a status take: `pytest -m soak -s tests/grid/test_money_speed.py`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from summhay_ray.grid import load_grid, parse_spec, plan_grid, status
from summhay_ray.llm import count_tokens
from summhay_ray.llm.answers import Asked, answer_of, reply_of
from summhay_ray.llm.models import ModelSettings, Price
from summhay_ray.records import Judgment, RawAnswer, Score, Summary
from summhay_ray.store import Finished, LogWriter, RunStore, Store

pytestmark = pytest.mark.soak

PRICE = {"input_per_mtok": 1.0, "output_per_mtok": 2.0}
N_CELLS, N_INSIGHTS, A_COMMIT = 11_000, 9, 64


def timed(name: str, work: Callable[[], Any], times: int = 1) -> float:
    """Seconds of the quickest of `times`."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    print(f"{name}: {min(found) * 1000:.2f} ms")
    return min(found)


def test_a_plan_over_both_haystacks(summhay_data: Path, tmp_path: Path) -> None:
    fields = {
        "haystacks": [str(summhay_data / f"topic_news{number}.json") for number in (1, 2)],
        "retrievers": ["random", "keywords", "bm25", "oracle", "full", "none"],
        "orderings": ["given", "random", "top", "bottom", "middle"],
        "summarizers": [{"model": f"openai/gpt-{name}", "price": PRICE} for name in "abc"],
        "judges": [{"model": "openai/gpt-a", "price": PRICE}],
    }
    grid, store = load_grid(parse_spec(fields), Path.cwd()), Store(str(tmp_path / "store"))
    cells = plan_grid(grid, store).cells
    first = timed("plan, again", lambda: plan_grid(grid, store), 3)
    writer = LogWriter(store.files, "w")
    writer.append([{"kind": "answer", "call": "c", "run": "rother", "key": "k", "usd_micros": 1}])
    writer.close()
    keyed = timed("plan, with answers in the log", lambda: plan_grid(grid, store), 3)
    print(f"{cells} cells: {first / cells * 1000:.2f} ms a cell, {keyed / cells * 1000:.2f} with a log")
    assert first / cells < 0.004


def test_a_prompt_of_documents_that_were_counted(summhay_data: Path) -> None:
    grid = load_grid(parse_spec({"haystacks": [str(summhay_data / "topic_news1.json")], **SMALL}), Path.cwd())
    documents = [f"Article {one.number}:\n{one.text}\n\n" for one in grid.haystacks[grid.sources[0].haystack_id].documents]
    tokens = count_tokens("".join(documents))
    again = timed("count", lambda: count_tokens("".join(reversed(documents))), 20)
    print(f"{tokens} tokens")
    assert again < 0.01


SMALL: dict[str, Any] = {"retrievers": ["full"], "summarizers": ["offline/lead"]}
BODY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "system_fingerprint": None,
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": '{"coverage": "FULL_COVERAGE", "bullet_id": 3}', "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 400, "completion_tokens": 17, "prompt_tokens_details": {"cached_tokens": 256}},
}


def test_an_answer_to_its_record() -> None:
    settings, secrets = ModelSettings("openai/gpt-a", Price(1, 2)), ["sk-0123456789abcdef"] * 3

    def thousand() -> None:
        for place in range(1000):
            BODY["choices"][0]["message"]["content"] = f'{{"coverage": "FULL_COVERAGE", "bullet_id": {place}}}'  # type: ignore[index]
            answer_of(reply_of(BODY), settings, Asked(400, 200, 10_000), secrets)

    assert timed("a thousand answers", thousand, 5) < 0.2


@pytest.fixture
def large(tmp_path: Path) -> RunStore:
    store = Store(str(tmp_path / "store"))
    spec = {"name": "large", "budget_usd": 5}
    run = store.create_run("r0123456789ab", {"kind": "grid", "spec": spec, "haystacks": [], "cells": N_CELLS})
    for start in range(0, N_CELLS, A_COMMIT):
        cells = [f"{cell:032x}" for cell in range(start, min(start + A_COMMIT, N_CELLS))]
        finished = []
        for cell in cells:
            rows: dict[str, list[Any]] = {"summaries": [], "judgments": [], "scores": [], "raw_answers": []}
            rows["summaries"].append(
                Summary(cell, "h", "s", "sys", "bm25", "given", "m", 0, "c", cell * 2, ("- a bullet [1][2]",) * 8)
            )
            for place in range(N_INSIGHTS):
                key = f"{cell}{place:032x}"
                rows["judgments"].append(Judgment(cell, "j", f"i{place}", place, key, "FULL_COVERAGE", "3"))
                rows["scores"].append(Score(cell, "j", f"i{place}", place, 1.0, 3, (1, 2), (1, 5, 7), 0.5, 1 / 3, 0.4, 0.4))
                rows["raw_answers"].append(RawAnswer(key, "m", '{"coverage": "FULL_COVERAGE"}', "stop", 900, 0, 20, 100, 1))
            finished.append(Finished(cell, rows))
        run.commit("cell", finished)
    writer = LogWriter(store.files, "w")
    for start in range(0, N_CELLS * N_INSIGHTS, 1000):
        writer.append(list(records(run.run_id, range(start, start + 1000))))
    writer.close()
    return run


def records(run_id: str, calls: range) -> Iterator[dict[str, Any]]:
    for call in calls:
        known = {"call": str(call), "run": run_id, "key": f"{call:064x}", "stage": "judge", "model": "openai/gpt-a"}
        yield {**known, "kind": "intent", "usd_micros": 500}
        used = {"input_tokens": 900, "cached_tokens": 500, "output_tokens": 20, "saved_micros": 3}
        yield {**known, "kind": "answer", "usd_micros": 100, **used, "raw": BODY}


def test_the_status_of_a_hundred_thousand_judgments(large: RunStore) -> None:
    seconds = timed("status", lambda: status(large), 2)
    assert seconds < 20
