"""Unit and cell: the coordinates of a context and of a summary in the grid (paper, section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

from summhay_ray.benchmark import Item


@dataclass(frozen=True, slots=True)
class Unit:
    """A query with the retriever and the ordering that make its context. One unit is shared by many cells."""

    haystack_id: str
    subtopic_id: str
    retriever: str
    ordering: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One summary of the run: a unit, a summarizer and a repeat."""

    cell_id: str
    unit: Unit
    summarizer: int
    """Index in the spec's summarizers."""
    repeat: int
    """From 0: which of the repeated samples."""
    system: str
    """Name of the system in the tables: retriever, ordering and summarizer."""

    @classmethod
    def of(cls, item: Item) -> Cell:
        """The cell that an item of the engine describes."""
        data = item.data
        return cls(item.id, Unit(*data["unit"]), data["summarizer"], data["repeat"], data["system"])
