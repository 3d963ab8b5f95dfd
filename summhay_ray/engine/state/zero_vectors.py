"""Warns of embeddings that are all zeros. They are finite and so they are kept, but a text with one is similar to nothing.

Part of the engine room; no calls.
"""

from __future__ import annotations

import polars as pl


def zero_vectors_in(answers: pl.DataFrame) -> tuple[str, ...]:
    """A line for each model of which a run has such embeddings. `answers`: `model` and `zero_vectors` of its `raw_answers`."""
    counted = answers.group_by("model").agg(pl.sum("zero_vectors"))
    return tuple(
        f"{model}: {n} of its vectors are all zeros, so that their texts are similar to nothing; look at the service"
        for model, n in sorted(counted.iter_rows())
        if n
    )
