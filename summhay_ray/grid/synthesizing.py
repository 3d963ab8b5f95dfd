"""A run whose cells are topics: what is to be synthesized, and by whom. Part of the grid room; no Ray, no calls.

To everything that answers a grid (lanes, workers, ledger, commits) it is a grid without retrievers, summarizers and judges.
A haystack that is done is a unit of the stage `haystack`, `CELL/HAYSTACK_ID/DIGEST`, whose rows are its tables and whose JSON
is the store's object, as that of any source of a run.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from summhay_ray.grid.cells import Cell, Grid, Unit, check_grid, semantic_hash
from summhay_ray.grid.local import check_model, revision_of
from summhay_ray.grid.sources import STORE, Haystacks
from summhay_ray.grid.spec import SpecError
from summhay_ray.grid.synth_spec import WRITER, StageModel, SynthRun, SynthSpec, parse_synth, parse_synth_run, read_synth
from summhay_ray.grid.synth_topics import TOPICS, LateTopics, alone, keep_topics, read_text, stored_topics, topics_of
from summhay_ray.llm import count_tokens, find_window, is_local
from summhay_ray.plugins import UnknownName
from summhay_ray.store import RunStore, Store
from summhay_ray.synth import Domain, Group, Job, Shape, Topic, check_placement, is_english, load_domain, parse_domain

KIND = "synth"
SYSTEM = "synth"
"""What the cells' system is called."""
_ROOM = 4000
"""Tokens of a prompt beside its context."""
_IDENTITY = {"model", "max_tokens", "temperature", "seed", "extra"}


@dataclass(frozen=True)
class Synthesizing(Grid):
    """A grid whose cells are topics."""

    spec: SynthRun
    domain: Domain
    topics: Sequence[Topic]

    @property
    def synth(self) -> SynthSpec:
        """The spec as a person writes it."""
        return self.spec.synth

    @functools.cached_property
    def shape(self) -> Shape:
        """How large each haystack is made."""
        spec = self.synth
        return Shape(spec.subtopics, spec.insights, spec.documents, spec.words or self.domain.words)

    @functools.cached_property
    def run_id(self) -> str:
        """`y` and 12 hex digits of the semantic part of the spec, content of topics, domain and prompts included."""
        return "y" + semantic_hash({**self._semantic_part, "topics": sorted(map(self.cell_id, self.topics))})[:12]

    @functools.cached_property
    def _semantic_part(self) -> dict[str, Any]:
        """What makes the haystack of a topic the one that it is, besides the topic."""
        spec = self.synth
        return {
            "domain": domain_json(self.domain, self.domain.hashes()),
            "shape": asdict(self.shape),
            "difficulty": spec.difficulty.model_dump(),
            "models": {stage: self._identity(model) for stage, model in spec.models.used().items()},
            "license": spec.license,
            "seed": spec.seed,
        }

    def _identity(self, model: StageModel) -> dict[str, Any]:
        return {**model.model_dump(include=_IDENTITY), **revision_of(model.model)}

    def cell_id(self, topic: Topic) -> str:
        """32 hex digits of the topic and of all that its haystack is made of; other topics of the spec are no part of it."""
        return semantic_hash({**self._semantic_part, "topic": asdict(alone(topic))})[:32]

    def job(self, topic: Topic) -> Job:
        """What the synth room is to make of a topic, named as `alone` says: the same haystack beside any others."""
        spec = self.synth
        models = spec.models.used()
        # Where a model was reached is no part of it: the same answers give the same haystack.
        metadata = {"license": spec.license, "models": {stage: self._identity(model) for stage, model in models.items()}}
        difficulty = spec.difficulty.difficulty()
        return Job(self.cell_id(topic), alone(topic), self.domain, self.shape, difficulty, spec.seed, metadata)

    def sampling(self, stage: Group) -> dict[str, Any]:
        """The semantic parameters that go with each call of a stage."""
        model = self.synth.models.used()[stage]
        return {**model.sampling(), **revision_of(model.model)}

    def units(self) -> Iterator[Unit]:
        """A unit for each topic, in the spec's order."""
        return iter(self.topic_of)

    def cells_of(self, unit: Unit) -> Iterator[Cell]:
        """The one cell of a unit."""
        topic = self.topic_of[unit]
        yield topic_cell(self.cell_id(topic), topic)

    @property
    def n_cells(self) -> int:
        """How many topics there are."""
        return len(self.topics)

    @functools.cached_property
    def topic_of(self) -> Mapping[Unit, Topic]:
        """Unit -> its topic."""
        return {unit_of(topic): topic for topic in self.topics}


def unit_of(topic: Topic) -> Unit:
    """A topic's unit: its haystack has no id before it is made."""
    return Unit(topic.name, "", "", "")


def topic_cell(cell_id: str, topic: Topic) -> Cell:
    """A topic's cell."""
    return Cell(cell_id, unit_of(topic), 0, 0, SYSTEM)


def load_synthesizing(spec: SynthSpec, folder: Path) -> Synthesizing:
    """Read what the spec names and check every name, before anything is paid. Raises SpecError."""
    if spec.domain.endswith((".yaml", ".yml")):
        domain = parse_domain(read_text(spec.domain, folder, "domain"), spec.domain)
    else:
        domain = load_domain(spec.domain)
    grid = Synthesizing(SynthRun.of(spec), (), {}, _no_haystacks(), domain, topics_of(spec, folder))
    for model in grid.spec.models():
        try:
            check_model(model.model)
        except UnknownName as error:
            raise SpecError(f"synth: {error}") from error
    _check_lengths(grid)
    _check_language(grid)
    _check_windows(grid)
    check_placement(grid.shape, spec.difficulty.difficulty(), domain)
    check_grid(grid)
    return grid


def load_synth(spec: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Synthesizing:
    """The synthesis of a YAML file, or of its fields. Raises SpecError."""
    if isinstance(spec, Mapping):
        return load_synthesizing(parse_synth(spec, overrides=overrides), Path.cwd())
    return load_synthesizing(*read_synth(str(spec), overrides))


def domain_json(domain: Domain, prompts: Mapping[Any, str]) -> dict[str, Any]:
    """A domain as JSON, with its prompts, or their hashes, as given."""
    found = {one.name: getattr(domain, one.name) for one in fields(domain)}
    return {**found, "participants": list(domain.participants), "prompts": dict(prompts)}


def _domain_from(written: Mapping[str, Any]) -> Domain:
    return Domain(**{**written, "participants": tuple(written["participants"])})


def _no_haystacks() -> Haystacks:
    def none(haystack_id: str) -> tuple[bytes, str]:
        raise LookupError(f"a synthesis reads no haystack {haystack_id}")

    return Haystacks((), none)


def _check_lengths(grid: Synthesizing) -> None:
    """A writer whose longest answer is shorter than a document would be paid for cut ones."""
    longest, words = grid.synth.models.write.max_tokens, grid.shape.words
    if longest < 2 * words:
        few = f"{longest} tokens are too few for documents of {words} words; give at least {2 * words}"
        raise SpecError(f"synth: models.write.max_tokens: {few}")


def _check_language(grid: Synthesizing) -> None:
    """The offline writer and the offline checks know English: in another language their word would be worth nothing."""
    language, models = grid.domain.language, grid.synth.models
    if is_english(language):
        return
    for stage, model in models.used().items():
        if is_local(model.model):
            does = "reads" if stage == "check" else "writes"
            raise SpecError(f"synth: models.{stage}: {WRITER} {does} English, and the domain is in {language}; name a model")
    if models.check is None:
        raise SpecError(f"synth: models.check: offline checks read English, and the domain is in {language}; name a model")


def _check_windows(grid: Synthesizing) -> None:
    """The texts of a topic's context go into every prompt of its outline and, unless it has chapters, of its documents."""
    stages: tuple[Group, ...] = ("outline",) if grid.domain.method == "chapters" else ("outline", "write")
    for stage in stages:
        model = grid.synth.models.used()[stage]
        window = find_window(model.model, model.context_window)
        room = (window or 0) - model.max_tokens - _ROOM
        if window is not None and room < 0:
            needed = f"max_tokens {model.max_tokens:,} and a prompt of some {_ROOM:,}"
            raise SpecError(f"synth: models.{stage}: the window of {window:,} tokens cannot hold {needed}; lower max_tokens")
        for topic in grid.topics if window is not None else ():
            tokens = sum(map(count_tokens, topic.context))
            if tokens > room:
                told = f"the context of {topic.name!r} has {tokens:,} tokens; {model.model} takes {room:,} beside the rest"
                raise SpecError(f"synth: topics: {told}; shorten it, or name another model for {stage}")


def synth_record(grid: Synthesizing, store: Store) -> dict[str, Any]:
    """What `run.json` of a synthesis holds: enough to make it again. The topics go into the store."""
    return {
        "kind": KIND,
        "name": grid.synth.name,
        "spec": grid.spec.model_dump(mode="json"),
        "prompts": {},
        "domain": domain_json(grid.domain, grid.domain.prompts),
        "cells": grid.n_cells,
        TOPICS: keep_topics(store, ((grid.cell_id(topic), topic) for topic in grid.topics)),
    }


def stored_synthesizing(store: Store, record: Mapping[str, Any]) -> Synthesizing:
    """The grid of a stored synthesis; its topics are read when they are asked for."""
    spec = parse_synth_run(record["spec"], "stored spec")
    topics = LateTopics(lambda: [topic for _, topic in stored_topics(store, record)])
    return Synthesizing(spec, (), {}, _no_haystacks(), _domain_from(record["domain"]), topics)


@dataclass(frozen=True, slots=True)
class Made:
    """A haystack that a synthesis has made, as its run names it."""

    cell_id: str
    haystack_id: str
    digest: str
    name: str = ""

    @property
    def unit(self) -> str:
        """What its rows are committed as."""
        return f"{self.cell_id}/{self.haystack_id}/{self.digest}"

    @property
    def entry(self) -> str:
        """The entry of a run's spec that names it."""
        return f"{STORE}{self.digest}/{self.name}.json"

    def source(self) -> dict[str, str]:
        """As the record of a run names its sources."""
        return {"haystack_id": self.haystack_id, "name": self.name, "object": self.digest}


def made_by(run: RunStore) -> dict[str, Made]:
    """Cell -> its haystack, for the topics of a synthesis that are done, in the spec's order."""
    done = {cell for cell, again in run.finished("cell").items() if not again}
    found = {one.cell_id: one for one in (Made(*unit.split("/")) for unit in run.finished("haystack"))}
    names = {cell: topic.name for cell, topic in stored_topics(run.store, run.record)}
    return {cell: replace(found[cell], name=name) for cell, name in names.items() if cell in found and cell in done}


def sources_of(run: RunStore) -> list[dict[str, str]]:
    """How the haystacks of a run are named: by its record, or, where a synthesis made them, by what it holds now."""
    record = run.record
    if record["kind"] == KIND:
        return [one.source() for one in made_by(run).values()]
    return list(record["haystacks"])
