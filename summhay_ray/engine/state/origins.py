"""Warns of reused answers that came from another endpoint than the model's present one. Part of the engine room; no calls.

The key of an answer does not include the endpoint, so an answer from another endpoint is reused. That is right if the same model
answers at both, and the user must know of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import polars as pl

from summhay_ray.llm import ModelSettings

Origins = Mapping[tuple[str, str], int]
"""(model, origin) -> number of answers."""


def origins_of(settings: Mapping[str, ModelSettings]) -> dict[str, str]:
    """Model -> the origin of its answers now, for models outside this process."""
    return {name: model.origin for name, model in settings.items() if model.origin}


def origins_in(answers: pl.DataFrame) -> Counter[tuple[str, str]]:
    """The origins of a run's answers, by the columns `model` and `origin` of its `raw_answers`."""
    counted = answers.group_by("model", "origin").agg(pl.len())
    return Counter({(model, origin): n for model, origin, n in counted.iter_rows()})


def other_origins(used: Origins, now: Mapping[str, str]) -> tuple[str, ...]:
    """A line for each model and origin of reused answers that differs from the model's origin `now`."""
    return tuple(
        f"{model}: {n} answers came from {origin}, and it is reached at {now[model]} now; they are reused. Where another "
        "model answers there, give it a `revision:` in the spec, and it is asked anew"
        for (model, origin), n in sorted(used.items())
        if origin and model in now and now[model] != origin
    )
