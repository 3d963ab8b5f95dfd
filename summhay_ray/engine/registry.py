"""Finds benchmarks by name. A name is a built-in benchmark, an entry point, or a user's own class as `module:Class`."""

import contextlib
import difflib
import importlib
import inspect
import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import polars as pl

from summhay_ray.engine.contract import Workload, own_name, spec_class_of
from summhay_ray.engine.items import RAW_ANSWERS, Stage, all_tables
from summhay_ray.engine.spec.checks import values_in
from summhay_ray.engine.spec.inputs import Inputs, Mapped
from summhay_ray.engine.spec.spec import STORED, Spec, apply_overrides
from summhay_ray.engine.state.items_left import checked_items
from summhay_ray.errors import SpecError, UserError
from summhay_ray.plugins import OwnCodeRefused, UnknownName, load, load_installed, own_code, own_code_allowed, unknown
from summhay_ray.store import Columns, RunStore, Store, Table, as_record, columns_of

GROUP = "summhay_ray.benchmarks"
"""The group of entry points for benchmarks: name -> module:Class."""
BUILT_IN = "summhay_ray.benchmarks"
"""The package of built-in benchmarks. Its `KINDS` lists them, and its `kind_of` finds the kind of a spec without `kind`."""


def kinds() -> dict[str, str]:
    """Return kind -> module:Class for all installed benchmarks."""
    # An entry point cannot replace a benchmark of this package.
    return {**{entry.name: entry.value for entry in entry_points(group=GROUP)}, **importlib.import_module(BUILT_IN).KINDS}


def find(kind: str) -> type[Workload[Any]]:
    """Return the benchmark of a kind. Raises UnknownName, SpecError."""
    # Try the built-in benchmarks first, since finding entry points reads the metadata of every installed package.
    built_in: Mapping[str, str] = importlib.import_module(BUILT_IN).KINDS
    path = built_in.get(kind) or kinds().get(kind)
    if not path and ":" not in kind:
        raise UnknownName(f"{unknown('kind of benchmark', kind, kinds())}; one of your own is module:Class")
    with own_code(f"{path!r} cannot be imported", "install its package again"):
        benchmark = load_installed(path) if path else load(kind)
    if not isinstance(benchmark, type) or not issubclass(benchmark, Workload):
        raise SpecError(f"kind: {path or kind!r} is not a benchmark; write a class of summhay_ray.benchmark.Benchmark")
    if kind not in built_in:
        _check_class(benchmark, f"kind {kind!r}")
    return benchmark


def load_workload(
    spec: str | Path | Mapping[str, Any],
    overrides: Iterable[str] = (),
    store: Callable[[Spec], Store] | Store | None = None,
    change: Callable[[type[Workload[Any]], Mapping[str, Any], str], Mapping[str, Any]] | None = None,
    untrusted: bool = False,
    folder: Path | None = None,
    mapped: Callable[[str], Mapped | None] = lambda _: None,
) -> Workload[Any]:
    """Return the workload of a spec, which is a YAML file or a mapping of fields. Checks the spec without any call. Raises
    SpecError.

    `store`: the store of inputs that are named by their hash, or a function that opens it for a spec when it is needed. `change`:
    a function of the benchmark, the fields and the spec's name that returns the fields to use, including `kind`. `untrusted`: the
    spec is somebody else's; the user's own code, files outside the spec's folder, and keys for foreign endpoints are refused.
    `folder`: the folder of a mapping's files; None: the current one. `mapped`: a function of the spec's executor; its result is
    `Inputs.on_cluster`.
    """
    if isinstance(spec, Mapping):
        fields, folder, where = dict(spec), folder or Path.cwd(), "spec"
    else:
        fields, folder = Spec.read_fields(str(spec))
        where = str(spec)
    changes = list(overrides)
    with own_code_allowed(not untrusted):
        if kind_overrides := [one for one in changes if one.startswith("kind=")]:
            fields = apply_overrides(fields, kind_overrides)
        try:
            kind = fields.get("kind") or importlib.import_module(BUILT_IN).kind_of(fields)
        except UserError as error:
            raise SpecError(f"{where}: {error}") from error
        if not isinstance(kind, str):
            raise SpecError(f"{where}: kind: expected the name of a benchmark, or module:Class")
        benchmark = find(kind)
        if change is not None:
            fields = {"kind": kind, **change(benchmark, fields, where)}
            kind = fields["kind"]
            benchmark = find(kind)
        others = [one for one in changes if not one.startswith("kind=")]
        parsed = spec_class_of(benchmark).parse({**fields, "kind": kind}, where, others)
        folder = folder.absolute()
        parsed.check(where, [stage.name for stage in benchmark.stages], folder if untrusted else None)
        opened = (lambda: store(parsed)) if callable(store) else (lambda: store)
        texts = (value for value in values_in(parsed) if isinstance(value, str))
        try:
            return make_workload(benchmark, parsed, Inputs(folder, opened, texts, untrusted, mapped(parsed.executor)))
        except SpecError as error:
            # The checks do not know the name of the spec's file, so add it here.
            whole = f"{where}{str(error).removeprefix('spec')}" if str(error).startswith("spec: ") else str(error)
            raise SpecError(whole) from error


def make_workload(benchmark: type[Workload[Any]], spec: Any, inputs: Inputs) -> Workload[Any]:
    """Return an instance of the benchmark.

    Raises UnknownName if a user's own class raises in its constructor, or if a local model exists neither in this package nor in
    the benchmark. Raises SpecError if a file of answers contains a query that is not in the run.
    """
    with own_code(f"kind {spec.kind or benchmark.kind!r} cannot be made", "mend its class, which is called with spec and inputs"):
        workload = benchmark(spec, inputs)
        settings = workload.models.settings()
        # Refuse the code that an untrusted spec names. The benchmark's own class is allowed, because the user installed it.
        if inputs.untrusted and (named := [name for name in workload.own_code() if name != own_name(workload)]):
            raise OwnCodeRefused(named[0])
        if own_name(workload):
            for model in (name for name, known in settings.items() if known.local):
                here = workload.models.local
                if model not in here and f"{model.partition('/')[0]}/" not in here:
                    raise unknown("model that needs no key", model, here)
            # The files that `items` reads are part of the run's identity, so they must be read before its id is used.
            for _ in checked_items(workload):
                pass
            inputs.settled = True
    if not (answers := workload.models.given_answers) or (queries := workload.queries()) is None:
        return workload
    known = {*queries, *(f"{query}/{stage.name}" for query in queries for stage in workload.stages)}
    for given in answers.values():
        if others := [query for query in given.texts if query not in known]:
            more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
            nearest = [*difflib.get_close_matches(others[0], queries, n=1), *queries][0]
            raise SpecError(
                f"spec: {given.file}: query_id: {others[0]!r}{more} is not a query of this run, but {nearest!r} is; correct or "
                "remove it"
            )
    return workload


def _check_class(benchmark: type[Workload[Any]], where: str) -> None:
    """Raise SpecError if a benchmark's class declares stages, tables or methods wrongly."""
    for name, kind in (("stages", Stage), ("tables", Table)):
        declared = getattr(benchmark, name)
        if not isinstance(declared, list | tuple) or not all(isinstance(entry, kind) for entry in declared):
            raise SpecError(f"{where}: {name} is {declared!r:.80}; expected a tuple: {name} = ({kind.__name__}(...),)")
    for table in benchmark.tables:
        if table.name in ("items", RAW_ANSWERS.name):
            raise SpecError(f"{where}: a table is named {table.name!r}, as one that every run has; give it another name")
    columns_of(all_tables(benchmark))
    if not inspect.iscoroutinefunction(benchmark.answer):
        raise SpecError(f"{where}: answer is a plain function; write `async def answer(self, item, ask)`")
    for name, method in inspect.getmembers(Workload, lambda one: inspect.isfunction(one) and one.__name__[0] != "_"):
        wanted, own = inspect.signature(method), getattr(benchmark, name)
        try:
            inspect.signature(own).bind(*wanted.parameters)
        except TypeError:
            mend = f"write `def {name}{wanted}`, or give it another name"
            raise SpecError(f"{where}: {name} is a method of every benchmark, with other arguments; {mend}") from None


def stored_workload(store: Store, record: Mapping[str, Any]) -> Workload[Any]:
    """Return the workload of a run's record. Its inputs are read when they are needed. Raises UnknownName, SpecError."""
    benchmark = find(str(record["kind"]))
    # An imported run has no spec.
    spec = spec_class_of(benchmark).model_validate(record.get("spec", {}), context=STORED)
    return benchmark(spec, Inputs.stored(store, record))


def check_record(run: RunStore) -> None:
    """Raise DamagedRecord if a run's record does not have the fields, the tables and the spec that its benchmark writes.

    A user's own benchmark may be missing on this machine, so for such a run only the fields that every run has are checked.
    """
    record: Mapping[str, Any] = run.record
    benchmark = _installed(run)
    for name, type_ in (Workload if benchmark is None else benchmark).record_fields.items():
        listed: Any = types.GenericAlias(list, type_)
        is_null = name in record and record[name] is None
        if is_null or as_record(listed, json.dumps([record.get(name)]).encode("ascii")) is None:
            raise run.damaged(f"its field {name} is not as expected")
    for name, columns in _tables_of(run):
        # If another version wrote the run, the table may have other columns. But a column has the same type in all versions.
        if not run.declared[name].agrees(columns):
            raise run.damaged(f"its table {name} has columns of other types")
    if benchmark is not None:
        # Files and classes that the spec names may be missing on this machine.
        with _undamaged(run), contextlib.suppress(UserError):
            spec_class_of(benchmark).model_validate(record.get("spec", {}), context=STORED)


@contextlib.contextmanager
def reading_tables(*runs: RunStore) -> Iterator[None]:
    """Return a context for reading the runs' tables. If a table lacks a column of its benchmark, errors become DamagedRecord."""
    try:
        yield
    except (KeyError, pl.exceptions.PolarsError):
        for run in runs:
            for name, columns in _tables_of(run):
                for column in columns.schema.names:
                    if column not in run.declared[name].schema.names:
                        raise run.damaged(f"its table {name} has no column {column}") from None
        raise


def _installed(run: RunStore) -> type[Workload[Any]] | None:
    """Return the run's benchmark; None if it is a user's own or unknown."""
    with contextlib.suppress(UnknownName):
        return None if ":" in run.record["kind"] else find(run.record["kind"])
    return None


def _tables_of(run: RunStore) -> Iterator[tuple[str, Columns]]:
    """Yield the tables that the run's installed benchmark writes, with their columns."""
    benchmark = _installed(run)
    for name, columns in columns_of(all_tables(benchmark)).items() if benchmark is not None else ():
        if name in run.declared:
            yield name, columns


def workload_of(run: RunStore) -> Workload[Any]:
    """Return the workload of a stored run. Raises UnknownName, or DamagedRecord if its record is damaged."""
    check_record(run)
    with _undamaged(run):
        return stored_workload(run.store, run.record)


@contextlib.contextmanager
def _undamaged(run: RunStore) -> Iterator[None]:
    """Return a context for reading the run's record. Raises DamagedRecord for a spec or a field that cannot be read."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise run.damaged(" ".join(str(error).split())[:200]) from error
