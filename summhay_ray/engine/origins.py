"""Answers that came from elsewhere than where their model is reached now. Part of the engine room; no calls.

A key knows no place: an answer of another endpoint is reused. That is right where the same model answers there, and must be said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import polars as pl

from summhay_ray.llm import ModelSettings
from summhay_ray.store import RunStore

Origins = Mapping[tuple[str, str], int]
"""(model, origin) -> answers."""


def origins_of(settings: Mapping[str, ModelSettings]) -> dict[str, str]:
    """Model -> where it is reached, for those that are not in this process."""
    return {model: one.origin for model, one in settings.items() if one.origin}


def origins_in(run: RunStore) -> Counter[tuple[str, str]]:
    """Where the answers came from that the run stands on; nothing for a run of a version that did not write it down."""
    if "origin" not in run.declared["raw_answers"].schema.names:
        return Counter()
    found = run.table("raw_answers", columns=["model", "origin"]).group_by("model", "origin").agg(pl.len())
    return Counter({(model, origin): n for model, origin, n in found.iter_rows()})


def other_origins(found: Origins, now: Mapping[str, str]) -> tuple[str, ...]:
    """A line for each model and place from where answers are reused though the model is reached elsewhere `now`."""
    return tuple(
        f"{model}: {n} answers came from {origin}, and it is reached at {now[model]} now; they are reused. Where another "
        "model answers there, give it a `revision:` in the spec, and it is asked anew"
        for (model, origin), n in sorted(found.items())
        if origin and model in now and now[model] != origin
    )
