"""How many stored judgments a second are scored: ours, and a loop over dicts that does what the release's script does.

    python tests/perf/score_speed.py --data shared/data/summhay                      # a million judgments
    python tests/perf/score_speed.py --data shared/data/summhay --judgments 100000

The released judgments, as often as it takes, each time as other summaries. Both in turn, each in this process, from rows in
memory to the figures of every system without intervals. Prints one JSON line: the quickest of each, judgments a second.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from summhay_ray.benchmarks.summhay.tables import BY_NAME
from summhay_ray.haystack import imported_rows, read_released
from summhay_ray.metrics import score_columns

VALUES = ("coverage", "citation_f1", "joint")
SCORE = {"FULL_COVERAGE": 1.0, "PARTIAL_COVERAGE": 0.5, "NO_COVERAGE": 0.0}
CITED = re.compile(r"\[([\d, ]+)\]")
Frames = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]


def released(data: Path, judgments: int) -> Frames:
    """Summaries, judgments and gold documents of both haystacks, over and over under other ids until there are enough."""
    summaries, judged, gold = [], [], []
    for name in ("topic_news1.json", "topic_news2.json"):
        file = read_released((data / name).read_bytes(), name)
        rows, haystack_id = imported_rows(file), file.haystack.haystack_id
        summaries += rows.summaries
        judged += rows.judgments
        gold += [(haystack_id, insight, sorted(documents)) for insight, documents in file.haystack.gold().items()]
    schema = {"haystack_id": pl.String, "insight_id": pl.String, "documents": pl.List(pl.Int64)}
    times = -(-judgments // len(judged))
    many = [
        pl.concat([BY_NAME[name].frame(rows).with_columns(pl.col("cell_id") + f" {turn:05d}") for turn in range(times)])
        for name, rows in (("summaries", summaries), ("judgments", judged))
    ]
    return many[0].sort("cell_id"), many[1].sort("cell_id", "judge", "position"), pl.DataFrame(gold, schema=schema, orient="row")


def by_columns(frames: Frames) -> dict[str, tuple[float, ...]]:
    """System -> means of VALUES, as we score."""
    summaries, judgments, gold = frames
    scored, odd = score_columns(summaries, judgments, gold, "release")
    assert not len(odd)
    systems = scored.select("summary", *VALUES).join(summaries.select("system").with_row_index("summary"), on="summary")
    return {row[0]: row[1:] for row in systems.group_by("system").agg(pl.col(VALUES).mean()).iter_rows()}


def as_dicts(frames: Frames) -> list[dict[str, Any]]:
    """Each summary with its judgments and gold documents, as a released file holds them."""
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
    """System -> means of VALUES, a judgment at a time (section 4.1)."""
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
                values["citation_f1"].append(f1)
            values["coverage"].append(coverage)
            values["joint"].append(coverage * f1)
    return {name: tuple(sum(values[value]) / len(values[value]) for value in VALUES) for name, values in found.items()}


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long it takes, and what it gives."""
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the released haystacks")
    parser.add_argument("--judgments", type=int, default=1_000_000, help="how many at least")
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    frames = released(asked.data, asked.judgments)
    rows, ours, loop = as_dicts(frames), [], []
    for _ in range(asked.turns):
        took, columns = seconds(lambda: by_columns(frames))
        ours.append(took)
        took, loops = seconds(lambda: by_rows(rows))
        loop.append(took)
        assert columns.keys() == loops.keys()
        assert all(abs(a - b) < 1e-9 for name in columns for a, b in zip(columns[name], loops[name], strict=True))
    count = frames[1].height
    told = {"judgments": count, "by_columns": round(count / min(ours)), "by_rows": round(count / min(loop))}
    print(json.dumps({**told, "ratio": round(min(loop) / min(ours), 1), "systems": len(columns)}))


if __name__ == "__main__":
    main()
