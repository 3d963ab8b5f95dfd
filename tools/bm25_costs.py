"""Measures the peak memory and CPU seconds of our BM25, bm25s and rank_bm25, each in a separate process.

    python tools/bm25_costs.py                      # 100,000 documents, 1,000 queries, the first 1,000 documents of each
    python tools/bm25_costs.py --documents 5000 --queries 50 --also-rank-bm25

It needs bm25s (and rank-bm25). `ours` ranks with the retriever `bm25`. `command` is the whole command `summhay retrieve` on a
BEIR folder of the same texts, which also counts tokens, measures the rankings and writes the tables. Ratios are relative to
bm25s. They compare whole processes, and their increase over a process that only makes the texts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DEPTH = 1000


def texts_of(documents: int, queries: int) -> tuple[list[str], list[str]]:
    """Return texts of about 60 words with word frequencies as in a natural language, and queries of 3 to 8 words."""
    draw = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(draw.choices(letters, k=draw.randint(3, 9))) for _ in range(60_000)]
    weights = list(itertools.accumulate(1 / (place + 3) for place in range(len(words))))
    made = [" ".join(draw.choices(words, cum_weights=weights, k=draw.randint(30, 90))) for _ in range(documents)]
    asked = [" ".join(draw.choices(words, cum_weights=weights, k=draw.randint(3, 8))) for _ in range(queries)]
    return made, asked


def texts_only(documents: list[str], queries: list[str]) -> None: ...


def bm25s(documents: list[str], queries: list[str]) -> None:
    import bm25s as library

    index = library.BM25(k1=1.5, b=0.75)
    index.index(library.tokenize(documents, show_progress=False), show_progress=False)
    index.retrieve(library.tokenize(queries, show_progress=False), k=min(DEPTH, len(documents)), show_progress=False)


def rank_bm25(documents: list[str], queries: list[str]) -> None:
    from rank_bm25 import BM25Okapi

    index = BM25Okapi([text.split() for text in documents])
    for query in queries:
        index.get_scores(query.split()).argsort()[::-1][:DEPTH]


def ours(documents: list[str], queries: list[str]) -> None:
    from summhay_ray import retrieve

    corpus = retrieve.Corpus(
        "made",
        tuple(map(str, range(len(documents)))),
        tuple(documents),
        tuple(retrieve.Query(str(n), q) for n, q in enumerate(queries)),
    )
    for ranking in retrieve.rankings(retrieve.make("bm25", 0), corpus):
        assert len(ranking[:DEPTH]) == min(DEPTH, len(documents))


def command(documents: list[str], queries: list[str]) -> None:
    from summhay_ray import api

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "beir"
        (folder / "qrels").mkdir(parents=True)
        for file, texts in (("corpus", documents), ("queries", queries)):
            lines = (json.dumps({"_id": str(n), "text": text}) + "\n" for n, text in enumerate(texts))
            (folder / f"{file}.jsonl").write_text("".join(lines), encoding="utf-8")
        gold = "".join(f"{n}\t{n}\t1\n" for n in range(len(queries)))
        (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + gold, encoding="utf-8")
        fields = {"kind": "retrieval", "corpora": [str(folder)], "retrievers": ["bm25"], "depth": DEPTH}
        api.specs.retrieve(fields, store=str(Path(name) / "store"), executor="inline")


WAYS = {way.__name__: way for way in (texts_only, bm25s, ours, command, rank_bm25)}


def measure(way: str, documents: int, queries: int) -> dict[str, Any]:
    """Return the peak memory (MiB) and CPU seconds of a process that ranks in one `way`. The seconds exclude the time for making
    the texts."""
    texts = texts_of(documents, queries)
    began = time.process_time()
    WAYS[way](*texts)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"way": way, "mib": round(peak), "cpu_s": round(time.process_time() - began, 2)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--documents", type=int, default=100_000)
    options.add_argument("--queries", type=int, default=1000)
    options.add_argument("--also-rank-bm25", action="store_true")
    options.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.way:
        print(json.dumps(measure(given.way, given.documents, given.queries)))
        return
    found = {}
    for way in list(WAYS)[: None if given.also_rank_bm25 else -1]:
        words = [sys.executable, __file__, "--way", way, "--documents", str(given.documents), "--queries", str(given.queries)]
        found[way] = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    idle, other = found["texts_only"]["mib"], found["bm25s"]
    for way, row in found.items():
        row["memory_ratio"] = round(row["mib"] / other["mib"], 2)
        row["added_memory_ratio"] = round((row["mib"] - idle) / (other["mib"] - idle), 2)
        row["cpu_ratio"] = round(row["cpu_s"] / other["cpu_s"], 2)
        print(json.dumps({**row, "way": way}))


if __name__ == "__main__":
    main()
