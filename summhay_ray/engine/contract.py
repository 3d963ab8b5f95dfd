"""The contract between the engine and a benchmark: everything the engine knows of one. Part of the engine room.

A *benchmark* is a kind of work, written as a subclass of `Workload`. A *workload* is one run of it: an instance, made from a
spec. The engine plans, runs, resumes, watches and explains any workload. To write a benchmark, start from
`summhay_ray.benchmark`, which exports these names.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar, get_args

import polars as pl

from summhay_ray.engine.read.samples import Samples
from summhay_ray.engine.read.sections import Section
from summhay_ray.engine.spec.inputs import CODE, FOLDER, Inputs
from summhay_ray.engine.spec.inputs import KIND as INPUT
from summhay_ray.engine.spec.models import RunModels
from summhay_ray.engine.spec.own_code import BadBenchmark, reading
from summhay_ray.engine.spec.spec import ModelSpec, Spec, model_settings
from summhay_ray.errors import UserError
from summhay_ray.llm import LocalModel, ModelSettings, RawAnswer, is_local
from summhay_ray.outcome import NoAnswer
from summhay_ray.plugins import code_identity
from summhay_ray.store import MEND_RECORD, RUN_FORMAT, LogIndex, RunStore, Store, StoreError, Table

if TYPE_CHECKING:
    from summhay_ray.engine.ask import Ask
    from summhay_ray.engine.plan.plan import StagePlan

S = TypeVar("S", bound=Spec)

_OF_FILES = "sha256:"
"""Prefix of a local model's revision that is a hash of its files."""
Size = Literal["least", "expected", "most"]
"""Which length the plan assumes for an answer that is not known yet: as short as possible, as expected, as long as allowed."""

Compat = Literal["default", "release"]
"""How stored answers are read: `default` is this package's reading, `release` that of the paper's own scripts, bugs included."""

Rows = Mapping[str, Sequence[Any]]
"""Table -> its rows: records of the table's class."""

Tables = Mapping[str, pl.DataFrame]
"""Table -> its rows as a frame."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of question that a benchmark asks. Budgets, plans and progress are reported by stage."""

    name: str
    output_tokens: int = 100
    """Expected length of an answer, in tokens, for the plan. It does not limit the answer; the request does."""
    example: str | None = None
    """A plausible answer. The plan uses it to count the questions that depend on an answer; None: these are not planned."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Items that wait for the same models. Queues do not delay one another."""

    models: tuple[str, ...] = ()
    """The models that the queue's items ask."""
    computes: bool = False
    """True if the items only compute, as with a model that runs in the worker. They get workers of their own."""
    at_once: int | None = None
    """Maximum number of items in progress at one worker; None: as many as the models' concurrency allows."""
    together: int | None = None
    """Maximum number of items sent to a worker in one batch; None: the engine decides."""


@dataclass(frozen=True, slots=True, init=False)
class Item:
    """A unit of work. It is answered once and committed together with all of its rows."""

    id: str
    queue: str = ""
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The item's content as small JSON, which is sent to the worker."""
    source: str = ""
    """Name of the input that `prepare` processes once for all items that share it. These items are scheduled together."""
    group: str = ""
    """Items of one group share a long prompt prefix; one worker asks them in order, to use the provider's prompt cache."""
    size: int = 1
    """Expected number of rows in the benchmark's counted table."""
    repeat_of: str = ""
    """Id of an earlier item with the same prompts. This item asks for another `sample`; its calls are planned as the others'."""
    reads: str = ""
    """Name of the data that takes time to read or to prepare, such as a file, the same for all items of a source. Sources with
    the same `reads` go to one worker, as far as that leaves no other worker idle."""

    def __init__(
        self,
        id: str,
        queue: str = "",
        data: Mapping[str, Any] | None = None,
        source: str = "",
        group: str = "",
        size: int = 1,
        repeat_of: str = "",
        reads: str = "",
        *,
        model: ModelSpec | None = None,
    ) -> None:
        """`model` is the spec's entry of the model to ask; without a `queue`, the item waits in that model's queue."""
        named = queue or (model.label if model is not None else "")
        values = (id, named, data or {}, source, group, size, repeat_of, reads)
        for name, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def model(self) -> str:
        """The model's name in tables, which is the name of the item's queue."""
        return self.queue


@dataclass(frozen=True, slots=True)
class Prepared:
    """The result of preparing a source: rows for the store, and the data that each item receives as `ask.prepared`."""

    rows: Rows = field(default_factory=dict)
    shared: Any = None
    """JSON that every item of the source receives."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Item id -> JSON that this item receives instead of `shared`."""
    problem: NoAnswer | None = None
    """Why the source could not be prepared. Every item of it then becomes a failure in `stage`."""
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Counted:
    """How progress is shown: the word for a run's items, and a table whose rows are counted as well (empty: none)."""

    items: str = "items"
    table: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A question without a usable answer. It is recorded, and never scored."""

    item_id: Annotated[str, "the item that failed"]
    stage: Annotated[str, "the stage that it failed in; empty if in none"]
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
    """The results computed from a run's tables, without any model call."""

    details: Mapping[str, Any] = field(default_factory=dict)
    """The benchmark's own fields of the run's JSON document."""
    scores: Any = None
    """The benchmark's own result object, for Python."""
    sections: Sequence[Section] = ()
    """The sections that the terminal and the report show."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Remarks about the results, printed in the closing lines of a run."""


@dataclass(frozen=True)
class ByQuery:
    """How systems scored, query by query: what `summhay compare` and the report's "Is it real?" need."""

    scores: pl.DataFrame
    """A row per system and query: columns `system`, `query`, and one of floats per figure, null where nothing was scored. A
    column `cluster` says which queries are alike, such as those about one document: they are resampled together."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Figure -> its unit; differences of fractions with the unit % are shown in points."""
    cluster: str = "collection"
    """What a cluster is, in the singular, such as document. Without a column `cluster`, what all queries are of."""
    expected: pl.DataFrame | None = None
    """What was to be answered: a row per system and query, with `cluster` where `scores` has it, and with `figure` where figures
    have queries of their own. By default, every system was to answer every query that some system answered."""
    may_lack: Collection[str] = ()
    """Figures that an answer may lack, such as the correlation of constant values: this is no missing answer."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """System -> what people see, where it is not the system itself."""


class Workload(Generic[S]):
    """One run of a benchmark. The defaults suit a benchmark in a single file; see `summhay_ray.benchmark`."""

    kind: ClassVar[str]
    """The benchmark's name in a spec's `kind:` and in the run's record; by default the class's name in lower case."""
    _kind_is_given: ClassVar[bool] = False
    prefix: ClassVar[str] = "r"
    """The first letter of the ids of its runs."""
    spec_class: ClassVar[type[Spec]] = Spec
    stages: ClassVar[Sequence[Stage]] = ()
    tables: ClassVar[Sequence[Table]] = ()
    """The benchmark's tables. Every run also has `raw_answers` and `failures`; a table named `failures` replaces that one."""
    in_pieces: ClassVar[Collection[str]] = ()
    """Large tables that `score` and `by_query` do not find among their tables, and read by `table_pieces`."""
    counted: ClassVar[Counted] = Counted()
    given: ClassVar[bool] = False
    """True for a benchmark whose runs are imported: they are read, and never run."""
    compat: Compat = "default"
    """How `score` reads stored answers; set by `summhay score --compat`."""
    judge: str = ""
    """Whose figures the report shows, where a run has those of several; set by `summhay report --judge`. Empty: its own."""
    labels: str = ""
    """A sheet of people's labels that correct the report's figures; set by `summhay report --labels`. Empty: none."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "kind" in cls.__dict__:
            cls._kind_is_given = True
        elif not cls._kind_is_given:
            cls.kind = cls.__name__.lower()
        for base in getattr(cls, "__orig_bases__", ()):
            specs = [argument for argument in get_args(base) if isinstance(argument, type) and issubclass(argument, Spec)]
            if specs:
                cls.spec_class = specs[0]

    def __init__(self, spec: S, inputs: Inputs) -> None:
        self.spec = spec
        self.inputs = inputs
        self.models = RunModels(spec, inputs, self._local_models, self._model_settings)
        if not inputs.settled:
            # Reads the files of answers now, since their content is part of the run's identity.
            _ = self.models.given

    def _local_models(self) -> Mapping[str, LocalModel]:
        return {}

    def _model_settings(self) -> dict[str, ModelSettings]:
        return model_settings(self.spec, self.spec.model_entries())

    # --- identity and record -------------------------------------------------------------------------------------------

    def identity(self) -> Any:
        """Everything that determines the run's id, as JSON: kind, code, semantic spec fields, and hashes of the input files."""
        return {
            "kind": self.kind,
            "code": code_identity(self.own_name()),
            "spec": self.spec.semantic(),
            "inputs": dict(sorted(self.inputs.digests().items())),
        }

    @property
    def run_id(self) -> str:
        """The prefix and the first 12 hex digits of a hash of `identity`: the same on every machine."""
        weights = self._of_folders()
        content = {"identity": self.identity(), "format": RUN_FORMAT, **({"weights": weights} if weights else {})}
        return self.prefix + semantic_hash(content)[:12]

    def _of_folders(self) -> dict[str, str]:
        """Local model -> the hash of its files, for those that lie in a folder."""
        local = {name for entry in self.spec.model_entries() if is_local(name := entry.model) and name in self.models.local}
        return {name: revision for name in local if (revision := self.models.local[name].revision).startswith(_OF_FILES)}

    def record(self, store: Store) -> dict[str, Any]:
        """The benchmark's part of `run.json`, which its constructor finds as `inputs.record`. Stores the input files."""
        return {"spec": self.spec.model_dump(mode="json"), "inputs": self.inputs.keep(store)}

    @classmethod
    def record_flaw(cls, record: Mapping[str, Any]) -> str:
        """Why a workload cannot be made from a record, naming the field; empty if it can."""
        for name, kind in (("spec", Mapping), ("cells", int)):
            if not isinstance(record.get(name), kind):
                return f"field {name}: expected {'a mapping' if kind is Mapping else 'a whole number'}"
        return ""

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        """The store's objects that a stored run depends on, as (kind, sha256)."""
        return ((INPUT, digest) for digest in run.record.get("inputs", {}).values())

    def open(self, store: Store) -> RunStore:
        """The run in the store, created if it does not exist. Raises StoreError if its record is damaged."""
        stages = [stage.name for stage in self.stages]
        head = {"kind": self.record_kind, "name": self.spec.name, "cells": self.n_items(), "stages": stages}
        # A worker loads a model from its folder, which is not kept in the store.
        folder = {FOLDER: str(self.inputs.folder.absolute())} if self._of_folders() else {}
        record = {**head, **folder, **self.record(store), **self.code()}
        run = store.create_run(self.run_id, record, self.all_tables())
        self.inputs.store = store
        if wrong := self.record_flaw(run.record):
            raise damaged(run, wrong)
        return run

    @property
    def record_kind(self) -> str:
        """The name by which the registry finds the benchmark again: `module:Class` for a user's own."""
        return self.spec.kind if ":" in self.spec.kind else self.kind

    @classmethod
    def all_tables(cls) -> Sequence[Table]:
        """All tables of a run, including `raw_answers` and `failures`."""
        named = {table.name: table for table in (RAW_ANSWERS, FAILURES, *cls.tables)}
        return tuple(named.values())

    # --- models, items and answers -------------------------------------------------------------------------------------

    def query_of(self, item: Item) -> str:
        """The item's `query_id` in a file of answers: by default `query_id` of its data, else its id. In such a file, answers to
        any stage after the first have the id `QUERY_ID/STAGE`."""
        return str(item.data.get("query_id", item.id))

    def queues(self) -> Mapping[str, Queue]:
        """The queues by name. By default one for each model, named by its label, and one named "" for items without a model."""
        settings, entries = self.models.settings(), self.spec.model_entries()
        shared = Queue(tuple(settings), computes=bool(settings) and all(model.local for model in settings.values()))
        return {"": shared, **{entry.label: Queue((entry.model,), computes=settings[entry.model].local) for entry in entries}}

    def items(self) -> Iterator[Item]:
        """All items, always in the same order. An id describes the item's content, and never its position."""
        raise BadBenchmark(f"{type(self).__name__} names no items; write `def items(self)`, which yields Item(...)")

    def fair_order(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items in the order in which `--limit` takes them: queues alternate, and every queue is sampled at the same
        positions, drawn with the spec's seed. A larger limit includes the items of a smaller one."""
        queues: dict[str, list[Item]] = {}
        for item in items:
            queues.setdefault(item.queue, []).append(item)
        longest = max(map(len, queues.values()), default=0)
        positions = random.Random(self.spec.seed).sample(range(longest), longest)
        return [queued[position] for position in positions for queued in queues.values() if position < len(queued)]

    def n_items(self) -> int:
        """The number of items."""
        with reading(f"{self.kind}: items", "mend it and run again"):
            return sum(1 for _ in self.items())

    @classmethod
    def total(cls, run: RunStore) -> int:
        """The number of items of a stored run, read from its record."""
        return int(run.record["cells"])

    def prepare(self, source: str, items: Sequence[Item]) -> Prepared:
        """Compute what the items of a source need, such as parts of a long text. It must not ask a model."""
        return Prepared()

    def computing(self, items: Sequence[Item], actors: int = 1) -> Sequence[Mapping[str, Any]]:
        """The computations (as small JSON) that `prepare` needs for these items, such as embeddings. On Ray, a pool of actors
        runs them first, with `compute`, and `actors` may divide them; elsewhere `prepare` computes as needed. By default none.

        Sources for which these are the same, or which read the same, are computed together."""
        return ()

    def compute(self, part: Mapping[str, Any]) -> Mapping[str, float]:
        """Compute one part of `computing` and store the result for `prepare`. Results that are already stored are kept.

        Returns what was computed now: `texts`, `tokens`, and the seconds `load_s` (of models) and `compute_s`.
        """
        return {}

    def sketch(self, source: str, items: Sequence[Item]) -> Prepared:
        """A cheap stand-in for `prepare` while planning; by default `prepare` itself. Override it where `prepare` is slow."""
        return self.prepare(source, items)

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """Answer one item and return its rows. Ask models only through `ask`; a missing answer becomes the item's failure row."""
        raise BadBenchmark(f"{type(self).__name__} answers nothing; write `async def answer(self, item, ask)`")

    # --- planning -----------------------------------------------------------------------------------------------------

    def guess(self, item: Item, stage: str, size: Size) -> str | None:
        """A stand-in for an answer that is not known yet, for planning the questions that depend on it; None: these are not
        planned. By default the stage's `example`."""
        return next((known.example for known in self.stages if known.name == stage), None)

    async def references(self, item: Item) -> Sequence[str]:
        """The reference texts of the item (labels or sentences that a correct answer contains), if the benchmark has any."""
        return ()

    def bounds(self, run: RunStore | None, index: LogIndex, done: Collection[str]) -> Sequence[StagePlan] | None:
        """A plan of the remaining work as bounds, for a benchmark whose questions cannot be counted in advance; None: they are
        counted. `run` is None before the first start; `done` are the ids of finished items."""
        return None

    def doubts(self) -> Sequence[str]:
        """Warnings about the inputs, which `plan` and a run give before any call; by default none."""
        return ()

    # --- results ------------------------------------------------------------------------------------------------------

    def score(self, tables: Tables) -> Tables:
        """Compute scores from the run's tables: a pure function, which asks no model. `tables` also has `items`, with a row for
        each item of the run (item_id, model, and the plain values of its data), so that failed items count as expected."""
        return {}

    def report(self, scores: Tables) -> Sequence[Section]:
        """The sections that the terminal and the report show."""
        return ()

    def by_query(self, tables: Tables) -> ByQuery | None:
        """How systems scored on each query, for comparisons in pairs, from the same tables as `score`; None: not compared."""
        return None

    def details(self, scores: Tables) -> Mapping[str, Any]:
        """Further fields of the run's JSON document, beside `scores`."""
        return {}

    def results(self, run: RunStore, compat: Compat = "default") -> Results:
        """The run's results so far; by default from `score`, `report` and `details`. Raises BadBenchmark."""
        from summhay_ray.engine.read.scoring import scored

        self.compat = compat
        return scored(self, run)

    def sections(self, run: RunStore, compat: Compat = "default") -> Sequence[Section]:
        """The sections that `summhay report` shows; by default those of the results."""
        return self.results(run, compat).sections

    def judge_of(self, run: RunStore) -> str:
        """Whose figures the run shows, as `judge`; empty for a benchmark that names nobody."""
        return ""

    def samples(self, run: RunStore) -> Samples:
        """The samples that the report's viewer shows, read lazily; by default each item with its rows."""
        from summhay_ray.engine.read.item_samples import item_samples

        return item_samples(self, run)

    def explain(self, run: RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
        """An item (found by its id or by an answer's key) with its rows, prompts and answers, as JSON."""
        from summhay_ray.engine.read.explain import explained

        return explained(self, run, key)

    def places(self, run: RunStore, item_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Item id -> named texts that identify the item to people, such as a title; shown with its failures."""
        return {}

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """Write the run in the format of the benchmark's own release; all files or none. Raises UserError if a file exists."""
        raise UserError(f"{self.kind} has no released format of its own; read its tables")

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def own_name(self) -> str:
        """`module:Class` of a benchmark outside this package; empty for one inside it."""
        own = type(self)
        return "" if own.__module__.startswith("summhay_ray.") else f"{own.__module__}:{own.__qualname__}"

    def own_code(self) -> Sequence[str]:
        """The user's own classes that the spec names, as module:Class. A job packs their files."""
        return [name for name in (self.own_name(),) if name]

    def code(self) -> dict[str, Any]:
        """The field of the run's record with the identities of the user's own classes; without any, no field."""
        names = dict.fromkeys(name.partition("/")[0] for name in self.own_code())
        return {CODE: {name: self.inputs.code(name) for name in names}} if names else {}

    def by_store(self) -> Mapping[str, str]:
        """Large inputs that a job reads from the store: name in the spec -> name in the store."""
        return {}

    def keep_by_store(self, store: Store) -> None:
        """Put the inputs of `by_store` into the store."""


def damaged(run: RunStore, wrong: str) -> StoreError:
    """The error for a run whose record cannot be used; `wrong` says why."""
    record = run.store.files.where(f"runs/{run.run_id}/run.json")
    return StoreError(f"{record} is damaged: {wrong}; {MEND_RECORD}")


def semantic_hash(content: Any) -> str:
    """sha256 (hex) of the canonical JSON of `content`. 1.0 and 1 are equal, and the order of fields does not matter."""
    return hashlib.sha256(canonical(content).encode("ascii")).hexdigest()


def canonical(content: Any) -> str:
    """`content` as canonical JSON: sorted fields, no blanks, ASCII, whole floats as integers."""
    return json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _plain(content: Any) -> Any:
    """The content with whole floats as integers, since 1.0 and 1 mean the same to people and to providers."""
    if isinstance(content, Mapping):
        return {name: _plain(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    return int(content) if isinstance(content, float) and content.is_integer() else content
