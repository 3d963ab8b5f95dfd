"""What a report's viewer shows of a run, sample by sample, as data.

A part of a sample is a mapping with `kind` and `title`: text (text), facts (pairs of name and value), rows (columns, rows),
answer (key, of an answer on the shelf `answers`), or a kind of a benchmark's own that the page knows. What many samples
share lies on a shelf, under an id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Facet:
    """A column of the viewer's list, by which samples are sorted and filtered."""

    name: str
    kind: Literal["text", "number", "flag"] = "text"
    unit: str = ""


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One sample: its facets, and the parts that make it up."""

    id: str
    facets: Mapping[str, Any]
    parts: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Samples:
    """The samples of a run, and the shelves that they share. Everything is read lazily, and once."""

    facets: Sequence[Facet]
    samples: Iterable[SampleRecord]
    shelves: Mapping[str, Iterable[tuple[str, Any]]] = field(default_factory=dict)
    """Shelf -> its entries, (id, JSON content), sorted by id."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Name -> text of a prompt, with placeholders that the page fills from a sample."""
