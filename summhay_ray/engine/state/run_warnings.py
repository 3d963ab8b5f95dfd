"""Warnings about a stored run: missing or damaged files, a short log, answers from other endpoints, zero vectors.

An answer's key does not include the endpoint, so an answer from another endpoint is reused. That is right if the same model
answers at both, but the user must know about it. Embeddings that are all zeros are finite, so they are kept, but a text with one
is similar to nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import polars as pl

from summhay_ray.llm import ModelSettings
from summhay_ray.outcome import MICROS
from summhay_ray.store import LogIndex, Money, RunStore, Store, StoreError

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


def zero_vectors_in(answers: pl.DataFrame) -> tuple[str, ...]:
    """A line for each model with zero vectors in a run. `answers`: `model` and `zero_vectors` of its `raw_answers`."""
    counted = answers.group_by("model").agg(pl.sum("zero_vectors"))
    return tuple(
        f"{model}: {n} of its vectors are all zeros, so that their texts are similar to nothing; look at the service"
        for model, n in sorted(counted.iter_rows())
        if n
    )


def short_log(run: RunStore, money: Money) -> tuple[str, ...]:
    """A line if the log records less spending than the run's money records; else none."""
    if not money.missing:
        return ()
    return (
        f"the answers in {run.store.files.where('answers')} cost {money.missing / MICROS:.6f} dollars less than the run's money "
        "records say; these count as spent, so that no budget is overrun",
    )


def damaged_log(store: Store, index: LogIndex) -> list[str]:
    """A line if records of the log that were read are damaged."""
    if not index.damaged:
        return []
    return [f"{index.damaged} records of the answers' log are damaged: run `summhay doctor --store {store.uri}`"]


def lost_inputs(run: RunStore, objects: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each of these objects (kind, sha256) that is missing or damaged."""
    lines = []
    for kind, digest in sorted(set(objects)):
        try:
            run.store.get_object(kind, digest)
        except StoreError as error:
            lines.append(str(error))
    return lines
