"""What the engine knows of a benchmark, and no more. Part of the engine room.

A *benchmark* is a kind of work; a *workload* is one run of it: a `Workload` instance is both, made of a spec. The engine plans,
runs, resumes, watches and explains any of them. To write one, start from `summhay_ray.benchmark`, which is the door to this.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import random
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar, get_args

import polars as pl

from summhay_ray.engine.given import GivenAnswers
from summhay_ray.engine.inputs import KIND as INPUT
from summhay_ray.engine.inputs import Inputs
from summhay_ray.engine.own_code import BadBenchmark, reading
from summhay_ray.engine.samples import Samples
from summhay_ray.engine.sections import Section
from summhay_ray.engine.spec import ModelSpec, Spec, model_settings
from summhay_ray.errors import UserError
from summhay_ray.llm import LocalModel, ModelSettings, RawAnswer, is_local
from summhay_ray.outcome import NoAnswer
from summhay_ray.plugins import code_identity
from summhay_ray.store import RUN_FORMAT, LogIndex, RunStore, Store, StoreError, Table

if TYPE_CHECKING:
    from summhay_ray.engine.ask import Ask
    from summhay_ray.engine.plan import StagePlan

S = TypeVar("S", bound=Spec)

Size = Literal["least", "expected", "most"]
"""How long an answer that nobody knows yet is taken to be while a run is planned."""

Compat = Literal["default", "release"]
"""How stored answers are read: as we do, or as a paper's own scripts do, mistakes included."""

Rows = Mapping[str, Sequence[Any]]
"""Table -> its rows: records of the table's class."""

Tables = Mapping[str, pl.DataFrame]
"""Table -> its rows as a frame."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of question that a benchmark asks: money, plan and progress are told by stage."""

    name: str
    output_tokens: int = 100
    """Expected length of an answer, in tokens; an answer may be as long as its request allows."""
    example: str | None = None
    """What an answer may look like: what depends on an answer that nobody knows yet is planned with it. None: it is not."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Items that wait for the same models: no queue holds up another."""

    models: tuple[str, ...] = ()
    """The models that its items ask."""
    computes: bool = False
    """Its items compute from beginning to end (a model in this process): they go to workers of their own."""
    at_once: int | None = None
    """Items out at one worker, at most; None: what the models' concurrency allows."""
    together: int | None = None
    """Items that travel to a worker together, at most."""


@dataclass(frozen=True, slots=True, init=False)
class Item:
    """A unit of work that is answered once, and committed with all of its rows."""

    id: str
    queue: str = ""
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What the item is, as small JSON: it travels to the worker."""
    source: str = ""
    """What `prepare` makes for it; items of one source follow each other. Empty: nothing is prepared."""
    group: str = ""
    """Items of one group share a long beginning of their prompts: one worker asks them one after the other."""
    size: int = 1
    """Rows of the benchmark's counted table that the item brings when nothing fails."""
    repeat_of: str = ""
    """The id of an item before it that asks the same: this one wants other answers (`sample`), and is planned as that one."""

    def __init__(
        self,
        id: str,
        queue: str = "",
        data: Mapping[str, Any] | None = None,
        source: str = "",
        group: str = "",
        size: int = 1,
        repeat_of: str = "",
        *,
        model: ModelSpec | None = None,
    ) -> None:
        """`model`: the entry of the spec that the item asks; its queue is that model's."""
        named = queue or (model.label if model is not None else "")
        for name, value in zip(self.__dataclass_fields__, (id, named, data or {}, source, group, size, repeat_of), strict=True):
            object.__setattr__(self, name, value)

    @property
    def model(self) -> str:
        """What tables call the model that the item asks: by default, the queue that it waits in."""
        return self.queue


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is there before the items of a source are answered: rows for the store, and what each item is given."""

    rows: Rows = field(default_factory=dict)
    shared: Any = None
    """JSON that every item of the source gets as `prepared`."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Item id -> JSON that this item alone gets instead."""
    problem: NoAnswer | None = None
    """Why the items cannot be answered: each becomes a failure of `stage`."""
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Counted:
    """What people call a run's items, and the table whose rows its progress counts beside them."""

    items: str = "items"
    table: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that could not be answered or read: never scored, never dropped."""

    item_id: Annotated[str, "the item that it happened in"]
    stage: Annotated[str, "the stage that it happened in"]
    kind: Annotated[str, "refusal, malformed or failed"]
    error: Annotated[str, "class of the error: context_window, missing_answer, empty_answer, ..."]
    message: Annotated[str, "what is wrong, in one line"]
    key: Annotated[str, "the raw answer or request concerned, empty where none was made"]
    attempts: Annotated[int, "HTTP attempts made"]
    usd_micros: Annotated[int, "what it cost in millionths of a dollar"]


FAILURES = Table("failures", Failure, ("item_id", "stage", "error", "message"))
RAW_ANSWERS = Table("raw_answers", RawAnswer, ("key",), later=("origin",))


@dataclass(frozen=True)
class Results:
    """What a run's tables come to: for people and for its JSON document. Nothing here needs a call."""

    details: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the run's JSON document beside those that every run has."""
    scores: Any = None
    """The benchmark's own result object, for Python."""
    sections: Sequence[Section] = ()
    """For people: what the terminal and the report show."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What a person must know of what was made, said in the closing lines."""


class Workload(Generic[S]):
    """One run of a benchmark. What is left as it is here suits a benchmark of one file; see `summhay_ray.benchmark`."""

    kind: ClassVar[str]
    """What a spec's `kind:` says, and the run's record; the class's name where the class says nothing."""
    _kind_is_given: ClassVar[bool] = False
    prefix: ClassVar[str] = "r"
    """The first letter of its runs' ids."""
    spec_class: ClassVar[type[Spec]] = Spec
    stages: ClassVar[Sequence[Stage]] = ()
    tables: ClassVar[Sequence[Table]] = ()
    """Beside `raw_answers` and `failures`, which every run has; one named `failures` replaces ours."""
    counted: ClassVar[Counted] = Counted()
    given: ClassVar[bool] = False
    """Its runs were made elsewhere: they are read, and never run."""
    compat: Compat = "default"
    """How `score` is to read what is stored: as `summhay score --compat` says."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "kind" in cls.__dict__:
            cls._kind_is_given = True
        elif not cls._kind_is_given:
            cls.kind = cls.__name__.lower()
        for base in getattr(cls, "__orig_bases__", ()):
            found = [one for one in get_args(base) if isinstance(one, type) and issubclass(one, Spec)]
            if found:
                cls.spec_class = found[0]

    def __init__(self, spec: S, inputs: Inputs) -> None:
        self.spec = spec
        self.inputs = inputs
        if not inputs.settled:
            # Files of answers are a part of what the run is.
            _ = self.given_answers

    # --- what the run is -----------------------------------------------------------------------------------------------

    def identity(self) -> Any:
        """JSON of all that makes this run another run than one of another content. Files are known by their content."""
        return {
            "kind": self.kind,
            "code": code_identity(self.own_name()),
            "spec": self.spec.semantic(),
            "inputs": dict(sorted(self.inputs.digests().items())),
        }

    @property
    def run_id(self) -> str:
        """A letter and 12 hex digits of the run's content: equal on every machine."""
        return self.prefix + semantic_hash({"identity": self.identity(), "format": RUN_FORMAT})[:12]

    def record(self, store: Store) -> dict[str, Any]:
        """What `run.json` holds beside kind and tables: enough for `from_record` to make the workload again."""
        return {"spec": self.spec.model_dump(mode="json"), "inputs": self.inputs.keep(store)}

    @classmethod
    def record_flaw(cls, record: Mapping[str, Any]) -> str:
        """What `from_record` cannot use of a record, in a few words that name the field; empty where nothing is wrong."""
        for name, kind in (("spec", Mapping), ("cells", int)):
            if not isinstance(record.get(name), kind):
                return f"field {name}: expected {'a mapping' if kind is Mapping else 'a whole number'}"
        return ""

    @classmethod
    def from_record(cls, store: Store, record: Mapping[str, Any]) -> Workload[Any]:
        """The workload of a stored run; its files come from the store."""
        spec = cls.spec_class.model_validate(record["spec"])
        made: Workload[Any] = cls(spec, Inputs.stored(store, record.get("inputs", {})))  # type: ignore[arg-type]
        return made

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        """Kind and sha256 of the store's objects that a stored run stands on."""
        return ((INPUT, digest) for digest in run.record.get("inputs", {}).values())

    def open(self, store: Store) -> RunStore:
        """The run in the store, made where it is not there yet. Raises StoreError where its record is damaged."""
        stages = [stage.name for stage in self.stages]
        head = {"kind": self.record_kind, "name": self.spec.name, "cells": self.n_items(), "stages": stages}
        record = {**head, **self.record(store)}
        run = store.create_run(self.run_id, record, self.all_tables())
        if wrong := self.record_flaw(run.record):
            raise damaged(run, wrong)
        return run

    @property
    def record_kind(self) -> str:
        """What the registry finds the benchmark by: `module:Class` for a person's own."""
        return self.spec.kind if ":" in self.spec.kind else self.kind

    @classmethod
    def all_tables(cls) -> Sequence[Table]:
        """The tables of a run."""
        named = {table.name: table for table in (RAW_ANSWERS, FAILURES, *cls.tables)}
        return tuple(named.values())

    # --- what it asks --------------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, ModelSettings]:
        """Model -> how it is reached and what it costs. Raises SpecError, in one line, for a model without a price."""
        return model_settings(self.spec, self.spec.model_entries())

    def local_models(self) -> Mapping[str, LocalModel]:
        """Models that answer in the worker, by name, or by `provider/` for a family."""
        return {}

    @functools.cached_property
    def given_answers(self) -> Mapping[str, GivenAnswers]:
        """Name -> the models of the spec whose answers lie in files. Raises SpecError, naming the line, for a file that cannot be
        used."""
        entries = [one for one in self.spec.model_entries() if one.answers is not None]
        return {one.model: GivenAnswers(one.model, self.inputs.read(str(one.answers)), str(one.answers)) for one in entries}

    def query_of(self, item: Item) -> str:
        """What a file of answers calls the item, as `query_id`: by default what its data calls so, else the item's own id. What
        a further stage asks about it has `/STAGE` behind."""
        return str(item.data.get("query_id", item.id))

    def stray_answers(self) -> list[str]:
        """A line for each file of answers of which some are to no query of the run."""
        if not self.given_answers:
            return []
        queries = {self.query_of(item) for item in self.items()}
        told, asked = [], {*queries, *(f"{query}/{stage.name}" for query in queries for stage in self.stages)}
        for given in self.given_answers.values():
            if others := [query for query in given.texts if query not in asked]:
                told.append(f"{given.file}: {len(others)} answers are to no query of this run, {others[0]!r} for one")
        return told

    def models_here(self) -> Mapping[str, LocalModel]:
        """All that answer in the worker: `local_models`, and files of answers."""
        return ChainMap(dict(self.given_answers), self.local_models())  # type: ignore[arg-type]

    def revision_of(self, model: str) -> dict[str, Any]:
        """The sampling parameter that tells revisions of a local model apart; nothing for any other model."""
        if not is_local(model):
            return {}
        models = self._local
        found = models.get(model) or models.get(f"{model.partition('/')[0]}/")
        return {"extra_body": {"revision": found.revision}} if found else {}

    @functools.cached_property
    def _local(self) -> Mapping[str, LocalModel]:
        return self.models_here()

    def queues(self) -> Mapping[str, Queue]:
        """Queue -> its models. By default one queue a model, named as tables call it, and one for items that name no model."""
        settings, entries = self.settings(), self.spec.model_entries()
        every = Queue(tuple(settings), computes=bool(settings) and all(one.local for one in settings.values()))
        return {"": every, **{one.label: Queue((one.model,), computes=settings[one.model].local) for one in entries}}

    def items(self) -> Iterator[Item]:
        """All items, always in the same order; ids are content, never a position."""
        raise BadBenchmark(f"{type(self).__name__} names no items; write `def items(self)`, which yields Item(...)")

    def fair_order(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items as a first look (`--limit`) takes them: every queue's, in turn, and of each queue the same places, drawn by
        the seed. The first N of it are among the first M, where M is more."""
        queues: dict[str, list[Item]] = {}
        for item in items:
            queues.setdefault(item.queue, []).append(item)
        longest = max(map(len, queues.values()), default=0)
        places = random.Random(self.spec.seed).sample(range(longest), longest)
        return [mine[place] for place in places for mine in queues.values() if place < len(mine)]

    def n_items(self) -> int:
        """How many items there are."""
        with reading(f"{self.kind}: items", "mend it and run again"):
            return sum(1 for _ in self.items())

    @classmethod
    def total(cls, run: RunStore) -> int:
        """How many items a stored run has; asked without making the workload again."""
        return int(run.record["cells"])

    def prepare(self, source: str, items: Sequence[Item]) -> Prepared:
        """What the items of a source are given, computed where there is room for it; asks no model."""
        return Prepared()

    def computing(self, items: Sequence[Item]) -> Sequence[Mapping[str, Any]]:
        """Parts, as small JSON, of what is to be computed before these items are prepared: on Ray by a pool of actors, as the
        spec's `resources` say; elsewhere `prepare` computes as it goes. By default there is nothing."""
        return ()

    def compute(self, part: Mapping[str, Any]) -> None:
        """Compute a part, and keep it in the store, where `prepare` finds it; what is there already is not computed again."""

    def sketch(self, source: str, items: Sequence[Item]) -> Prepared:
        """What planning takes for what `prepare` will give: by default that itself. For what takes long to compute."""
        return self.prepare(source, items)

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """The item's rows. Models are asked through `ask` alone; an outcome without an answer becomes the item's failure row."""
        raise BadBenchmark(f"{type(self).__name__} answers nothing; write `async def answer(self, item, ask)`")

    # --- what it costs, before ----------------------------------------------------------------------------------------

    def guess(self, item: Item, stage: str, size: Size) -> str | None:
        """What an answer that nobody knows yet may be; what is asked about it is planned with that. None: nobody can say."""
        return next((one.example for one in self.stages if one.name == stage), None)

    async def references(self, item: Item) -> Sequence[str]:
        """What a right answer to the item holds, as texts (labels, sentences), as far as the benchmark knows it."""
        return ()

    async def estimate(self, item: Item, asks: Mapping[Size, Ask]) -> None:
        """Ask what `answer` asks, of asks that only count."""
        from summhay_ray.engine.ask import NoReply

        for size, ask in asks.items():
            if size == "expected" or asks["expected"].guessed_on:
                with contextlib.suppress(NoReply):
                    await self.answer(item, ask)

    def bounds(self, run: RunStore | None, index: LogIndex, done: Collection[str]) -> Sequence[StagePlan] | None:
        """The plan of what is left, where it is not counted question by question (`run`: None where nothing is there yet)."""
        return None

    # --- what it comes to ---------------------------------------------------------------------------------------------

    def score(self, tables: Tables) -> Tables:
        """Scores of the run's tables: pure, and without a call. Beside the run's own: `items`, a row for each item that there
        is to answer (item_id, model, and what its data holds), so that what failed counts as expected."""
        return {}

    def report(self, scores: Tables) -> Sequence[Section]:
        """What people are shown of the scores."""
        return ()

    def details(self, scores: Tables) -> Mapping[str, Any]:
        """Fields of the run's JSON document beside `scores`, as JSON: what is known by a name of its own there."""
        return {}

    def results(self, run: RunStore, compat: Compat = "default") -> Results:
        """What the run's tables come to now: by default the scores and their sections. Raises BadBenchmark."""
        from summhay_ray.engine.scoring import scored

        self.compat = compat
        return scored(self, run)

    def sections(self, run: RunStore, compat: Compat = "default") -> Sequence[Section]:
        """What `summhay report` shows of a run as it stands: by default the sections of its results."""
        return self.results(run, compat).sections

    def samples(self, run: RunStore) -> Samples:
        """What a report's viewer shows, sample by sample; read as it is asked for. By default each item with its rows."""
        from summhay_ray.engine.item_samples import item_samples

        return item_samples(self, run)

    def explain(self, run: RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
        """From an item's id, or an answer's key, to everything that it stands on, as JSON."""
        from summhay_ray.engine.explain import explained

        return explained(self, run, key)

    def places(self, run: RunStore, item_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Item id -> what people know it by, as named texts: beside its failures."""
        return {}

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """The run in the format of its benchmark's own release; all files or none. Raises UserError rather than overwrite one."""
        raise UserError(f"{self.kind} has no released format of its own; read its tables")

    # --- where else it runs -------------------------------------------------------------------------------------------

    def own_name(self) -> str:
        """`module:Class` of a benchmark that is not of this package, whatever its kind is called; empty for one that is."""
        own = type(self)
        return "" if own.__module__.startswith("summhay_ray.") else f"{own.__module__}:{own.__qualname__}"

    def own_code(self) -> Sequence[str]:
        """The module:Class names of a person's own that the spec holds: a job takes their files along."""
        return [name for name in (self.own_name(),) if name]

    def by_store(self) -> Mapping[str, str]:
        """Input as the spec names it -> the name that it has once it is in the store: for large inputs of a job."""
        return {}

    def keep_by_store(self, store: Store) -> None:
        """Put those inputs into the store."""


def damaged(run: RunStore, wrong: str) -> StoreError:
    """The error for a run whose record cannot be used."""
    record = run.store.files.where(f"runs/{run.run_id}/run.json")
    return StoreError(f"{record} is damaged: {wrong}; put back a copy of it, or use another store")


def semantic_hash(content: Any) -> str:
    """sha256 (hex) of the canonical JSON of what JSON can hold: 1.0 and 1 are one value, the order of fields is none."""
    return hashlib.sha256(canonical(content).encode("ascii")).hexdigest()


def canonical(content: Any) -> str:
    """Canonical JSON."""
    return json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _plain(content: Any) -> Any:
    """The content with whole floats as integers: 1.0 and 1 are one value, to a person and to a provider."""
    if isinstance(content, Mapping):
        return {name: _plain(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    return int(content) if isinstance(content, float) and content.is_integer() else content
