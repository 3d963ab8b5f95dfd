"""A run whose cells are the summaries that another run holds: what is to be judged, and by whom. Part of the grid room; no Ray.

To everything that answers a grid (lanes, workers, ledger, commits) it is a grid without retrievers and summarizers.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from summhay_ray import judge
from summhay_ray.grid.cells import REACH, Cell, Grid, Unit, check_grid, grid_of, read_prompts, semantic_hash
from summhay_ray.grid.sources import OUTLINES, LateOutlines, stored_haystacks, stored_outlines
from summhay_ray.grid.spec import RejudgeSpec, RunSpec, SpecError, parse_rejudge, read_fields
from summhay_ray.grid.synthesizing import KIND as SYNTH
from summhay_ray.grid.synthesizing import stored_synthesizing
from summhay_ray.records import Summary
from summhay_ray.store import Block, Manifest, RunStore, Store, to_records

KIND = "rejudge"
SUMMARIES_A_SLICE = 512
_SHARED = ("limits", "workers", "endpoint_url", "seed")
_OWN = ("budget_usd", "stage_budgets_usd", "model_budgets_usd")


@dataclass(frozen=True, slots=True)
class Slice:
    """Some of the summaries of one block of the judged run, haystack by haystack."""

    block: Block
    cells: tuple[Cell, ...]

    def summaries(self, run: RunStore) -> Iterator[tuple[Cell, Summary]]:
        """The cells with their summaries, in order."""
        rows = _of_block(run, self.block).table("summaries", [cell.cell_id for cell in self.cells])
        found = {one.cell_id: one for one in to_records("summaries", rows)}
        return ((cell, found[cell.cell_id]) for cell in self.cells)


def slice_text(run_id: str, part: Slice) -> str:
    """A slice of a run's summaries as it travels."""
    cells = [[cell.cell_id, *astuple(cell.unit), cell.repeat, cell.system] for cell in part.cells]
    return json.dumps({"run": run_id, "block": part.block.to_json(), "cells": cells})


def read_slice(text: str) -> tuple[str, Slice]:
    """(run, slice) of `slice_text`."""
    found = json.loads(text)
    cells = tuple(Cell(one[0], Unit(*one[1:5]), 0, *one[5:]) for one in found["cells"])
    return found["run"], Slice(Block.from_json(found["block"]), cells)


@dataclass(frozen=True)
class Rejudging(Grid):
    """A grid whose summaries are there already; `source` is the run that holds them, as it stood when it was opened."""

    source: RunStore
    asked: Mapping[str, Mapping[str, Collection[str]]] = field(default_factory=dict, repr=False)
    """Cascade's label -> cell -> the insights that it asks about."""

    def asked_of(self, cell_id: str) -> dict[str, list[str]]:
        """Cascade's label -> the insights of a cell that it asks about."""
        return {label: sorted(cells.get(cell_id, ())) for label, cells in self.asked.items()}

    @functools.cached_property
    def run_id(self) -> str:
        """`j` and 12 hex digits of the judged run's id and the semantic part of the judges."""
        judges = sorted(self.identity_of(one) for one in self.spec.judges)
        return "j" + semantic_hash({"of": self.source.run_id, "judges": judges})[:12]

    @functools.cached_property
    def slices(self) -> Sequence[Slice]:
        """All summaries. What holds no summary (a cell that failed, a judgment without one) is not here."""
        return tuple(_slices(self.source))

    def units(self) -> Iterator[Unit]:
        """The units that have a summary, each once."""
        return iter(self._by_unit)

    def cells_of(self, unit: Unit) -> Iterator[Cell]:
        """The summaries of a unit."""
        return iter(self._by_unit[unit])

    @property
    def n_cells(self) -> int:
        """How many summaries there are."""
        return sum(len(one.cells) for one in self.slices)

    @functools.cached_property
    def _by_unit(self) -> Mapping[Unit, Sequence[Cell]]:
        found: dict[Unit, list[Cell]] = {}
        for one in self.slices:
            for cell in one.cells:
                found.setdefault(cell.unit, []).append(cell)
        return found


def _of_block(run: RunStore, block: Block) -> RunStore:
    """The run as if this block were all of it. Blocks never change, whatever is merged meanwhile."""
    return RunStore(run.store, run.run_id, Manifest(number=1, blocks=(block,)))


def _slices(run: RunStore) -> Iterator[Slice]:
    """The summaries block by block: the memory of one block is held at a time."""
    blocks = run.manifest().blocks
    won: dict[str, tuple[bool, int]] = {}
    for place, block in enumerate(blocks):
        for unit, again in _of_block(run, block).finished("cell").items():
            won[unit] = max(won.get(unit, (False, 0)), (not again, place))
    seen: set[str] = set()
    for place, block in enumerate(blocks):
        if "summaries" not in block.slices:
            continue
        cells = []
        rows = _of_block(run, block).table("summaries").drop("bullets").sort("haystack_id", "subtopic_id", "cell_id")
        for row in rows.iter_rows(named=True):
            if won.get(row["cell_id"], (True, place))[1] == place and row["cell_id"] not in seen:
                seen.add(row["cell_id"])
                shown = Unit(row["haystack_id"], row["subtopic_id"], row["retriever"], row["ordering"])
                cells.append(Cell(row["cell_id"], shown, 0, row["repeat"], row["system"]))
        for start in range(0, len(cells), SUMMARIES_A_SLICE):
            yield Slice(block, tuple(cells[start : start + SUMMARIES_A_SLICE]))


@dataclass(frozen=True, slots=True)
class Wish:
    """Who is to judge: names of judges; a spec's path, whose judges (all, where none is named) and settings count; overrides."""

    judges: tuple[str, ...] = ()
    spec: str | None = None
    overrides: tuple[str, ...] = ()


def load_rejudging(run: RunStore, wish: Wish) -> Rejudging:
    """Check every name, before anything is paid. Raises SpecError, StoreError.

    A judge that the spec, else the run itself, has under that name is that judge; how any other model is reached, and what it
    costs, is taken from there where the model stands there.
    """
    record = run.record
    if record["kind"] == KIND:
        raise SpecError(f"{run.run_id} holds judgments of the summaries of {record['of']}; give that run")
    if record["kind"] == SYNTH:
        raise SpecError(f"{run.run_id} holds haystacks and no summaries; give a run on them")
    fields, folder = read_fields(wish.spec) if wish.spec else (dict(record.get("spec", {})), None)
    own = _OWN if wish.spec else ()
    # A field that no spec has is refused below, with the nearest that one has.
    unknown = {name: fields[name] for name in fields if name not in RunSpec.model_fields}
    chosen = {**unknown, **{name: fields[name] for name in (*_SHARED, *own) if fields.get(name) is not None}}
    for name in ("judges", "summarizers"):
        if not isinstance(fields.get(name, []), list):
            raise SpecError(f"{wish.spec or 'rejudge'}: {name}: expected a list")
    listed = [_entry(name, fields) for name in wish.judges] or (fields.get("judges", []) if wish.spec else [])
    if not listed:
        raise SpecError("no judge is named: give --judge NAME, such as offline, or --spec FILE with judges")
    where = wish.spec or "rejudge"
    first = parse_rejudge({"judges": listed}, where)
    asked = {*(one.model for one in first.judges), *first.partners()}
    spec = parse_rejudge(_only_of(asked, {**chosen, "judges": listed}), where, wish.overrides)
    kept = record.get("prompts", {})
    prompts = {one.prompt: kept[one.prompt] for one in spec.judges if one.prompt and folder is None and one.prompt in kept}
    if missing := [one for one in spec.judges if one.prompt and one.prompt not in prompts]:
        prompts |= read_prompts(spec.model_copy(update={"judges": missing}), folder or Path.cwd())
    grid = _rejudging(run.at(), spec, prompts, record)
    check_grid(grid)
    return grid


def free_of(grid: Rejudging) -> Rejudging:
    """The same summaries judged by the free judge, as a cascade asks it."""
    workers = {} if grid.spec.workers is None else {"workers": grid.spec.workers}
    spec = parse_rejudge({"judges": ["offline"], **workers})
    return replace(grid, spec=spec, prompts={}, asked={})


def _entry(name: str, fields: Mapping[str, Any]) -> Any:
    """A judge's entry: the one that has this name, or one made of the name and of how its model is reached."""
    judges = [one if isinstance(one, Mapping) else {"model": one} for one in fields.get("judges", [])]
    for entry in judges:
        if name in (entry.get("name"), entry.get("model") if not entry.get("name") else None):
            return entry
    named = judge.parse_name(name)
    model, strategy = judge.strategy_of(named)
    label = {} if strategy == judge.default_strategy(model) else {"name": named.text}
    summarizers = [one for one in fields.get("summarizers", []) if isinstance(one, Mapping)]
    like = next((one for one in [*judges, *summarizers] if one.get("model") == model), {})
    return {"model": model, "strategy": strategy, **label, **{part: like[part] for part in REACH if like.get(part) is not None}}


def _only_of(asked: set[str], fields: dict[str, Any]) -> dict[str, Any]:
    """The fields without limits and budgets of models that judge nothing here, which a run's spec has for its own."""
    of_models = {name: fields[name] for name in ("limits", "model_budgets_usd") if isinstance(fields.get(name), Mapping)}
    return {**fields, **{name: {model: one[model] for model in one if model in asked} for name, one in of_models.items()}}


def _rejudging(source: RunStore, spec: RejudgeSpec, prompts: Mapping[str, str], record: Mapping[str, Any]) -> Rejudging:
    store = source.store
    entries = ((entry["haystack_id"], entry["object"], entry["name"]) for entry in record["haystacks"])
    outlines = LateOutlines(lambda: stored_outlines(store, record))
    return Rejudging(spec, outlines, prompts, stored_haystacks(store, entries), source)


def rejudging_record(grid: Rejudging) -> dict[str, Any]:
    """What `run.json` of a rejudge holds: enough to make it again."""
    record = grid.source.record
    kept = {name: record[name] for name in ("haystacks", OUTLINES) if name in record}
    spec = grid.spec.model_dump(mode="json")
    judges = [[one.label, grid.identity_of(one)] for one in grid.spec.judges]
    named = {"kind": KIND, "of": grid.source.run_id, "name": _title(grid)}
    return {**named, "spec": spec, "prompts": dict(grid.prompts), "judges": judges, **kept}


def _title(grid: Rejudging) -> str:
    return f"{', '.join(one.label for one in grid.spec.judges)} on {grid.source.run_id}"


def source_of(run: RunStore) -> RunStore:
    """The run that holds the summaries: the one that a rejudge judges, as it stands now; any other itself."""
    record = run.record
    return run.store.run(record["of"]).at() if record["kind"] == KIND else run


def stored_grid(store: Store, record: Mapping[str, Any]) -> Grid:
    """The grid of a stored run of any kind; nothing of its sources is read before it is asked for."""
    if record["kind"] == SYNTH:
        return stored_synthesizing(store, record)
    if record["kind"] != KIND:
        return grid_of(store, record)
    return _rejudging(store.run(record["of"]), parse_rejudge(record["spec"], "stored spec"), record["prompts"], record)
