"""A query with its context, and a cell: what a summary is made of (paper, section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

from summhay_ray.benchmark import Item


@dataclass(frozen=True, slots=True)
class Unit:
    """A query and the way its context is made: what retrieval works on."""

    haystack_id: str
    subtopic_id: str
    retriever: str
    ordering: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One summary that the run must hold."""

    cell_id: str
    unit: Unit
    summarizer: int
    """Index in the spec's summarizers."""
    repeat: int
    system: str

    @classmethod
    def of(cls, item: Item) -> Cell:
        """The cell of an item."""
        data = item.data
        return cls(item.id, Unit(*data["unit"]), data["summarizer"], data["repeat"], data["system"])
