"""The data of a report's viewer: a run, sample by sample.

A part of a sample is a mapping with `kind` and `title`: text (text), facts (pairs of name and value), rows (columns, rows),
answer (key, of an answer on the shelf `answers`), or a benchmark's own kind that the page supports. Content that many samples
share is on a shelf, under an id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Facet:
    """A column of the viewer's list, for sorting and filtering samples."""

    name: str
    kind: Literal["text", "number", "flag"] = "text"
    unit: str = ""


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One sample: its facets and its parts."""

    id: str
    facets: Mapping[str, Any]
    parts: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Samples:
    """The samples of a run, and their shared shelves. Everything is read lazily and only once."""

    facets: Sequence[Facet]
    samples: Iterable[SampleRecord]
    shelves: Mapping[str, Iterable[tuple[str, Any]]] = field(default_factory=dict)
    """Shelf -> its entries, (id, JSON content), sorted by id."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Name -> text of a prompt, with placeholders that the page fills from a sample."""
