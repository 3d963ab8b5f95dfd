"""The contract between the engine and a benchmark: everything the engine knows about one.

A *benchmark* is a kind of work, written as a subclass of `Workload`. A *workload* is one run of it: an instance, made from a
spec. The engine plans, runs, resumes, watches and explains any workload. To write a benchmark, start from
`summhay_ray.benchmark`, which exports these names.
"""

import functools
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, get_args

import polars as pl

from summhay_ray.engine.ask import Ask
from summhay_ray.engine.items import BadBenchmark, Counted, Item, Prepared, Queue, Rows, RunTables, Stage, all_tables, reading
from summhay_ray.engine.spec.inputs import CODE, FOLDER, Inputs, RunModels
from summhay_ray.engine.spec.inputs import KIND as INPUT
from summhay_ray.engine.spec.spec import ModelSpec, Spec
from summhay_ray.errors import UserError
from summhay_ray.llm import LocalModel, is_local
from summhay_ray.plugins import code_identity
from summhay_ray.run_options import Compat
from summhay_ray.sections import Samples, Section
from summhay_ray.store import RUN_FORMAT, Count, RunStore, Store, Table
from summhay_ray.text import semantic_hash

S = TypeVar("S", bound=Spec)

_OF_FILES = "sha256:"
"""Prefix of a local model's revision that is a hash of its files."""


@dataclass(frozen=True)
class Results:
    """The results computed from a run's tables, without any model call. Figures that a command does not show are not computed."""

    scores: Any = None
    """The benchmark's own result object, for Python."""
    make_sections: Callable[[], Sequence[Section]] = field(default=tuple, repr=False)
    make_details: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Remarks about the results, printed in the closing lines of a run."""
    judge: str = ""
    """The judge that these figures come from, if a run may have more than one."""
    compared: Any = None
    """The systems' scores that the report compares (`comparison.RunScores`), if `Workload.by_query` does not give them."""

    @functools.cached_property
    def sections(self) -> Sequence[Section]:
        """The sections that the terminal and the report show. Raises BadBenchmark."""
        return self.make_sections()

    @functools.cached_property
    def details(self) -> Mapping[str, Any]:
        """The benchmark's own fields of the run's JSON document. Raises BadBenchmark."""
        return self.make_details()


@dataclass(frozen=True)
class ByQuery:
    """The scores of systems by query, for `summhay compare` and the report's "Is it real?"."""

    scores: pl.DataFrame
    """A row per system and query: columns `system`, `query`, and a float column per figure, null where nothing was scored. The
    optional column `cluster` groups similar queries, such as those about one document; each group is resampled as a whole.
    Further text columns, such as `model`, are the parts of which a system consists, and name it."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Figure -> its unit; differences of fractions with the unit % are shown in points."""
    cluster: str = "collection"
    """The noun for a cluster, such as document. Without a column `cluster`, all queries belong to one such cluster."""
    expected: pl.DataFrame | None = None
    """The expected answers: a row per system and query, with `cluster` if `scores` has it, and with `figure` if figures have
    different queries. By default, every system should answer every query that some system answered. Columns `n` and `n_expected`:
    the actual and the expected number of values in the mean of a query's scores; by default, one answer."""
    counted: str = "answers"
    """What `n` and `n_expected` count, in the plural."""
    may_lack: Collection[str] = ()
    """Figures that may be undefined for an answer, such as the correlation of constant values. Such an answer is not missing."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """System -> its name in tables; by default its parts, or else the system."""
    ceilings: Collection[str] = ()
    """Systems that see the gold labels, which real systems cannot. They are compared, but never recommended."""


CallBounds = Mapping[str, Mapping[str, int]]
"""An item's calls in a stage: `least`, `expected` and `most` -> the sums `calls`, `input_tokens`, `output_tokens`."""


class Workload(Generic[S]):
    """One run of a benchmark. The defaults suit a benchmark in a single file; see `summhay_ray.benchmark`."""

    kind: ClassVar[str]
    """The benchmark's name in a spec's `kind:` and in the run's record; by default the class's name in lower case."""
    _kind_is_given: ClassVar[bool] = False
    stages: ClassVar[Sequence[Stage]] = ()
    tables: ClassVar[Sequence[Table]] = ()
    """The benchmark's tables. Every run also has `raw_answers` and `failures`; a table named `failures` replaces that one."""
    counted: ClassVar[Counted] = Counted()
    imported: ClassVar[bool] = False
    """True for a benchmark whose runs are imported. They are never executed."""
    record_fields: ClassVar[Mapping[str, Any]] = {"name": str, "cells": Count, "spec": dict[str, Any]}
    """Field of a run's record -> its type, with `| None` for optional fields. A stored record of another form is damaged."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "kind" in cls.__dict__:
            cls._kind_is_given = True
        elif not cls._kind_is_given:
            cls.kind = cls.__name__.lower()

    def __init__(self, spec: S, inputs: Inputs) -> None:
        self.spec = spec
        self.inputs = inputs
        settings = functools.cache(lambda: spec.settings_of(spec.model_entries()))
        self.models = RunModels(spec, inputs, self._local_models, settings)
        if not inputs.settled:
            # Reads the files of answers now, since their content is part of the run's identity.
            _ = self.models.given_answers

    def _local_models(self) -> Mapping[str, LocalModel]:
        return {}

    # --- identity and record -------------------------------------------------------------------------------------------

    def identity(self) -> Any:
        """Everything that determines the run's id, as JSON: kind, code, semantic spec fields, and hashes of the input files."""
        return {
            "kind": self.kind,
            "code": code_identity(own_name(self)),
            "spec": self.spec.semantic(),
            "inputs": dict(sorted(self.inputs.digests.items())),
        }

    @property
    def run_id(self) -> str:
        """The prefix and the first 12 hex digits of a hash of `identity`: the same on every machine."""
        weights = _of_folders(self)
        content = {"identity": self.identity(), "format": RUN_FORMAT, **({"weights": weights} if weights else {})}
        return self.counted.prefix + semantic_hash(content)[:12]

    # --- models, items and answers -------------------------------------------------------------------------------------

    def queues(self) -> Mapping[str, Queue]:
        """The queues by name. By default one for each model, named by its label, and one named "" for items without a model."""
        settings, entries = self.models.settings(), self.spec.model_entries()
        shared = Queue(tuple(settings), computes=bool(settings) and all(model.local for model in settings.values()))
        return {"": shared, **{entry.label: Queue((entry.model,), computes=settings[entry.model].local) for entry in entries}}

    def items(self) -> Iterator[Item]:
        """All items, always in the same order. An id describes the item's content, and never its position."""
        raise BadBenchmark(f"{type(self).__name__} names no items; write `def items(self)`, which yields Item(...)")

    def n_items(self) -> int:
        """The number of items."""
        with reading(f"{self.kind}: items", "mend it and run again"):
            return sum(1 for _ in self.items())

    def prepare(self, source: str, items: Sequence[Item]) -> Prepared:
        """Compute the data that the items of a source need, such as parts of a long text. It must not ask a model."""
        return Prepared()

    def input_rows(self, name: str) -> Rows:
        """The rows that describe an input, such as the documents of a corpus; `name`: the `reads` of its items. They are written
        once, when the first of these items is prepared."""
        return {}

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """Answer one item and return its rows. Ask models only through `ask`; a missing answer becomes the item's failure row."""
        raise BadBenchmark(f"{type(self).__name__} answers nothing; write `async def answer(self, item, ask)`")

    # --- long computations ---------------------------------------------------------------------------------------------

    def sketch(self, source: str, items: Sequence[Item]) -> Prepared:
        """A cheap stand-in for `prepare` while planning; by default `prepare` itself. Override it where `prepare` is slow."""
        return self.prepare(source, items)

    def computations(self, items: Sequence[Item], actors: int = 1) -> Sequence[Mapping[str, Any]]:
        """The long computations that `prepare` needs for these items, such as embeddings, in parts (as small JSON). On Ray, a
        pool of `actors` actors runs `compute` on the parts first. Elsewhere, `prepare` computes them as needed.

        Sources with the same parts or the same `reads` are computed together. If there are more parts than such sources, the
        parts are distributed one by one and begin in order. A part that needs a missing result of another part computes that
        result itself."""
        return ()

    def compute(self, part: Mapping[str, Any]) -> Mapping[str, float]:
        """Compute one of `computations` and store the result for `prepare`. Results that are already stored are kept.

        Returns the work of this call: `texts`, `tokens`, and the seconds `load_s` (loading models) and `compute_s`.
        """
        return {}

    # --- the plan ------------------------------------------------------------------------------------------------------

    def warnings(self) -> Sequence[str]:
        """Warnings about the inputs, which `plan` and a run give before any call."""
        return ()

    def guess(self, item: Item, stage: str, size: str) -> str | None:
        """An assumed answer while planning, from which the questions that depend on it are built; None: these are not planned.
        `size`: the length to assume: least, expected or most. By default the stage's `example`."""
        return next((known.example for known in self.stages if known.name == stage), None)

    async def references(self, item: Item) -> Sequence[str]:
        """The reference texts of the item (labels or sentences that a correct answer contains), if the benchmark has any."""
        return ()

    def query_of(self, item: Item) -> str:
        """The item's `query_id` in a file of answers: by default `query_id` of its data, else its id. In such a file, answers to
        later stages than the first have the id `QUERY_ID/STAGE`."""
        return str(item.data.get("query_id", item.id))

    def queries(self) -> Mapping[str, None] | None:
        """The queries that a file of answers may answer; None where they are not known before the run."""
        return dict.fromkeys(self.query_of(item) for item in self.items())

    def fair_order(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items in the order in which `--limit` takes them. By default, queues alternate, and every queue is sampled at
        the same random positions (by the spec's seed). A larger limit includes the items of a smaller one."""
        queues: dict[str, list[Item]] = {}
        for item in items:
            queues.setdefault(item.queue, []).append(item)
        longest = max(map(len, queues.values()), default=0)
        positions = random.Random(self.spec.seed).sample(range(longest), longest)
        return [queued[position] for position in positions for queued in queues.values() if position < len(queued)]

    def bounds(self, item: Item) -> Mapping[str, tuple[ModelSpec, CallBounds]]:
        """Stage -> its model, and the bounds of an item's calls there. Override it if the number of calls depends on answers.
        `plan` then gives bounds."""
        return {}

    # --- results ------------------------------------------------------------------------------------------------------

    def score(self, tables: RunTables) -> Any:
        """Compute scores from the run's tables, without asking a model. A table is read when it is first used. `tables` also has
        `items`, with a row for each item of the run (item_id, model, and the plain values of its data), so that failed items
        count as expected. Returns frames by name. This package's benchmarks may return an object instead, which `details` turns
        into JSON.
        """
        return {}

    def report(self, scores: Any) -> Sequence[Section]:
        """The sections that the terminal and the report show."""
        return ()

    def full_report(self, scores: Any, tables: RunTables) -> Sequence[Section]:
        """The sections that `summhay report` shows; by default those of `report`."""
        return self.report(scores)

    def by_query(self, tables: RunTables) -> ByQuery | None:
        """The scores of systems by query, for paired comparisons, from the same tables as `score`; None: no comparison."""
        return None

    # --- a stored run --------------------------------------------------------------------------------------------------

    def details(self, scores: Any) -> Mapping[str, Any]:
        """Fields of the run's JSON document in addition to `scores`."""
        return {}

    def results(self, tables: RunTables) -> Results:
        """The run's results so far, from `score`, `report` and `details`; override it to add warnings. Raises BadBenchmark."""
        raise NotImplementedError

    def samples(self, run: RunStore, judge: str = "") -> Samples:
        """The samples that the report's viewer shows, read lazily; by default each item with its rows."""
        raise NotImplementedError

    def explain(self, run: RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
        """An item (found by its id or by an answer's key) with its rows, prompts and answers, as JSON."""
        raise NotImplementedError

    def places(self, run: RunStore, item_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Item id -> named texts that identify the item to people, such as a title; shown with its failures."""
        return {}

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """Write the run in the format of the benchmark's own release; all files or none. Raises UserError if a file exists."""
        raise UserError(f"{self.kind} has no released format of its own; read its tables")

    # --- stored data that lets any machine read and resume the run -------- ----------------------------------------------

    def record(self, store: Store) -> dict[str, Any]:
        """The benchmark's part of `run.json`, which its constructor gets as `inputs.record`. Stores the input files."""
        return {"spec": self.spec.model_dump(mode="json"), "inputs": self.inputs.keep(store)}

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        """The store's objects that a stored run depends on, as (kind, sha256)."""
        return ((INPUT, digest) for digest in run.record.get("inputs", {}).values())

    @classmethod
    def n_items_of(cls, run: RunStore) -> int:
        """The number of items of a stored run, read from its record."""
        return int(run.record["cells"])

    def on_open(self, run: RunStore) -> None:
        """Called whenever the run is opened in a store, for what concerns the whole run; see also `input_rows`."""

    def own_code(self) -> Sequence[str]:
        """The user's own classes that the spec names, as module:Class. A job packs their files."""
        return [name for name in (own_name(self),) if name]

    def by_store(self) -> Mapping[str, str]:
        """Large inputs that a job reads from the store: name in the spec -> name in the store."""
        return {}

    def keep_by_store(self, store: Store) -> None:
        """Put the inputs of `by_store` into the store."""


def spec_class_of(benchmark: type[Workload[Any]]) -> type[Spec]:
    """The class of a benchmark's specs: the type argument of its `Workload`."""
    for base in benchmark.__mro__:
        for typed in base.__dict__.get("__orig_bases__", ()):
            for argument in get_args(typed):
                if isinstance(argument, type) and issubclass(argument, Spec):
                    return argument
    return Spec


def own_name(workload: Workload[Any]) -> str:
    """`module:Class` of a benchmark outside this package; empty for one inside it."""
    own = type(workload)
    return "" if own.__module__.startswith("summhay_ray.") else f"{own.__module__}:{own.__qualname__}"


def open_run(workload: Workload[Any], store: Store) -> RunStore:
    """The workload's run in the store, created if it does not exist. Raises StoreError if its record is damaged."""
    spec, inputs = workload.spec, workload.inputs
    stages = [stage.name for stage in workload.stages]
    # The registry finds a user's own benchmark by `module:Class`.
    kind = spec.kind if ":" in spec.kind else workload.kind
    head = {"kind": kind, "name": spec.name, "cells": workload.n_items(), "stages": stages}
    # A worker loads a model from its folder, which is not kept in the store.
    folder = {FOLDER: str(inputs.folder.absolute())} if _of_folders(workload) else {}
    own = dict.fromkeys(name.partition("/")[0] for name in workload.own_code())
    code = {CODE: {name: inputs.code(name) for name in own}} if own else {}
    record = {**head, **folder, **workload.record(store), **code}
    run = store.create_run(workload.run_id, record, all_tables(type(workload)))
    inputs.store = store
    workload.on_open(run)
    return run


def _of_folders(workload: Workload[Any]) -> dict[str, str]:
    """Local model -> the hash of its files, for models in a folder."""
    models = workload.models
    local = {name for entry in workload.spec.model_entries() if is_local(name := entry.model) and name in models.local}
    return {name: revision for name in local if (revision := models.local[name].revision).startswith(_OF_FILES)}
