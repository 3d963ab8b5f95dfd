"""Warns of embeddings that are all zeros. They are finite and so they are kept, but a text with one is similar to nothing.

Part of the engine room; no calls.
"""

from __future__ import annotations

import polars as pl

from summhay_ray.store import RunStore

COLUMN = "zero_vectors"


def zero_vectors_in(run: RunStore) -> tuple[str, ...]:
    """A line for each model of which the run has such embeddings."""
    # In most runs the column holds zeros alone.
    if not (run.table("raw_answers", columns=[COLUMN])[COLUMN] > 0).any():
        return ()
    counted = run.table("raw_answers", columns=["model", "key", COLUMN]).unique().group_by("model").agg(pl.sum(COLUMN))
    return tuple(
        f"{model}: {n} of its vectors are all zeros, so that their texts are similar to nothing; look at the service"
        for model, n in sorted(counted.iter_rows())
        if n
    )
