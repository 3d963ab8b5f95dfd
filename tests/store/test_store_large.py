"""A run of 100,000 judgments: object reads, bytes written and time. Long; run by hand: `pytest -m soak -s tests/store`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_rows import NAMES, Watched, batches, watched_run

from summhay_ray.llm import RawAnswer
from summhay_ray.records import Judgment, Score, Summary
from summhay_ray.store import Finished, RunStore

pytestmark = pytest.mark.soak

N_CELLS, N_INSIGHTS, A_BLOCK = 11_000, 9, 64
"""11,000 x 9 = 99,000 judgments in 172 blocks."""


def cell_rows(number: int) -> Finished:
    cell = f"{number * 2654435761 % 2**128:032x}"
    keys = [f"{(number * 100 + place) * 40503**6 % 2**256:064x}" for place in range(N_INSIGHTS + 1)]
    answers = [RawAnswer(key, "m", f'{{"coverage": "FULL", "why": "{key[:16]}"}}', "stop", 900, 0, 20, 100, 1) for key in keys]
    rows: dict[str, list[Any]] = {
        "summaries": [Summary(cell, "h", "s", "sys", "bm25", "given", "m", 0, "c", keys[-1], ("- a bullet [1][2]",) * 8)],
        "judgments": [Judgment(cell, "j", f"i{at}", at, keys[at], "FULL_COVERAGE", "3") for at in range(N_INSIGHTS)],
        "scores": [Score(cell, "j", f"i{at}", at, 1.0, 3, (1, 2), (1, 5, 7), 0.5, 0.4, 0.4, 0.4) for at in range(N_INSIGHTS)],
        "raw_answers": answers,
    }
    return Finished(cell, rows)


def measured(files: Watched, work: Callable[[], Any]) -> dict[str, float]:
    files.asked.clear()
    began, before = time.perf_counter(), files.written
    work()
    seconds = round(time.perf_counter() - began, 2)
    return {"reads": files.asked["read"], "exists": files.asked["exists"], "written": files.written - before, "s": seconds}


def test_a_run_of_a_hundred_thousand_judgments(tmp_path: Path) -> None:
    run, files = watched_run(tmp_path)
    committer = run.committer(1, "on a, pid 1")
    told: dict[str, Any] = {}

    def add(cells: range, run: RunStore = run) -> None:
        for batch in batches(cells, A_BLOCK):
            committer.add([run.write("cell", [cell_rows(number) for number in batch])])
            committer.compact()

    # 60 blocks short of the end: 111 = 1 x 64 + 5 x 8 + 7 blocks.
    told["two thirds"] = measured(files, lambda: add(range(111 * A_BLOCK)))
    told["blocks while unfinished"] = len(run.manifest().blocks)
    told["digests while unfinished"] = measured(files, run.digests)
    told["finished while unfinished"] = measured(files, lambda: run.finished("cell"))
    told["last third"] = measured(files, lambda: add(range(111 * A_BLOCK, N_CELLS)))
    told["finish"] = measured(files, committer.finish)
    told["blocks"] = [block.size for block in run.manifest().blocks]
    told["digests"] = measured(files, run.digests)
    told["all tables"] = measured(files, lambda: run.tables(NAMES))
    told["judgments of ten cells"] = measured(files, lambda: run.table("judgments", [cell_rows(n).unit for n in range(10)]))
    told["finished"] = measured(files, lambda: run.finished("cell"))
    manifests = sum(path.stat().st_size for path in (tmp_path / "runs/run/commits").iterdir())
    told["written in manifests"] = manifests
    told["written for each byte kept"] = round(files.written / sum(told["blocks"]), 2)
    print(json.dumps(told, indent=1))
    assert run.table("judgments").height == N_CELLS * N_INSIGHTS
    # A table that is large in memory is read by itself.
    assert (
        told["digests"]["reads"] <= 2 + len(NAMES) * len(told["blocks"])
        and told["digests while unfinished"]["reads"] <= 2 + 1 + 5 + 7
    )
