"""Warns of reused answers that came from another endpoint than the model's present one. Part of the engine room; no calls.

The key of an answer does not include the endpoint, so an answer from another endpoint is reused. That is right if the same model
answers at both, and the user must know of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import polars as pl

from summhay_ray.llm import ModelSettings
from summhay_ray.store import RunStore

Origins = Mapping[tuple[str, str], int]
"""(model, origin) -> number of answers."""


def origins_of(settings: Mapping[str, ModelSettings]) -> dict[str, str]:
    """Model -> the origin of its answers now, for models outside this process."""
    return {name: model.origin for name, model in settings.items() if model.origin}


def origins_in(run: RunStore) -> Counter[tuple[str, str]]:
    """The origins of the run's answers; empty for a run of a version that did not record them."""
    if "origin" not in run.declared["raw_answers"].schema.names:
        return Counter()
    counted = run.table("raw_answers", columns=["model", "origin"]).group_by("model", "origin").agg(pl.len())
    return Counter({(model, origin): n for model, origin, n in counted.iter_rows()})


def other_origins(used: Origins, now: Mapping[str, str]) -> tuple[str, ...]:
    """A line for each model and origin of reused answers that differs from the model's origin `now`."""
    return tuple(
        f"{model}: {n} answers came from {origin}, and it is reached at {now[model]} now; they are reused. Where another "
        "model answers there, give it a `revision:` in the spec, and it is asked anew"
        for (model, origin), n in sorted(used.items())
        if origin and model in now and now[model] != origin
    )
