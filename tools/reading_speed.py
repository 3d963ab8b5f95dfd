"""Measures the time of a plan, of counting tokens, of recording an answer, and of a status, without any call.

    python tools/reading_speed.py --data shared/data/summhay    # the released haystacks
    python tools/reading_speed.py --cells 2000                  # a smaller run for the status

It prints one JSON line per measurement: the fastest of several tries, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.engine import ITEM, all_tables, load_workload, plan, status
from summhay_ray.llm import ModelSettings, Price, RawAnswer, Secrets
from summhay_ray.llm.ledger_messages import Claim
from summhay_ray.llm.read_reply import reply_of, written
from summhay_ray.records import Judgment, Score, Summary
from summhay_ray.store import Finished, LogWriter, RunStore, Store
from summhay_ray.text import count_tokens

PRICE = {"input_per_mtok": 1.0, "output_per_mtok": 2.0}
N_INSIGHTS, A_COMMIT = 9, 64
KNOWN = {"kind": "answer", "key": "0" * 64, "run": "r", "stage": "s", "model": "m"}
BODY: dict[str, Any] = {
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


def measure(name: str, work: Callable[[], Any], times: int, **beside: Any) -> None:
    """Print the time of the fastest of several tries."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    print(json.dumps({"measured": name, "ms": round(min(found) * 1000, 2), **beside}), flush=True)


USED = {"input_tokens": 900, "cached_tokens": 500, "output_tokens": 20, "saved_micros": 3}
ANSWER = {"kind": "answer", "stage": "judge", "model": "openai/gpt-a", "usd_micros": 100, **USED}


def measure_plan(data: Path, folder: Path) -> None:
    """Measure a plan over both released haystacks, with an empty log and with one that may have answers."""
    fields = {
        "haystacks": [str(data / f"topic_news{number}.json") for number in (1, 2)],
        "retrievers": ["random", "keywords", "bm25", "oracle", "full", "none"],
        "orderings": ["given", "random", "top", "bottom", "middle"],
        "summarizers": [{"model": f"openai/gpt-{name}", "price": PRICE} for name in "abc"],
        "judges": [{"model": "openai/gpt-a", "price": PRICE}],
    }
    workload, store = load_workload(fields), Store(str(folder / "planned"))
    cells = plan(workload, store).cells
    measure("plan", lambda: plan(workload, store), 3, cells=cells)
    writer = LogWriter(store.files, 1)
    writer.append([{**ANSWER, "run": "rother", "key": "k"}])
    writer.close()
    measure("plan beside a log", lambda: plan(workload, store), 3, cells=cells)


def measure_count(data: Path) -> None:
    """Measure the token count of a prompt whose documents were counted before."""
    grid = load_workload({"haystacks": [str(data / "topic_news1.json")], "retrievers": ["full"], "summarizers": ["offline/lead"]})
    assert isinstance(grid, SummHay)
    documents = [f"Article {one.number}:\n{one.text}\n\n" for one in next(iter(grid.grid.haystacks.values())).documents]
    tokens = count_tokens("".join(documents))
    measure("count of a prompt", lambda: count_tokens("".join(reversed(documents))), 20, tokens=tokens)


def measure_answer() -> None:
    """Measure the time from a response body to the record in the log."""
    settings, secrets = ModelSettings("openai/gpt-a", Price(1, 2)), Secrets(f"sk-0123456789abcdef-{place}" for place in range(3))

    def thousand() -> None:
        for place in range(1000):
            BODY["choices"][0]["message"]["content"] = f'{{"coverage": "FULL_COVERAGE", "bullet_id": {place}}}'
            written(KNOWN, reply_of(BODY), settings, Claim("", "", "", 10_000, 400, 200), secrets)

    measure("records of answers", thousand, 5, answers=1000)


def measure_status(folder: Path, n_cells: int) -> None:
    """Measure the status of a large run."""
    run = large(folder, n_cells)
    measure("status", lambda: status(run), 2, cells=n_cells, judgments=n_cells * N_INSIGHTS)


def large(folder: Path, n_cells: int) -> RunStore:
    """Make a run of artificial cells, with an answer for each judgment in its log."""
    store = Store(str(folder / "large"))
    record = {
        "kind": "summhay",
        "name": "large",
        "spec": {"haystacks": ["sample/news"], "retrievers": ["bm25"], "summarizers": ["offline/lead"]},
        "prompts": {},
        "haystacks": [],
        "cells": n_cells,
    }
    run = store.create_run("r0123456789ab", record, all_tables(SummHay))
    for start in range(0, n_cells, A_COMMIT):
        run.commit(ITEM, [made_up_rows(f"{cell:032x}") for cell in range(start, min(start + A_COMMIT, n_cells))])
    writer = LogWriter(store.files, 1)
    for start in range(0, n_cells * N_INSIGHTS, 1000):
        writer.append(list(calls(run.run_id, range(start, min(start + 1000, n_cells * N_INSIGHTS)))))
    writer.close()
    return run


def made_up_rows(cell: str) -> Finished:
    """Return the rows of a cell."""
    bullets = ("- a bullet [1][2]",) * 8
    rows: dict[str, list[Any]] = {
        "summaries": [Summary(cell, "h", "s", "sys", "bm25", "given", "m", 0, "c", cell * 2, bullets)],
        "judgments": [],
        "scores": [],
        "raw_answers": [],
    }
    for place in range(N_INSIGHTS):
        key = f"{cell}{place:032x}"
        rows["judgments"].append(Judgment(cell, "j", f"i{place}", place, key, "FULL_COVERAGE", "3"))
        rows["scores"].append(Score(cell, "j", f"i{place}", place, 1.0, 3, (1, 2), (1, 5, 7), 0.5, 1 / 3, 0.4, 0.4))
        rows["raw_answers"].append(RawAnswer(key, "m", '{"coverage": "FULL_COVERAGE"}', "stop", 900, 0, 20, 100, 1))
    return Finished(cell, rows)


def calls(run_id: str, numbers: range) -> Iterator[dict[str, Any]]:
    """Yield one answer for each judgment."""
    for call in numbers:
        yield {**ANSWER, "run": run_id, "key": f"{call:064x}", "raw": BODY}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the released haystacks; needed for plans and counts")
    parser.add_argument("--cells", type=int, default=11_000, help="of the run whose status is read")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.data:
            measure_plan(asked.data, Path(folder))
            measure_count(asked.data)
        measure_answer()
        measure_status(Path(folder), asked.cells)


if __name__ == "__main__":
    main()
