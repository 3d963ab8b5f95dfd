"""From a spec to its cells: which summaries a run must hold. Part of the grid room; no Ray, no calls.

A cell is haystack x query x retriever x ordering x summarizer x repeat. Everything here is content: the same spec and the
same files give the same run, cells and keys on every machine.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from summhay_ray import judge, retrieve, summarize
from summhay_ray.grid.local import check_model, revision_of
from summhay_ray.grid.sources import (
    OUTLINES,
    STORE,
    Haystacks,
    LateOutlines,
    Outline,
    in_store,
    outline_of,
    stored_haystacks,
    stored_outlines,
)
from summhay_ray.grid.spec import JudgeSpec, ModelSpec, RunSpec, SpecError, SummarizerSpec, parse_spec, semantic_model, try_judge
from summhay_ray.haystack import load_sample, read_released, system_key
from summhay_ray.judge import OfflineJudge
from summhay_ray.llm import Limits, ModelSettings, Unpriced
from summhay_ray.plugins import UnknownName, code_identity
from summhay_ray.store import Store, StoreError, StoreUnavailable

SAMPLE = "sample/"
READS_AT_ONCE = 8
"""Sources that are read from the store at once."""
REACH = ("price", "context_window", "api_base", "api_key_env", "timeout_s", "transport")
"""What a model's entry says of how it is reached and paid: no part of any identity."""


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


@dataclass(frozen=True)
class Grid:
    """A spec with its sources outlined, its prompts loaded and its names checked: all that a run is made of."""

    spec: RunSpec
    sources: Sequence[Outline]
    prompts: Mapping[str, str]
    """Path as the spec writes it -> text."""
    haystacks: Haystacks
    """The sources' haystacks, loaded when they are asked for."""

    @functools.cached_property
    def run_id(self) -> str:
        """`r` and 12 hex digits of the semantic part of the spec, content of haystacks and prompts included."""
        spec = self.spec
        content = {
            "haystacks": sorted(source.haystack_id for source in self.sources),
            "retrievers": sorted(map(_named, spec.retrievers)),
            "orderings": sorted({_named(ordering) for name in spec.retrievers for ordering in self.orderings_of(name)}),
            "token_budget": spec.token_budget,
            "repeats": spec.repeats,
            "summarizers": sorted((self._semantic(model) for model in spec.summarizers), key=semantic_hash),
            "judges": sorted((self._semantic(model) for model in spec.judges), key=semantic_hash),
            "seed": spec.seed,
        }
        return "r" + semantic_hash(content)[:12]

    def from_store(self, store: Store) -> Grid:
        """The same grid, its haystacks from the store, where `open_run` put them: a spec's files may change meanwhile."""
        entries = ((source.haystack_id, source.digest, source.name) for source in self.sources)
        return replace(self, haystacks=stored_haystacks(store, entries))

    def _semantic(self, model: SummarizerSpec | JudgeSpec) -> dict[str, Any]:
        prompt = self.prompt_of(model)
        if isinstance(model, JudgeSpec):
            identity, code = judge.prompt_identity(prompt, model.strategy), judge.parse_strategy(model.strategy).base
        else:
            identity, code = summarize.prompt_identity(prompt), model.strategy
        return {**semantic_model(model, identity), **revision_of(model.model), "code": code_identity(code)}

    def identity_of(self, judging: JudgeSpec) -> str:
        """sha256 (hex) of what makes a judge the one that it is: equal for judges that say the same of every summary."""
        return semantic_hash(self._semantic(judging))

    def prompt_of(self, model: ModelSpec) -> str:
        """The text of the model's prompt file, empty where it uses ours."""
        return self.prompts[model.prompt] if model.prompt else ""

    @functools.cached_property
    def systems(self) -> dict[tuple[str, str, int], str]:
        """(retriever, ordering, summarizer index) -> the release's key, or a longer one where two would share it."""
        combos = [
            (retriever, ordering, index)
            for retriever in self.spec.retrievers
            for ordering in self.orderings_of(retriever)
            for index in range(len(self.spec.summarizers))
        ]
        labels = [summarizer.label for summarizer in self.spec.summarizers]
        short = {combo: system_key(combo[0], combo[1], labels[combo[2]]) for combo in combos}
        shared = Counter(short.values())
        return {combo: key if shared[key] == 1 else _long_key(combo, labels) for combo, key in short.items()}

    @property
    def names_modules(self) -> bool:
        """Whether the spec names code of the person's own, as module:Class."""
        strategies = [*(one.strategy for one in self.spec.summarizers), *(one.strategy for one in self.spec.judges)]
        return any(":" in name for name in [*self.spec.retrievers, *self.spec.orderings, *strategies])

    def orderings_of(self, retriever: str) -> Sequence[str]:
        """Orderings apply to the whole haystack; retrieval keeps its ranking."""
        return self.spec.orderings if retrieve.make(retriever, self.spec.seed).whole else ["given"]

    def units(self) -> Iterator[Unit]:
        """All units, haystack by haystack, so that calls that share a prefix stand together."""
        shown = [(retriever, ordering) for retriever in self.spec.retrievers for ordering in self.orderings_of(retriever)]
        for source in self.sources:
            for retriever, ordering in shown:
                for subtopic in source.subtopics:
                    yield Unit(source.haystack_id, subtopic.subtopic_id, retriever, ordering)

    def cells_of(self, unit: Unit) -> Iterator[Cell]:
        """The cells of a unit: every summarizer, every repeat."""
        for index, before, after in self._fixed_parts:
            # The canonical JSON of the cell's content, as `semantic_hash` would write it; most of it is the same for all cells.
            start = f'{{"haystack_id":{_text(unit.haystack_id)},"ordering":{self._name_text(unit.ordering)},"repeat":'
            middle = f',"retriever":{self._name_text(unit.retriever)}{before}{_text(unit.subtopic_id)}{after}'
            system = self.systems[unit.retriever, unit.ordering, index]
            for repeat in range(self.spec.repeats):
                content = f"{start}{repeat}{middle}"
                yield Cell(hashlib.sha256(content.encode("ascii")).hexdigest()[:32], unit, index, repeat, system)

    @functools.cached_property
    def _fixed_parts(self) -> list[tuple[int, str, str]]:
        """Summarizer -> what stands in a cell's canonical JSON between its retriever and its subtopic, and behind it."""
        spec = self.spec
        return [
            (
                index,
                f',"seed":{_canonical(spec.seed)},"subtopic_id":',
                f',"summarizer":{_canonical(self._semantic(model))},"token_budget":{_canonical(spec.token_budget)}}}',
            )
            for index, model in enumerate(spec.summarizers)
        ]

    @functools.cached_property
    def _name_text(self) -> Callable[[str], str]:
        return functools.cache(lambda name: _text(_named(name)))

    @property
    def n_cells(self) -> int:
        """How many cells the run has."""
        shown = sum(len(self.orderings_of(retriever)) for retriever in self.spec.retrievers)
        queries = sum(len(source.subtopics) for source in self.sources)
        return queries * shown * len(self.spec.summarizers) * self.spec.repeats

    def cells(self) -> Iterator[Cell]:
        """All cells of the run."""
        return (cell for unit in self.units() for cell in self.cells_of(unit))

    def settings(self) -> dict[str, ModelSettings]:
        """Model -> how to reach it and what it costs. Raises SpecError for a model without a price."""
        found: dict[str, ModelSettings] = {}
        for model in self.spec.models():
            settings = self._written(model.model, model.model_dump(include=set(REACH)))
            if found.setdefault(model.model, settings) != settings:
                alike = f"{', '.join(REACH[:-1])} and {REACH[-1]}"
                raise SpecError(f"spec: {model.model!r} stands twice, not alike; give both entries the same {alike}")
        for partner in self.spec.partners():
            if partner not in found:
                found[partner] = self._written(partner, {})
        return found

    def _written(self, model: str, reach: Mapping[str, Any]) -> ModelSettings:
        limits = self.spec.limits.get(model)
        try:
            return ModelSettings.written(model, reach, Limits(**limits.model_dump()) if limits else Limits())
        except Unpriced as error:
            raise SpecError(f"spec: {error}") from error


def _named(name: str) -> str:
    """A name, and behind it the identity of its code where it is a person's own."""
    return f"{name} {code_identity(name)}".rstrip()


def _long_key(combo: tuple[str, str, int], labels: Sequence[str]) -> str:
    retriever, ordering, index = combo
    return "_".join([retriever, *([] if ordering == "given" else [ordering]), labels[index]])


def _plain(content: Any) -> Any:
    """The content with whole floats as integers: 1.0 and 1 are one value, to a person and to a provider."""
    if isinstance(content, dict):
        return {name: _plain(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    return int(content) if isinstance(content, float) and content.is_integer() else content


def _canonical(content: Any) -> str:
    return json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def semantic_hash(content: Any) -> str:
    """sha256 (hex) of the canonical JSON of what JSON can hold: 1.0 and 1 are one value, the order of fields is none."""
    return hashlib.sha256(_canonical(content).encode("ascii")).hexdigest()


def load_grid(spec: RunSpec, folder: Path, store: Store | None = None) -> Grid:
    """Read what the spec names and check every name, before anything is paid. Raises SpecError, InvalidHaystack, StoreError.

    `folder`: where the spec's paths start. `store`: where its haystacks lie that are written `store/SHA256/NAME`.
    """

    def read(entry: str) -> bytes:
        return _source(entry, folder, store)

    sources = _outlines(spec.haystacks, read)
    entries: dict[str, str] = {}
    for index, (entry, source) in enumerate(zip(spec.haystacks, sources, strict=True)):
        first = entries.setdefault(source.haystack_id, entry)
        if first != entry:
            raise SpecError(f"spec: haystacks[{index}]: {entry!r} has the same content as {first!r}; leave one out")
    prompts = read_prompts(spec, folder)
    haystacks = Haystacks(entries, lambda haystack_id: (read(entries[haystack_id]), entries[haystack_id]))
    grid = Grid(spec, sources, prompts, haystacks)
    check_grid(grid)
    return grid


def _outlines(entries: Sequence[str], read: Callable[[str], bytes]) -> tuple[Outline, ...]:
    def outline(entry: str) -> Outline:
        return outline_of(read_released(read(entry), entry))

    if not any(map(in_store, entries)):
        return tuple(map(outline, entries))
    with ThreadPoolExecutor(max_workers=READS_AT_ONCE) as threads:
        return tuple(threads.map(outline, entries))


def _source(entry: str, folder: Path, store: Store | None) -> bytes:
    """The content of one of the spec's haystacks."""
    if digest := in_store(entry):
        return _stored(entry, digest, store)
    if not entry.startswith(SAMPLE):
        return _read(entry, folder, "haystacks")
    try:
        return json.dumps(load_sample(entry.removeprefix(SAMPLE))).encode("ascii")
    except UnknownName as error:
        raise SpecError(f"spec: haystacks: {error}") from error


def _stored(entry: str, digest: str, store: Store | None) -> bytes:
    if store is None:
        raise SpecError(f"spec: haystacks: {entry!r} lies in a store; give the store, or the haystack's file")
    try:
        return store.get_object("haystack", digest)
    except StoreUnavailable:
        raise
    except StoreError as error:
        if store.files.exists(f"objects/haystack/{digest}"):
            raise
        mend = "run or submit the spec once with its file, or give the store that holds it"
        raise SpecError(f"spec: haystacks: {entry!r}: store {store.uri!r} holds no such source; {mend}") from error


def _read(entry: str, folder: Path, field_name: str) -> bytes:
    # A spec's paths start from its folder; a person who stands elsewhere may also write them from there.
    for path in (folder / entry, Path(entry)):
        if path.is_file():
            return path.read_bytes()
    other = ", or store/ and the 64 hex digits of a source in the store" if entry.startswith(STORE) else ""
    raise SpecError(f"spec: {field_name}: no file {entry!r} in {str(folder)!r}; paths start from the spec's folder{other}")


def read_prompts(spec: RunSpec, folder: Path) -> dict[str, str]:
    """The spec's prompt files, by their paths as it writes them. Raises SpecError."""
    return {model.prompt: _read_prompt(model.prompt, folder) for model in spec.models() if model.prompt}


def _read_prompt(entry: str, folder: Path) -> str:
    try:
        return _read(entry, folder, "prompt").decode("utf-8")
    except UnicodeDecodeError:
        raise SpecError(f"spec: prompt: {entry!r} is not UTF-8 text") from None


def check_grid(grid: Grid) -> None:
    """Raises SpecError where a name, a prompt or a price that the spec needs is none."""
    _check_names(grid)
    _check_prompts(grid)
    grid.settings()


def _check_names(grid: Grid) -> None:
    spec = grid.spec
    try:
        for name in spec.retrievers:
            _check_retriever(name, grid)
        for ordering in spec.orderings:
            summarize.check_ordering(ordering)
        for summarizer in spec.summarizers:
            summarize.make_summarizer(summarizer.strategy)
        for judging in spec.judges:
            try_judge(judging.strategy)
        for name in [*(model.model for model in spec.models()), *spec.partners()]:
            check_model(name)
    except (UnknownName, judge.BadName) as error:
        raise SpecError(f"spec: {error}") from error
    for name in spec.retrievers:
        if name.startswith("released/"):
            _check_released(name.removeprefix("released/"), grid.sources)


def _check_retriever(name: str, grid: Grid) -> None:
    try:
        retrieve.make(name, grid.spec.seed)
    except UnknownName:
        if all(name in source.released for source in grid.sources):
            raise UnknownName(f"no retriever is named {name!r}; did you mean 'released/{name}'?") from None
        raise


def _check_released(name: str, sources: Iterable[Outline]) -> None:
    for source in sources:
        if name not in source.released:
            has = ", ".join(source.released) or "none"
            raise SpecError(f"spec: retrievers: {source.name} holds no scores of 'released/{name}'; it holds: {has}")


def _check_prompts(grid: Grid) -> None:
    models: Sequence[SummarizerSpec | JudgeSpec] = (*grid.spec.summarizers, *grid.spec.judges)
    for model in filter(lambda model: model.prompt, models):
        text = grid.prompt_of(model)
        try:
            summarize.check_prompt(text) if isinstance(model, SummarizerSpec) else judge.check_prompt(text, model.strategy)
        except ValueError as error:
            raise SpecError(f"spec: prompt {model.prompt!r}: {error}") from error
        # Any other model makes sense of any wording; this one reads the headings.
        headings = ("Reference Insights:" if "per_summary" in model.strategy else "Reference Insight:", "Bullet Points:")
        absent = [heading for heading in headings if heading not in map(str.strip, text.splitlines())]
        if model.model == OfflineJudge.name and absent:
            raise SpecError(f"spec: prompt {model.prompt!r}: offline/judge reads the section under a line {absent[0]!r}; add it")


def grid_record(grid: Grid, outlines: str) -> dict[str, Any]:
    """What `run.json` holds: enough to make the grid again without the spec's files. `outlines`: digest of their object."""
    return {
        "kind": "grid",
        "name": grid.spec.name,
        "spec": grid.spec.model_dump(mode="json"),
        "prompts": dict(grid.prompts),
        "haystacks": haystack_entries(grid.sources),
        "judges": [[one.label, grid.identity_of(one)] for one in grid.spec.judges],
        OUTLINES: outlines,
        "cells": grid.n_cells,
    }


def haystack_entries(sources: Iterable[Outline]) -> list[dict[str, str]]:
    """How a run's record names its sources."""
    return [{"haystack_id": source.haystack_id, "name": source.name, "object": source.digest} for source in sources]


def grid_of(store: Store, record: Mapping[str, Any]) -> Grid:
    """The grid of a stored run; nothing of its sources is read before it is asked for."""
    entries = ((entry["haystack_id"], entry["object"], entry["name"]) for entry in record["haystacks"])
    sources = LateOutlines(lambda: stored_outlines(store, record))
    return Grid(parse_spec(record["spec"], "stored spec"), sources, record["prompts"], stored_haystacks(store, entries))
