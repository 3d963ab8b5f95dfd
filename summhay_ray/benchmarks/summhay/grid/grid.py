"""The grid of a run: its queries, systems and cells (paper, sections 3.3 and 5.1).

A cell is haystack x query x retriever x ordering x summarizer x repeat. Ids depend on content alone: the same spec and the same
files give the same cells and keys on every machine.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import TYPE_CHECKING

from summhay_ray import judge, summarize
from summhay_ray.benchmark import Inputs, Item, RunModels
from summhay_ray.benchmarks.retrieval import Retrievers
from summhay_ray.benchmarks.summarizing import check_strategy
from summhay_ray.benchmarks.summhay.grid.entries import Entries, check_models, check_prompts, check_retrievers_of
from summhay_ray.benchmarks.summhay.haystacks.sources import haystacks_of
from summhay_ray.benchmarks.summhay.spec import SummhaySpec
from summhay_ray.errors import SpecError
from summhay_ray.haystack import system_key
from summhay_ray.plugins import UnknownName
from summhay_ray.text import semantic_hash

if TYPE_CHECKING:
    from summhay_ray.citations import CitedCorpora


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


class Grid:
    """Every query of the haystacks with every system of the spec."""

    def __init__(self, spec: SummhaySpec, inputs: Inputs, models: RunModels) -> None:
        self.spec, self.inputs = spec, inputs
        self.retrievers = Retrievers(spec, inputs)
        self.haystacks = haystacks_of(spec.haystacks, inputs, spec.documents)
        self.entries = Entries(spec, inputs, models)

    def check(self) -> None:
        """Check every name and prompt of the spec. Raises SpecError for one that is unknown or unusable."""
        spec, folder = self.spec, self.inputs.folder
        check_retrievers_of(self.retrievers, self.haystacks.metadata)
        try:
            for ordering in spec.orderings:
                summarize.find_ordering(ordering)
            for summarizer in spec.summarizers:
                check_strategy(summarizer.strategy)
        except (UnknownName, judge.BadName) as error:
            raise SpecError(f"spec: {error}") from error
        reducers = [one.reduce for one in spec.summarizers if one.reduce]
        check_models([*spec.parts(), *spec.summarizers, *reducers], folder)
        check_prompts([*spec.summarizers, *spec.parts()], self.entries.prompts)

    @functools.cached_property
    def systems(self) -> dict[tuple[str, str, int], str]:
        """(retriever, ordering, summarizer index) -> the system's key as in the release; a longer key if two would share one."""
        labels = [summarizer.label for summarizer in self.spec.summarizers]
        short = {
            (retriever, ordering, index): system_key(retriever, ordering, label)
            for retriever in self.retrievers
            for ordering in self.orderings_of(retriever)
            for index, label in enumerate(labels)
        }
        shared = Counter(short.values())
        keys = {}
        for (retriever, ordering, index), key in short.items():
            long = [retriever, *([] if ordering == "given" else [ordering]), labels[index]]
            keys[retriever, ordering, index] = key if shared[key] == 1 else "_".join(long)
        return keys

    @functools.cached_property
    def support_indexes(self) -> CitedCorpora:
        """The free support judge, for summarizers whose citations are repaired."""
        # Imported here: SciPy takes a while to load, and few runs repair citations.
        from summhay_ray.citations import CitedCorpora

        return CitedCorpora()

    def orderings_of(self, retriever: str) -> Sequence[str]:
        """Orderings apply to the whole haystack; retrieval keeps its ranking (paper, section 5.4)."""
        return self.spec.orderings if retriever in self.retrievers.unordered else ["given"]

    def named(self, ordering: str) -> str:
        """An ordering's name; a user-defined one (`module:function`) is followed by the identity of its code."""
        return f"{ordering} {self.inputs.code(ordering)}".rstrip()

    def items(self) -> Iterator[Item]:
        """A cell for each unit, summarizer and repeat; haystack by haystack, so that calls with a common prompt prefix are
        adjacent."""
        shown = [(retriever, ordering) for retriever in self.retrievers for ordering in self.orderings_of(retriever)]
        units = (
            Unit(haystack.haystack_id, subtopic.subtopic_id, retriever, ordering)
            for haystack in self.haystacks.metadata
            for retriever, ordering in shown
            for subtopic in haystack.subtopics
        )
        n_insights = self.haystacks.insight_counts()
        summarizers = [(summarizer.label, self.entries.semantic(summarizer)) for summarizer in self.spec.summarizers]
        named, known = functools.cache(self.named), functools.cache(self.retrievers.identity)
        for unit in units:
            shared = f"{unit.haystack_id}/{unit.retriever}/{unit.ordering}" if unit.retriever in self.retrievers.unordered else ""
            content = {
                **asdict(unit),
                "retriever": known(unit.retriever),
                "ordering": named(unit.ordering),
                "seed": self.spec.seed,
                "token_budget": self.spec.token_budget,
            }
            size = n_insights[unit.haystack_id, unit.subtopic_id] * len(self.spec.judges)
            for index, (label, semantic) in enumerate(summarizers):
                system, first = self.systems[unit.retriever, unit.ordering, index], ""
                named_unit = astuple(unit)
                for repeat in range(self.spec.repeats):
                    cell_id = semantic_hash({**content, "summarizer": semantic, "repeat": repeat})[:32]
                    data = {"unit": named_unit, "summarizer": index, "repeat": repeat, "system": system}
                    yield Item(cell_id, label, data, "/".join(named_unit), shared, size, first, unit.haystack_id)
                    first = first or cell_id

    def n_items(self) -> int:
        """The number of cells, without listing them."""
        shown = sum(len(self.orderings_of(retriever)) for retriever in self.retrievers)
        queries = sum(len(haystack.subtopics) for haystack in self.haystacks.metadata)
        n: int = queries * shown * len(self.spec.summarizers) * self.spec.repeats
        return n
