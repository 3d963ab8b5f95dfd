"""The Python API: one function a command, typed results whose tables are polars frames. The command line calls these."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from summhay_ray import grid, plugins
from summhay_ray.grid import (
    BenchOptions,
    BenchResult,
    Check,
    CompareResult,
    Grid,
    ImportResult,
    Job,
    JobOrder,
    Place,
    PlanResult,
    Progress,
    RejudgeResult,
    RunResult,
    RunSpec,
    Sample,
    ScoreResult,
    SpecError,
    StatusResult,
    SynthResult,
    VerifiedFile,
    Wish,
)
from summhay_ray.problems import Problem
from summhay_ray.records import Failure
from summhay_ray.score import Compat
from summhay_ray.store import TABLES, Store, with_endpoint

DEFAULT_STORE = "./summhay-store"
Spec = str | Path | Mapping[str, Any]
"""The path of a YAML file, or its fields."""


def store_uri(uri: str | None = None) -> str:
    """The store: as given, else $SUMMHAY_STORE, else ./summhay-store."""
    return uri or os.environ.get("SUMMHAY_STORE") or DEFAULT_STORE


def _store_of(spec: RunSpec, store: str | None) -> str:
    """The store for a spec: its `endpoint_url` says where an s3:// store is that does not say so itself."""
    return with_endpoint(store_uri(store), spec.endpoint_url)


def load(spec: Spec, overrides: Iterable[str] = (), store: str | None = None) -> Grid:
    """The spec with its haystacks and prompts read and every name checked. Raises SpecError, InvalidHaystack, StoreError.

    `store` is opened only where the spec names haystacks that lie in it, itself or by the synth spec that made them.
    """
    if is_synth(spec):
        raise SpecError(f"{'spec' if isinstance(spec, Mapping) else spec}: names topics, so it is for: summhay synth")
    if isinstance(spec, Mapping):
        parsed, folder = grid.parse_spec(spec, overrides=overrides), Path.cwd()
    else:
        parsed, folder = grid.read_spec(str(spec), overrides)
    needed = any(grid.in_store(entry) or grid.names_synth(entry) for entry in parsed.haystacks)
    opened = Store(_store_of(parsed, store)) if needed else None
    if opened and any(map(grid.names_synth, parsed.haystacks)):
        parsed = grid.with_synthesized(parsed, folder, opened)
    return grid.load_grid(parsed, folder, opened)


def is_synth(spec: Spec) -> bool:
    """Whether a spec is one of a synthesis: it names topics, and no haystacks. Raises SpecError where it cannot be read."""
    return grid.is_synth(spec) if isinstance(spec, Mapping) else grid.is_synth_file(str(spec))


def run(
    spec: Spec,
    store: str | None = None,
    budget: float | None = None,
    address: str = "local",
    watch: Callable[[Progress], None] | None = None,
    **options: Any,
) -> RunResult:
    """Run or resume a grid; dollars spent never exceed `budget` (else the spec's). Options: overrides, compat."""
    compat: Compat = options.pop("compat", "default")
    overrides = options.pop("overrides", ())
    if options:
        raise TypeError(f"unknown options: {', '.join(options)}")
    _check_budget(budget)
    loaded = load(spec, overrides, store)
    return grid.run_grid(loaded, Store(_store_of(loaded.spec, store)), budget, address, watch, compat)


def submit(spec: Spec, address: str, store: str | None = None, budget: float | None = None, **options: Any) -> Job:
    """Run or resume a grid, or a synthesis, as a job of the Ray cluster whose dashboard is at `address`; `.follow(print)` waits.

    Options: overrides, compat. Keys are not sent. Raises JobError, SpecError, StoreError, with nothing sent.
    """
    compat: Compat = options.pop("compat", "default")
    overrides = options.pop("overrides", ())
    if options:
        raise TypeError(f"unknown options: {', '.join(options)}")
    _check_budget(budget)
    loaded = grid.load_synth(spec, tuple(overrides)) if is_synth(spec) else load(spec, overrides, store)
    folder = Path.cwd() if isinstance(spec, Mapping) else Path(spec).parent
    return grid.submit_grid(loaded, folder, JobOrder(_store_of(loaded.spec, store), budget, compat), address)


def _check_budget(budget: float | None) -> None:
    if budget is not None and not 0 <= budget < math.inf:
        raise SpecError(f"budget {budget}: expected dollars, 0 or more; leave it out for no bound")


def plan(spec: Spec, store: str | None = None, overrides: Iterable[str] = ()) -> PlanResult:
    """Calls, tokens and dollars per stage and model, before any call; what is already paid is `reused`. Also of a synth spec."""
    if is_synth(spec):
        synthesis = grid.load_synth(spec, tuple(overrides))
        return grid.plan_synth(synthesis, Store(_store_of(synthesis.spec, store)))
    loaded = load(spec, overrides, store)
    return grid.plan_grid(loaded, Store(_store_of(loaded.spec, store)))


def import_released(
    paths: str | Path | Sequence[str | Path], store: str | None = None, address: str | None = None
) -> ImportResult:
    """Keep released SummHay files as a run. Raises InvalidHaystack, with nothing written, where one is broken.

    Hundreds of files are read by a Ray of its own, or by the one at `address`, whose nodes must see files and store.
    """
    listed = [paths] if isinstance(paths, str | Path) else paths
    return grid.import_files([str(path) for path in listed], Store(store_uri(store)), address or "")


def export(run_id: str, out: str | Path, store: str | None = None, judge: str = "") -> list[Path]:
    """The run as released JSON files in the folder `out`."""
    return grid.export(Store(store_uri(store)).run(run_id), Path(out), judge)


def score(run_id: str, store: str | None = None, compat: Compat = "default", bias: str | Path | None = None) -> ScoreResult:
    """Score stored judgments, those of `rejudge` among them, without a call. `bias`: a file of `judge_bench(...).biases()`."""
    biases = grid.read_biases(Path(bias)) if bias is not None else ()
    return grid.score_run(Store(store_uri(store)).run(run_id), compat, biases=biases, rejudged=True)


def status(run_id: str, store: str | None = None) -> StatusResult:
    """How a run stands."""
    return grid.status(Store(store_uri(store)).run(run_id))


def failures(run_id: str, store: str | None = None) -> list[Failure]:
    """Every failure of a run."""
    return grid.failures(Store(store_uri(store)).run(run_id))


def places(run_id: str, cell_ids: Iterable[str], store: str | None = None) -> dict[str, Place]:
    """Cell -> its system, haystack and subtopic."""
    return grid.places(Store(store_uri(store)).run(run_id), cell_ids)


def explain(run_id: str, key: str, store: str | None = None, compat: Compat = "default") -> dict[str, Any]:
    """From a cell or an answer, of a synthesis also a haystack (NAME) or a document (NAME/ID), to everything it stands on."""
    return grid.explain(Store(store_uri(store)).run(run_id), key, compat)


def doctor(spec: Spec | None = None, store: str | None = None) -> list[Check]:
    """Is this machine ready (for the spec)?"""
    if spec is None:
        return grid.examine(store_uri(store))
    loaded = grid.load_synth(spec) if is_synth(spec) else load(spec, store=store)
    return grid.examine(_store_of(loaded.spec, store), loaded)


def table(run_id: str, name: str, store: str | None = None) -> Any:
    """A table of a run as a polars frame, sorted by its primary key; names: schemas/*.json. Raises Problem for another name."""
    if name not in TABLES:
        raise plugins.unknown("table", name, TABLES)
    return Store(store_uri(store)).run(run_id).table(name)


def judge_bench(
    file: str | Path, judges: Sequence[str] = (), store: str | None = None, budget: float | None = None, **options: Any
) -> BenchResult:
    """Judges held against people's annotations; without judges, the file's stored predictions and the free one.

    Options: `spec`, the path of a spec whose judges say how models are reached; `held_out`, whether the free judge is fitted on
    the file's other topics. Nothing is written where nothing is asked.
    """
    _check_budget(budget)
    return grid.bench_judges(Path(file), judges, Store(store_uri(store)), BenchOptions(budget, **options))


def rejudge(
    run_id: str,
    judges: str | Sequence[str] = (),
    store: str | None = None,
    budget: float | None = None,
    watch: Callable[[Progress], None] | None = None,
    **options: Any,
) -> RejudgeResult:
    """New judgments over the stored summaries of a run, beside the old ones; the same call goes on where it was.

    `judges`: names such as `offline` or `blend(openai/gpt-4o,offline)`. Options: spec (path of a YAML file with judges and
    their settings), overrides, address. Raises SpecError, StoreError, with nothing asked.
    """
    address: str = options.pop("address", "local")
    wish = Wish((judges,) if isinstance(judges, str) else tuple(judges), options.pop("spec", None), options.pop("overrides", ()))
    if options:
        raise TypeError(f"unknown options: {', '.join(options)}")
    _check_budget(budget)
    return grid.rejudge_run(Store(store_uri(store)).run(run_id), wish, budget, address, watch)


def synth(
    spec: Spec,
    store: str | None = None,
    budget: float | None = None,
    address: str = "local",
    watch: Callable[[Progress], None] | None = None,
    **options: Any,
) -> SynthResult:
    """Make the haystacks of a synth spec, verified; the same call goes on where it was. Options: overrides, out (a folder).

    Each haystack's `entry` names it in a run's spec, for the same store. Raises SpecError, StoreError, with nothing asked.
    """
    overrides, out = tuple(options.pop("overrides", ())), options.pop("out", None)
    if options:
        raise TypeError(f"unknown options: {', '.join(options)}")
    _check_budget(budget)
    loaded = grid.load_synth(spec, overrides)
    opened = Store(_store_of(loaded.spec, store))
    return grid.run_synth(loaded, opened, budget, address, watch, None if out is None else Path(out))


def verify(
    paths: str | Path | Sequence[str | Path], out: str | Path | None = None, address: str | None = None
) -> list[VerifiedFile]:
    """Hold haystack files against what they say of themselves: the checks of a synthesis, offline. `out`: a CSV of all of them.

    More than eight files are checked by a Ray of their own, or by the one at `address`, whose nodes must see them. Raises
    InvalidHaystack, and Problem where `out` exists.
    """
    listed = [paths] if isinstance(paths, str | Path) else paths
    if out is not None and Path(out).exists():
        raise Problem(f"{out} exists; give another file")
    found = grid.verify_files([str(path) for path in listed], address or "")
    if out is not None:
        grid.write_checks(found, Path(out))
    return found


def audit(run_id: str, sheet: str | Path, store: str | None = None, **sample: int) -> dict[str, Any]:
    """Write a sheet for a person to label: a sample of the truth about a run's haystacks. It is never written over another.

    `sample`: insights (of which subtopic?), documents (what do they say?), haystacks (from so many at most), seed.
    """
    return grid.write_sheet(Store(store_uri(store)).run(run_id), Path(sheet), Sample(**sample))


def audited(run_id: str, sheet: str | Path, store: str | None = None) -> dict[str, Any]:
    """What a person's labels say of a run's haystacks: the paper's Tables 4 and 5, as lists of rows."""
    return grid.read_sheet(Store(store_uri(store)).run(run_id), Path(sheet))


def compare(run_id: str, judges: Sequence[str] = (), store: str | None = None, rows: int = 20) -> CompareResult:
    """Two judges on one run: how far they agree, where they differ most (so many rows), and what moves among the systems.

    `judges`: two of the run's judges, its own or those of `rejudge`; where the run has just two, none need be named.
    """
    return grid.compare_judges(Store(store_uri(store)).run(run_id), judges, rows)
