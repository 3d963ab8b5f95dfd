"""Measures how many stored judgments are scored per second: by this package, by the release's script, and by an equivalent loop.

    python tools/score_speed.py --data FOLDER --script FILE --store STORE

`FOLDER` has the released `topic_news1.json` and `topic_news2.json`. `--script` is `utils_eval.py` of
https://github.com/salesforce/summary-of-a-haystack. Two of its functions are timed on both haystacks, from dicts in memory and
from files. `compute_single_sample_results`, with its defaults, gives the five figures of a summary. `compute_full_results` gives
only the figures of the systems; the loop computes these faster.

For our scoring, the released judgments are repeated as other summaries until there are a million. It computes the figures of
every summary and system from rows in memory, without intervals, with a piece on each core as in `summhay score`. `--store` times
the whole scoring of the store's first run, which is read several times: every figure and every interval, pooled.

The methods run in turn. For each, the fastest time is printed, by the clock and by processor time, which other work on the
machine disturbs less.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl

from summhay_ray.benchmarks.summhay.haystacks.metadata import BY_NAME
from summhay_ray.benchmarks.summhay.results.judges import SUMMARIES_AT_ONCE
from summhay_ray.benchmarks.summhay.results.scores import score_run
from summhay_ray.haystack import imported_rows, read_released
from summhay_ray.metrics import score_columns
from summhay_ray.store import Store

CITATION = ("citation_f1", "citation_precision", "citation_recall")
VALUES = ("coverage", "joint", *CITATION)
SCORE = {"FULL_COVERAGE": 1.0, "PARTIAL_COVERAGE": 0.5, "NO_COVERAGE": 0.0}
CITED = re.compile(r"\[([\d, ]+)\]")
NAMES = ("topic_news1.json", "topic_news2.json")
Frames = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]


def released_frames(data: Path, judgments: int) -> Frames:
    """Return the summaries, judgments and gold documents of both haystacks, repeated under other ids until there are enough."""
    summaries, judged, gold = [], [], []
    for name in NAMES:
        file = read_released((data / name).read_bytes(), name)
        rows, haystack_id = imported_rows(file), file.haystack.haystack_id
        summaries += rows.summaries
        judged += rows.judgments
        gold += [(haystack_id, insight, sorted(documents)) for insight, documents in file.haystack.gold.items()]
    schema = {"haystack_id": pl.String, "insight_id": pl.String, "documents": pl.List(pl.Int64)}
    times = -(-judgments // len(judged))
    many = [
        pl.concat([BY_NAME[name].frame(rows).with_columns(pl.col("cell_id") + f" {turn:05d}") for turn in range(times)])
        for name, rows in (("summaries", summaries), ("judgments", judged))
    ]
    return many[0].sort("cell_id"), many[1].sort("cell_id", "judge", "position"), pl.DataFrame(gold, schema=schema, orient="row")


def by_columns(frames: Frames) -> tuple[pl.DataFrame, dict[str, tuple[float, ...]]]:
    """Return the means of VALUES, as `summhay score` computes them: a row per summary, and system -> its means."""
    summaries, judgments, gold = frames

    def part(start: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        mine = summaries.slice(start, SUMMARIES_AT_ONCE)
        first, last = (
            judgments["cell_id"].search_sorted(mine["cell_id"][end], side) for end, side in ((0, "left"), (-1, "right"))
        )
        scored, odd = score_columns(mine, judgments.slice(first, last - first), gold, "release")
        assert not len(odd)
        means = scored.group_by("summary").agg(pl.col(VALUES).mean()).with_columns(pl.col("summary") + start)
        systems = scored.select("summary", *VALUES).with_columns(system=mine["system"].gather(scored["summary"]))
        counts = [pl.col(name).count().alias(f"n_{name}") for name in VALUES]
        return means, systems.group_by("system").agg(pl.col(VALUES).sum(), *counts)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        means, sums = zip(*threads.map(part, range(0, summaries.height, SUMMARIES_AT_ONCE)), strict=True)
    added = pl.concat(sums).group_by("system").sum()
    shares = added.select("system", *(pl.col(name) / pl.col(f"n_{name}") for name in VALUES))
    return pl.concat(means), {row[0]: row[1:] for row in shares.iter_rows()}


def as_dicts(frames: Frames) -> list[dict[str, Any]]:
    """Return each summary with its judgments and gold documents, as in a released file."""
    summaries, judgments, gold = frames
    documents = {(haystack, insight): set(found) for haystack, insight, found in gold.iter_rows()}
    judged = defaultdict(list)
    for cell, insight, coverage, bullet in judgments.select("cell_id", "insight_id", "coverage", "bullet_id").iter_rows():
        judged[cell].append({"insight_id": insight, "coverage": coverage, "bullet_id": json.loads(bullet) if bullet else None})
    wanted = summaries.select("cell_id", "system", "haystack_id", "bullets").iter_rows()
    return [
        {
            "system": system,
            "bullets": bullets,
            "judgments": judged[cell],
            "gold": {one["insight_id"]: documents[haystack, one["insight_id"]] for one in judged[cell]},
        }
        for cell, system, haystack, bullets in wanted
    ]


def by_rows(summaries: list[dict[str, Any]]) -> dict[str, tuple[float, ...]]:
    """Return system -> means of VALUES, computed judgment by judgment (section 4.1)."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for summary in summaries:
        values = found[summary["system"]]
        for judgment in summary["judgments"]:
            coverage, f1 = SCORE[judgment["coverage"]], 0.0
            if coverage:
                try:
                    place = int(judgment["bullet_id"])
                except (TypeError, ValueError):
                    place = -1
                bullet, gold = summary["bullets"][place - 1], summary["gold"][judgment["insight_id"]]
                cited = {int(number) for group in CITED.findall(bullet) for number in group.split(",") if number.strip()}
                right = len(cited & gold)
                precision, recall = right / len(cited) if cited else 0.0, right / len(gold) if gold else 0.0
                f1 = 2 * precision * recall / (precision + recall) if right else 0.0
                for value, figure in zip(CITATION, (f1, precision, recall), strict=True):
                    values[value].append(figure)
            values["coverage"].append(coverage)
            values["joint"].append(coverage * f1)
    return {name: tuple(sum(values[value]) / len(values[value]) for value in VALUES) for name, values in found.items()}


def seconds(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the elapsed and the processor seconds."""
    began, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the released haystacks")
    parser.add_argument("--judgments", type=int, default=1_000_000, help="minimum number of judgments")
    parser.add_argument("--script", type=Path, help="the release's utils_eval.py")
    parser.add_argument("--store", help="a store whose first run is scored")
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    frames = released_frames(asked.data, asked.judgments)
    rows = as_dicts(frames)
    few = sum(len(row["judgments"]) for row in rows[: len(rows) // 10])
    work: dict[str, tuple[int, Callable[[], Any]]] = {
        "by_columns": (frames[1].height, lambda: by_columns(frames)),
        "by_rows": (few, lambda: by_rows(rows[: len(rows) // 10])),
    }
    if asked.script:
        specified = importlib.util.spec_from_file_location("utils_eval", asked.script)
        assert specified and specified.loader
        script = importlib.util.module_from_spec(specified)
        specified.loader.exec_module(script)
        files = [str(asked.data / name) for name in NAMES]
        topics = [json.loads(Path(file).read_bytes()) for file in files]
        count = sum(
            len(judged) for topic in topics for query in topic["subtopics"] for judged in query["eval_summaries"].values()
        )

        def summaries_of(topics: Iterable[dict[str, Any]]) -> None:
            for topic in topics:
                for query in topic["subtopics"]:
                    for name, judged in query["eval_summaries"].items():
                        script.compute_single_sample_results(query["summaries"][name], judged, topic)

        work["script_summaries"] = count, lambda: summaries_of(topics)
        work["script_summaries_from_files"] = count, lambda: summaries_of(json.loads(Path(file).read_bytes()) for file in files)
        work["script_systems"] = count, lambda: [script.compute_full_results(topic) for topic in topics]
        work["script_systems_from_files"] = count, lambda: [script.compute_full_results(file) for file in files]
    if asked.store:
        store = Store(asked.store)
        run = store.run(store.run_ids()[0])
        held = run.digests()["judgments"]["rows"]
        work["stored_run"] = held, lambda: score_run(run)
    best = dict.fromkeys(work, (float("inf"), float("inf")))
    for _ in range(asked.turns):
        for name, (_, does) in work.items():
            clock, processor = seconds(does)
            best[name] = min(best[name][0], clock), min(best[name][1], processor)
    (means, columns), loops = by_columns(frames), by_rows(rows)
    assert means.height == len(rows)
    assert columns.keys() == loops.keys()
    assert all(abs(a - b) < 1e-9 for name in columns for a, b in zip(columns[name], loops[name], strict=True))
    print(json.dumps({"judgments": frames[1].height, "cores": os.cpu_count()}))
    for name, (clock, processor) in best.items():
        count = work[name][0]
        print(f"{name:28}{count / clock:12,.0f} judgments a second, {processor / count * 1e6:.2f} us of processor time each")


if __name__ == "__main__":
    main()
