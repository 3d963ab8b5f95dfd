"""Where a run stands when it is started: all cells, the finished ones, and its tables as they are. Part of the grid room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from summhay_ray.grid.cells import Cell, Grid, Unit
from summhay_ray.store import RunStore


class StillRun(RunStore):
    """A run as it stands now: its manifest and tables are read once, whoever asks how often."""

    def __init__(self, run: RunStore) -> None:
        super().__init__(run.store, run.run_id, run.manifest())
        self._tables: dict[str, pl.DataFrame] = {}

    def table(self, table: str, cells: Sequence[str] | None = None) -> pl.DataFrame:
        """See `RunStore.table`."""
        if cells is not None:
            return super().table(table, cells)
        return self.tables([table])[table]

    def tables(self, names: Sequence[str]) -> dict[str, pl.DataFrame]:
        """See `RunStore.tables`."""
        self._tables.update(super().tables([name for name in names if name not in self._tables]))
        return {name: self._tables[name] for name in names}


@dataclass(frozen=True)
class Standing:
    """All cells of a grid by unit, and those that need no further try."""

    grid: Grid
    units: Mapping[Unit, Sequence[Cell]]
    finished: frozenset[str]

    @property
    def total(self) -> int:
        """Cells of the grid."""
        return sum(map(len, self.units.values()))

    def left(self) -> dict[Unit, list[Cell]]:
        """Units with their unfinished cells, in the grid's order."""
        open_cells = {unit: [cell for cell in cells if cell.cell_id not in self.finished] for unit, cells in self.units.items()}
        return {unit: cells for unit, cells in open_cells.items() if cells}

    def judgments(self) -> dict[str, int]:
        """Cell -> how many judgments it holds when it is finished without a failure."""
        insights = {
            (source.haystack_id, subtopic.subtopic_id): n_insights
            for source in self.grid.sources
            for subtopic, n_insights in zip(source.subtopics, source.n_insights, strict=True)
        }
        judges = len(self.grid.spec.judges)
        if not judges:
            return {cell.cell_id: 0 for cells in self.units.values() for cell in cells}
        return {
            cell.cell_id: insights[unit.haystack_id, unit.subtopic_id] * judges
            for unit, cells in self.units.items()
            for cell in cells
        }


def standing_of(grid: Grid, run: StillRun) -> Standing:
    """How the grid's run stands."""
    finished = frozenset(cell for cell, again in run.finished("cell").items() if not again)
    return Standing(grid, {unit: tuple(grid.cells_of(unit)) for unit in grid.units()}, finished)
