"""How many tokens a second local models embed: as a run does, and by a bare `encode` loop, in turn.

    python tests/perf/embed_speed.py --model all-MiniLM-L6-v2                   # in this process
    python tests/perf/embed_speed.py --model all-MiniLM-L6-v2 --actors 1        # and by a run's pool of actors on Ray

Both embed the same texts, with the same threads and as many texts a batch. A run also stores its vectors. Loading the model
counts for neither and is shown apart; so is the start of the pool. Prints one JSON line: seconds of processor and of wall (the
quickest turn of each), tokens a second, and the share of the bare loop's speed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from big_haystacks import write_haystacks

from summhay_ray import api
from summhay_ray.benchmarks.retrieval import Computing, StoredModels
from summhay_ray.encoders import Encoding, find_model, known_revision
from summhay_ray.store import Store

UNBOUNDED = 10**9
"""Tokens a batch, so that the number of texts alone makes the batches."""


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds of processor (all threads) and of wall."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - began


def measured(model: str, texts: list[str], batch: int, turns: int) -> dict[str, Any]:
    """Both ways in turn, in this process."""
    from sentence_transformers import SentenceTransformer

    loaded: list[Any] = []
    load = timed(lambda: loaded.append(SentenceTransformer(str(find_model(model).folder or model), device="cpu")))
    encoding, tokens = Encoding(model, known_revision(model)), 0
    taken: dict[str, list[tuple[float, float]]] = {"bare": [], "ours": []}
    with tempfile.TemporaryDirectory(prefix="embed-speed-") as folder:
        models = StoredModels(Store(folder), Computing(UNBOUNDED, batch))
        asyncio.run(models.embed(encoding, ["a text that loads the model"]))

        def ours(these: list[str]) -> None:
            nonlocal tokens
            tokens = int(asyncio.run(models.embed(encoding, these)).n_tokens.sum())

        for turn in range(turns):
            # What is stored is not computed again, so each turn has other texts.
            these = [f"{turn} {text}" for text in texts]
            taken["ours"].append(timed(lambda these=these: ours(these)))
            taken["bare"].append(timed(lambda these=these: loaded[0].encode(these, batch_size=batch, show_progress_bar=False)))
    least = {name: [min(turn[which] for turn in found) for which in (0, 1)] for name, found in taken.items()}
    figures = {name: {"processor_s": cpu, "wall_s": wall, "tokens_per_s": tokens / wall} for name, (cpu, wall) in least.items()}
    share = {which: least["bare"][at] / least["ours"][at] for at, which in enumerate(("processor", "wall"))}
    return {"texts": len(texts), "tokens": tokens, "load": {"processor_s": load[0], "wall_s": load[1]}, **figures, "share": share}


def main(arguments: list[str] | None = None) -> None:
    """See the top."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--documents", type=int, default=128)
    parser.add_argument("--words", type=int, default=200, help="of each document")
    parser.add_argument("--batch", type=int, default=16, help="texts a batch")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--actors", type=int, default=0, help="also a run on Ray with as many actors")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="embed-speed-") as name:
        (path,) = write_haystacks(Path(name), 1, documents=asked.documents, words=asked.words)
        texts = [one["document_text"] for one in json.loads(path.read_bytes())["documents"]]
        found = measured(asked.model, texts, asked.batch, asked.turns)
        if asked.actors:
            pool = {"actors": asked.actors, "batch_tokens": UNBOUNDED, "batch_size": asked.batch}
            fields = {"haystacks": [str(path)], "retrievers": [{"embed": asked.model}], "resources": {"embed": pool}}
            result = api.specs.retrieve(fields, store=str(Path(name) / "store"), executor="ray")
            found["pool"] = {
                **result.computing,
                "tokens_per_s_an_actor": result.computing["tokens"] / result.computing["compute_s"],
            }
    print(json.dumps({"model": asked.model, "batch": asked.batch, **found}, default=float))


if __name__ == "__main__":
    main()
