"""The contract between the engine and benchmarks: all that the engine knows about a benchmark.

A *benchmark* is a kind of work, written as a subclass of `Workload`. A *workload* is one run of a benchmark: an instance that is
made from a spec. The engine plans, runs, resumes, monitors and explains any workload. To write a benchmark, start from
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
"""Prefix of a local model's revision if the revision is a hash of its files."""


@dataclass(frozen=True)
class Results:
    """The results of a run, computed from its tables without model calls. Sections and details are computed when they are first
    used."""

    scores: Any = None
    """The benchmark's own result object, for Python."""
    make_sections: Callable[[], Sequence[Section]] = field(default=tuple, repr=False)
    make_details: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Remarks about the results, printed in the closing lines of a run."""
    judge: str = ""
    """The judge of these figures, if a run may have more than one."""
    compared: Any = None
    """The scores that the report compares between systems (`comparison.RunScores`), if `Workload.by_query` does not return
    them."""

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
    Further text columns, such as `model`, are the parts of a system; together they give its name."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Figure -> its unit. If the unit is %, differences are shown in percentage points."""
    cluster: str = "collection"
    """The noun for a cluster, such as document. Without a column `cluster`, all queries belong to one cluster."""
    expected: pl.DataFrame | None = None
    """The expected answers: a row per system and query, with `cluster` if `scores` has that column, and with `figure` if figures
    have different queries. By default, every system should answer every query that some system answered. The columns `n` and
    `n_expected` give the actual and the expected number of values in the mean of a query's scores; without these columns, both
    count one answer."""
    counted: str = "answers"
    """What `n` and `n_expected` count, in the plural."""
    may_lack: Collection[str] = ()
    """Figures that may be undefined for an answer, such as the correlation of constant values. An undefined figure does not count
    as missing."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """System -> its name in tables; by default the names of its parts, or the value of `system` if it has none."""
    ceilings: Collection[str] = ()
    """Systems that see the gold labels, which real systems cannot. They are compared, but never recommended."""


CallBounds = Mapping[str, Mapping[str, int]]
"""Bounds of an item's calls in a stage: `least`, `expected` and `most` -> the numbers of `calls`, `input_tokens` and
`output_tokens`."""


class Workload(Generic[S]):
    """One run of a benchmark. The defaults suit a benchmark in a single file; see `summhay_ray.benchmark`."""

    kind: ClassVar[str]
    """The benchmark's name in a spec's `kind:` and in the run's record; by default the class's name in lower case."""
    _kind_is_given: ClassVar[bool] = False
    stages: ClassVar[Sequence[Stage]] = ()
    tables: ClassVar[Sequence[Table]] = ()
    """The benchmark's tables. Every run also has `raw_answers` and `failures`; a benchmark may replace `failures` by its own
    table of this name."""
    counted: ClassVar[Counted] = Counted()
    imported: ClassVar[bool] = False
    """True for a benchmark whose runs are only imported, never executed."""
    record_fields: ClassVar[Mapping[str, Any]] = {"name": str, "cells": Count, "spec": dict[str, Any]}
    """Field of a run's record -> its type, with `| None` for optional fields. A stored record with other types is damaged."""

    current_record: Mapping[str, Any]
    """What this start would write to `run.json`. In an existing run, limits, endpoints, prices and folders may have changed. Set
    when the run is opened."""

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
            # Read the files of answers now, since their content is part of the run's identity.
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
        """A prefix and the first 12 hex digits of a hash of `identity`. It is the same on every machine."""
        weights = _of_folders(self)
        content = {"identity": self.identity(), "format": RUN_FORMAT, **({"weights": weights} if weights else {})}
        return self.counted.prefix + semantic_hash(content)[:12]

    # --- models, items and answers -------------------------------------------------------------------------------------

    def queues(self) -> Mapping[str, Queue]:
        """Return the queues by name: by default one per model, named by the model's label, and one named "" for items without a
        model."""
        settings, entries = self.models.settings(), self.spec.model_entries()
        shared = Queue(tuple(settings), computes=bool(settings) and all(model.local for model in settings.values()))
        return {"": shared, **{entry.label: Queue((entry.model,), computes=settings[entry.model].local) for entry in entries}}

    def items(self) -> Iterator[Item]:
        """Yield all items, always in the same order. An item's id describes its content, never its position."""
        raise BadBenchmark(f"{type(self).__name__} names no items; write `def items(self)`, which yields Item(...)")

    def n_items(self) -> int:
        """Return the number of items."""
        with reading(f"{self.kind}: items", "mend it and run again"):
            return sum(1 for _ in self.items())

    def prepare(self, source: str, items: Sequence[Item]) -> Prepared:
        """Compute the data that the items of a source need, such as parts of a long text. It must not ask a model."""
        return Prepared()

    def input_rows(self, name: str) -> Rows:
        """Return the rows that describe an input, such as the documents of a corpus. `name`: the value of `reads` of the items
        that use it. The rows are written once, when the first of these items is prepared."""
        return {}

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """Answer one item and return its rows. Ask models only through `ask`; a missing answer becomes the item's failure row."""
        raise BadBenchmark(f"{type(self).__name__} answers nothing; write `async def answer(self, item, ask)`")

    # --- long computations ---------------------------------------------------------------------------------------------

    def sketch(self, source: str, items: Sequence[Item]) -> Prepared:
        """Return a substitute for the result of `prepare` while planning. By default, call `prepare`; override this if `prepare`
        is slow."""
        return self.prepare(source, items)

    def computations(self, items: Sequence[Item], actors: int = 1) -> Sequence[Mapping[str, Any]]:
        """Divide the long computations that `prepare` needs for these items, such as embeddings, into parts (as small JSON). On
        Ray, a pool of `actors` actors first runs `compute` on each part. Elsewhere, `prepare` computes what it needs.

        Sources with the same parts or the same `reads` form a group, which is computed together. If there are too few groups for
        the actors, the parts are distributed one by one and begin in order. A part that needs a missing result of another part
        computes that result itself."""
        return ()

    def compute(self, part: Mapping[str, Any]) -> Mapping[str, float]:
        """Compute one of the parts from `computations`, and store its result for `prepare`. Results that are already stored are
        kept.

        Returns the work that was done: numbers of `texts` and `tokens`, and the seconds `load_s` (loading models) and
        `compute_s`.
        """
        return {}

    # --- the plan ------------------------------------------------------------------------------------------------------

    def warnings(self) -> Sequence[str]:
        """Return warnings about the inputs; `plan` and a run show them before any call."""
        return ()

    def guess(self, item: Item, stage: str, size: str) -> str | None:
        """Return the answer to assume while planning, by default the stage's `example`. Questions that depend on this answer are
        built from it; if it is None, they are not planned. `size`: which length to assume, least, expected or most."""
        return next((known.example for known in self.stages if known.name == stage), None)

    async def references(self, item: Item) -> Sequence[str]:
        """Return the item's reference texts (labels or sentences that a correct answer contains), if the benchmark has any."""
        return ()

    def query_of(self, item: Item) -> str:
        """Return the item's `query_id` in a file of answers: by default `query_id` of its data, or else its id. In such a file,
        answers of any stage after the first have the id `QUERY_ID/STAGE`."""
        return str(item.data.get("query_id", item.id))

    def queries(self) -> Mapping[str, None] | None:
        """Return the query ids that a file of answers may contain; None if they are not known before the run."""
        return dict.fromkeys(self.query_of(item) for item in self.items())

    def fair_order(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the items in the order in which `--limit` takes them. By default, queues alternate, and every queue is sampled
        at the same random positions (by the spec's seed). A larger limit includes the items of a smaller one."""
        queues: dict[str, list[Item]] = {}
        for item in items:
            queues.setdefault(item.queue, []).append(item)
        longest = max(map(len, queues.values()), default=0)
        positions = random.Random(self.spec.seed).sample(range(longest), longest)
        return [queued[position] for position in positions for queued in queues.values() if position < len(queued)]

    def bounds(self, item: Item) -> Mapping[str, tuple[ModelSpec, CallBounds]]:
        """Return, for each stage, its model and the bounds of the item's calls in it. Override this method if the number of calls
        depends on answers; `plan` then reports bounds."""
        return {}

    # --- results ------------------------------------------------------------------------------------------------------

    def score(self, tables: RunTables) -> Any:
        """Compute scores from the run's tables, without asking a model. Returns frames by name. This package's benchmarks may
        return an object instead, which `details` converts to JSON.

        A table is read when it is first used. `tables` also has `items`, with a row for each item of the run (item_id, model, and
        the texts, numbers and booleans of its data), so that failed items count as expected.
        """
        return {}

    def report(self, scores: Any) -> Sequence[Section]:
        """Return the sections that the terminal and the report show."""
        return ()

    def full_report(self, scores: Any, tables: RunTables) -> Sequence[Section]:
        """Return the sections that `summhay report` shows; by default those of `report`."""
        return self.report(scores)

    def by_query(self, tables: RunTables) -> ByQuery | None:
        """Return the scores of systems by query, for paired comparisons, or None for no comparison. `tables`: the tables of
        `score`."""
        return None

    # --- a stored run --------------------------------------------------------------------------------------------------

    def details(self, scores: Any) -> Mapping[str, Any]:
        """Return fields of the run's JSON document in addition to `scores`."""
        return {}

    def results(self, tables: RunTables) -> Results:
        """Return the run's results so far, from `score`, `report` and `details`. Override it to add warnings. Raises
        BadBenchmark."""
        raise NotImplementedError

    def samples(self, run: RunStore, judge: str = "") -> Samples:
        """Return the samples that the report's viewer shows, read lazily; by default each item with its rows."""
        raise NotImplementedError

    def explain(self, run: RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
        """Return an item with its rows, prompts and answers, as JSON. `key`: the item's id, or the key of one of its answers."""
        raise NotImplementedError

    def places(self, run: RunStore, item_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return, for each item id, named texts that identify the item to people, such as a title. They are shown with its
        failures."""
        return {}

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """Write the run in the format of the benchmark's release, and return the files. Writes nothing and raises UserError if
        one exists."""
        raise UserError(f"{self.kind} has no released format of its own; read its tables")

    # --- the data that any machine needs to read and resume the run ------------------------------------------------------

    def record(self, store: Store) -> dict[str, Any]:
        """Store the input files, and return the benchmark's part of `run.json`, which its constructor later gets as
        `inputs.record`."""
        return {"spec": self.spec.model_dump(mode="json"), "inputs": self.inputs.keep(store)}

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        """Return the store's objects that a stored run needs, as (kind, sha256)."""
        return ((INPUT, digest) for digest in run.record.get("inputs", {}).values())

    @classmethod
    def n_items_of(cls, run: RunStore) -> int:
        """Return the number of items of a stored run, from its record."""
        return int(run.record["cells"])

    def on_open(self, run: RunStore) -> None:
        """Called whenever the run is opened in a store. Override it to write data of the whole run; see also `input_rows`."""

    def own_code(self) -> Sequence[str]:
        """Return the user's own classes that the spec names, as module:Class. A job packs their files."""
        return [name for name in (own_name(self),) if name]

    def by_store(self) -> Mapping[str, str]:
        """Return the large inputs that a job reads from the store: name in the spec -> name in the store."""
        return {}

    def keep_by_store(self, store: Store) -> None:
        """Put the inputs of `by_store` into the store."""


def spec_class_of(benchmark: type[Workload[Any]]) -> type[Spec]:
    """Return the class of a benchmark's specs: the type argument of its `Workload`."""
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
    """Return the workload's run in the store. Creates the run if it does not exist. Raises StoreError if its record is
    damaged."""
    spec, inputs = workload.spec, workload.inputs
    stages = [stage.name for stage in workload.stages]
    # The registry finds a user's own benchmark by `module:Class`.
    kind = spec.kind if ":" in spec.kind else workload.kind
    head = {"kind": kind, "name": spec.name, "cells": workload.n_items(), "stages": stages}
    # Workers load a model from its folder, since models are not copied to the store.
    folder = {FOLDER: str(inputs.folder.absolute())} if _of_folders(workload) else {}
    own = dict.fromkeys(name.partition("/")[0] for name in workload.own_code())
    code = {CODE: {name: inputs.code(name) for name in own}} if own else {}
    workload.current_record = {**head, **folder, **workload.record(store), **code}
    run = store.create_run(workload.run_id, workload.current_record, all_tables(type(workload)))
    inputs.store = store
    workload.on_open(run)
    return run


def _of_folders(workload: Workload[Any]) -> dict[str, str]:
    """Local model -> the hash of its files, for models in a folder."""
    models = workload.models
    local = {name for entry in workload.spec.model_entries() if is_local(name := entry.model) and name in models.local}
    return {name: revision for name in local if (revision := models.local[name].revision).startswith(_OF_FILES)}
