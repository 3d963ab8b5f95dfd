"""Synth specs in the place of a run's haystacks: what they made in the store. Part of the grid room; no Ray, no calls."""

from __future__ import annotations

from pathlib import Path

from summhay_ray.grid.spec import RunSpec, SpecError, read_fields
from summhay_ray.grid.synth_spec import is_synth
from summhay_ray.grid.synthesizing import Made, load_synth, made_by
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
    if store.files.exists(f"runs/{grid.run_id}/run.json"):
        made = made_by(store.run(grid.run_id))
    missing = [topic.name for topic in grid.topics if grid.cell_id(topic) not in made]
    if missing:
        lacks = f"{len(missing)} of its {grid.n_cells} haystacks are" if made else "its haystacks are"
        where = f"not in the store {store.uri!r}"
        raise SpecError(f"spec: haystacks: {entry}: {lacks} {where}; make them first: summhay synth {path} --store {store.uri}")
    return [one.entry for one in made.values()]
