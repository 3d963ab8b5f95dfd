"""Synth specs in the place of a run's haystacks: what they made in the store. Part of the grid room; no Ray, no calls."""

from __future__ import annotations

from pathlib import Path

from summhay_ray.grid.spec import RunSpec, SpecError, read_fields
from summhay_ray.grid.synth_spec import is_synth
from summhay_ray.grid.synthesizing import Made, Synthesizing, load_synth, made_by
from summhay_ray.store import Store

_ENDINGS = (".yaml", ".yml")


def names_synth(entry: str) -> bool:
    """Whether an entry of a spec's haystacks is a synth spec."""
    return entry.endswith(_ENDINGS)


def is_synth_file(path: str) -> bool:
    """Whether the YAML file at `path` is a synth spec. Raises SpecError where it cannot be read."""
    return is_synth(read_fields(path)[0])


def with_synthesized(spec: RunSpec, folder: Path, store: Store) -> RunSpec:
    """The spec with the haystacks of its synth specs, as entries of the store, in their place. Raises SpecError, StoreError."""
    entries: list[str] = []
    for entry in spec.haystacks:
        found = entries_of(entry, folder, store) if names_synth(entry) else [entry]
        entries += [one for one in found if one not in entries]
    return spec.model_copy(update={"haystacks": entries})


def entries_of(entry: str, folder: Path, store: Store) -> list[str]:
    """The entries of the haystacks that a synth spec made in the store, in its order. Raises SpecError where one is missing."""
    path = next((path for path in (folder / entry, Path(entry)) if path.is_file()), None)
    if path is None:
        raise SpecError(f"spec: haystacks: no file {entry!r} in {str(folder)!r}; paths start from the spec's folder")
    grid = load_synth(path)
    made: dict[str, Made] = {}
    tried: dict[str, bool] = {}
    if store.files.exists(f"runs/{grid.run_id}/run.json"):
        run = store.run(grid.run_id)
        made, tried = made_by(run), run.finished("cell")
    missing = [cell for cell in map(grid.cell_id, grid.topics) if cell not in made]
    if not missing:
        return [one.entry for one in made.values()]
    synth = f"summhay synth {path} --store {store.uri}"
    if failed := sum(not tried.get(cell, True) for cell in missing):
        raise SpecError(f"spec: haystacks: {entry}: {_failed(grid, store, (failed, len(missing) - failed), synth)}")
    lack = f"{len(missing)} of its {grid.n_cells} haystacks are" if made else "its haystacks are"
    raise SpecError(f"spec: haystacks: {entry}: {lack} not in the store {store.uri!r}; make them first: {synth}")


def _failed(grid: Synthesizing, store: Store, n: tuple[int, int], synth: str) -> str:
    """What is so, and what to do, where topics gave no haystack and the same answers would give none again.

    `n`: how many these are, and how many more are not made yet.
    """
    failed, others = n
    why = f"{failed} of its {grid.n_cells} topics failed for good (summhay failures {grid.run_id} --store {store.uri} says why)"
    more = f", {others} more are not made yet" if others else ""
    again = f"reword them or take them out (the others cost nothing again) or give another seed (all are new), then: {synth}"
    return f"{why}{more}; {again}; or name those that are done by their `entry`, which the same with --json gives"
