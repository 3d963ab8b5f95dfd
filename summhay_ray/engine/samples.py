"""What a report's viewer shows of a run, sample by sample, as data. Part of the engine room.

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
    """What samples are listed and filtered by: a column of the viewer's list."""

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
    """The samples of a run, and what they share. Everything is read once, as it is asked for."""

    facets: Sequence[Facet]
    samples: Iterable[SampleRecord]
    shelves: Mapping[str, Iterable[tuple[str, Any]]] = field(default_factory=dict)
    """Shelf -> id and content (JSON), sorted by id."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Name -> the text of a prompt, with placeholders where the page fills in what a sample holds."""
