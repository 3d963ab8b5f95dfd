"""The haystacks of a synthesis as entries in another spec."""

from __future__ import annotations

from summhay_ray.benchmark import Benchmark, Store
from summhay_ray.benchmarks.synth.recipe import Recipe
from summhay_ray.benchmarks.synth.tables import Made, made_by
from summhay_ray.errors import SpecError


def entries_of(recipe: Recipe, run_id: str, store: Store, path: str) -> list[str]:
    """The entries of a synthesis's haystacks in the store, in its order. Raises SpecError if one is missing.

    `path`: the synthesis's spec, for the message.
    """
    made: dict[str, Made] = {}
    tried: dict[str, bool] = {}
    if store.files.exists(f"runs/{run_id}/run.json"):
        run = store.run(run_id)
        made, tried = made_by(run), Benchmark.finished_items(run)
    missing = [cell for cell in map(recipe.cell_id, recipe.topics) if cell not in made]
    if not missing:
        return [haystack.entry for haystack in made.values()]
    synth = f"summhay synth {path} --store {store.uri}"
    if failed := sum(not tried.get(cell, True) for cell in missing):
        raise SpecError(_failed(recipe, run_id, store, failed, len(missing) - failed, synth))
    lack = f"{len(missing)} of its {len(recipe.topics)} haystacks are" if made else "its haystacks are"
    raise SpecError(f"{lack} not in the store {store.uri!r}; make them first: {synth}")


def _failed(recipe: Recipe, run_id: str, store: Store, failed: int, others: int, synth: str) -> str:
    """The message for topics that failed permanently: the same answers would fail again.

    `failed`: their number; `others`: how many more are not made yet; `synth`: the command that makes haystacks.
    """
    look = f"summhay failures {run_id} --store {store.uri} says why"
    why = f"{failed} of its {len(recipe.topics)} topics failed for good ({look})"
    more = f", {others} more are not made yet" if others else ""
    again = f"reword or remove them (the others cost nothing again) or give another seed (all are new), then: {synth}"
    return f"{why}{more}; {again}; or list the finished ones by their `entry`, which the same command prints with --json"
