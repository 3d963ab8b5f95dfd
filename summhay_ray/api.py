"""The Python API: each command as a function that returns a typed result. Used as `summhay_ray.run` and so on."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from summhay_ray import engine, plugins
from summhay_ray.engine import (
    Check,
    Compat,
    PlanResult,
    Progress,
    RayJob,
    ReleaseResult,
    Results,
    RunEntry,
    RunOptions,
    RunResult,
    SpecError,
    StatusResult,
    Workload,
)
from summhay_ray.errors import UserError
from summhay_ray.store import (
    ATTRIBUTION,
    RETENTION_S,
    RunStore,
    Store,
    StoreError,
    TableFormat,
    open_files,
    unneeded,
    with_endpoint,
    write_tables,
)
from summhay_ray.store import migrate as migrate_store

# Each function imports only the benchmarks that it needs, so that `status` does not load all of them.
if TYPE_CHECKING:
    import polars as pl

    from summhay_ray import comparison
    from summhay_ray import report as reports
    from summhay_ray.benchmarks import extract_evaluate as extracts
    from summhay_ray.benchmarks import judge_bench as bench
    from summhay_ray.benchmarks import rejudge as rejudging
    from summhay_ray.benchmarks import summhay as haystacks
    from summhay_ray.benchmarks import support as supporting
    from summhay_ray.benchmarks import synth as synthesis
    from summhay_ray.benchmarks.odsum import CollectionImport

DEFAULT_STORE = "./summhay-store"
Spec = str | Path | Mapping[str, Any]
"""The path of a YAML file, or a mapping with its fields."""
Watch = Callable[[Progress], None]


def store_uri(uri: str | None = None) -> str:
    """The store's URI: `uri` if given, else $SUMMHAY_STORE, else ./summhay-store."""
    return uri or os.environ.get("SUMMHAY_STORE") or DEFAULT_STORE


def load(spec: Spec, overrides: Iterable[str] = (), store: str | None = None, *, untrusted: bool = False) -> Workload[Any]:
    """The workload of a spec, with its inputs read and every name checked. Raises SpecError, InvalidHaystack, StoreError.

    `store`: the store of inputs that the spec names by hash or that another spec's run has made. `untrusted`: the spec is from
    somebody else; it may not run code of its own, read files outside its folder, or send a key elsewhere (docs/untrusted.md).
    Every function that reads a spec has this option; a mapping's folder is the current one.
    """
    return engine.load_workload(spec, overrides, lambda parsed: Store(_store_of(parsed, store)), untrusted=untrusted)


def _store_of(spec: engine.Spec, store: str | None) -> str:
    """The store's URI for a spec. An s3:// URI without an endpoint gets the spec's `endpoint_url`."""
    return with_endpoint(store_uri(store), spec.endpoint_url)


def _opened(loaded: Workload[Any], store: str | None) -> Store:
    return Store(_store_of(loaded.spec, store))


def _check_budget(budget: float | None) -> None:
    if budget is not None and not 0 <= budget < math.inf:
        raise SpecError(f"budget {budget}: expected dollars, 0 or more; leave it out for no limit")


def _options(
    budget: float | None,
    executor: str | None,
    address: str | None,
    watch: Watch | None,
    note: Callable[[str], None] | None,
    compat: Compat = "default",
    limit: int | None = None,
) -> RunOptions:
    """How to run, checked before anything is read. `address`: of a Ray cluster; "local" is this machine."""
    _check_budget(budget)
    if limit is not None and limit < 1:
        raise SpecError(f"limit {limit}: expected 1 item or more; leave it out for all items")
    return RunOptions(budget, executor, None if address in (None, "", "local") else address, watch, compat, note, limit)


@dataclass(frozen=True)
class ReportableResult(RunResult):
    """The result of a run and the store that holds it, so that it can draw figures."""

    store: str = ""

    def figure(self, name: str) -> Any:
        """A section's chart, such as "cost_quality", as a matplotlib figure. Raises UserError, which lists the charts."""
        return make_report(self.run, self.store).figure(name)


def run(
    spec: Spec,
    store: str | None = None,
    budget: float | None = None,
    address: str | None = None,
    watch: Watch | None = None,
    *,
    overrides: Iterable[str] = (),
    compat: Compat = "default",
    executor: str | None = None,
    limit: int | None = None,
    note: Callable[[str], None] | None = None,
    untrusted: bool = False,
) -> ReportableResult:
    """Run or resume the work of a spec of any kind. The dollars spent never exceed `budget` (default: the spec's).

    `executor`: inline (this process, no Ray), ray, or auto, which takes the faster one. `note` is called with a line that says
    which. `limit`: answer only this many items in all, a fair sample; the run can be resumed without it. `address`: the address
    of a Ray cluster. `watch` is called about twice a second, in a thread of its own.
    """
    options = _options(budget, executor, address, watch, note, compat, limit)
    loaded = load(spec, overrides, store, untrusted=untrusted)
    opened = _opened(loaded, store)
    result = engine.run_workload(loaded, opened, options)
    return ReportableResult(**{field.name: getattr(result, field.name) for field in fields(result)}, store=opened.uri)


def retrieve(
    spec: Spec,
    store: str | None = None,
    budget: float | None = None,
    address: str | None = None,
    watch: Watch | None = None,
    *,
    overrides: Iterable[str] = (),
    executor: str | None = None,
    note: Callable[[str], None] | None = None,
    trec: str | Path | None = None,
    beir: str | Path | None = None,
    untrusted: bool = False,
) -> RunResult:
    """Rank documents and measure the rankings; the spec's summarizers and judges are ignored. The same call resumes.

    `trec`: a folder to write each retriever's rankings to, as RETRIEVER.run, and `qrels`. `beir`: a folder to write each corpus
    to, as a BEIR folder. Raises SpecError for a kind without retrieval, and UserError rather than overwrite a file.
    """
    from summhay_ray.benchmarks import retrieval

    options = _options(budget, executor, address, watch, note)
    place, change = (lambda parsed: Store(_store_of(parsed, store))), retrieval.retrieval_alone
    loaded = engine.load_workload(spec, overrides, place, change, untrusted)
    opened = _opened(loaded, store)
    result = engine.run_workload(loaded, opened, options)
    if trec is not None:
        retrieval.write_trec(opened.run(result.run), Path(trec))
    if beir is not None:
        retrieval.write_beir(loaded, Path(beir))
    return result


def submit(
    spec: Spec,
    address: str,
    store: str | None = None,
    budget: float | None = None,
    *,
    overrides: Iterable[str] = (),
    compat: Compat = "default",
    untrusted: bool = False,
) -> RayJob:
    """Run or resume a spec as a job on the Ray cluster whose dashboard is at `address`. `.follow(print)` waits for its end.

    Keys are not sent. Raises JobError, SpecError or StoreError before anything is sent.
    """
    _check_budget(budget)
    loaded = load(spec, overrides, store, untrusted=untrusted)
    return engine.submit(loaded, engine.JobOrder(_store_of(loaded.spec, store), budget, compat, untrusted), address)


def plan(
    spec: Spec,
    store: str | None = None,
    overrides: Iterable[str] = (),
    budget: float | None = None,
    *,
    untrusted: bool = False,
) -> PlanResult:
    """Calls, tokens and dollars of a run per stage and model, before any call; `reused` counts answers already paid for.

    The result warns if `budget` (default: the spec's) will stop the run, and if a key is missing on this machine.
    """
    _check_budget(budget)
    loaded = load(spec, overrides, store, untrusted=untrusted)
    opened = _opened(loaded, store)
    made = engine.plan(loaded, opened, budget)
    asked = any(stage.calls for stage in made.stages)
    going = engine.left_of_going(opened, made.run)
    return replace(made, going=going, warnings=(*made.warnings, *(engine.missing_keys(loaded) if asked else ())))


def import_released(
    paths: str | Path | Sequence[str | Path], store: str | None = None, address: str | None = None
) -> haystacks.ImportResult:
    """Import released SummHay files as a run. Raises InvalidHaystack, and writes nothing, if a file is invalid.

    Hundreds of files are read by a local Ray, or by the Ray cluster at `address`, whose nodes must see the files and the store.
    """
    from summhay_ray.benchmarks import summhay as haystacks

    listed = [paths] if isinstance(paths, str | Path) else paths
    return haystacks.import_files([str(path) for path in listed], Store(store_uri(store)), address or "")


def import_collection(folder: str | Path, store: str | None = None) -> CollectionImport:
    """Import a folder of documents and queries (docs/odsum.md); a spec then names it as `corpus: store/SHA256`.

    Raises SpecError, with one line that names the file.
    """
    from summhay_ray.benchmarks import odsum

    return odsum.import_collection(folder, Store(store_uri(store)))


def _run(run_id: str, store: str | None) -> RunStore:
    return Store(store_uri(store)).run(run_id)


def _reading(*runs: RunStore) -> AbstractContextManager[None]:
    """A context for reading runs, which imports code of the user's only for a kind of the user's own, to score or show it."""
    return plugins.own_code_allowed(any(":" in str(run.record.get("kind")) for run in runs))


def _stored(run_id: str, store: str | None) -> tuple[Workload[Any], RunStore]:
    stored = _run(run_id, store)
    return engine.workload_of(stored), stored


def export(run_id: str, out: str | Path, store: str | None = None, judge: str = "") -> list[Path]:
    """Write the run as released JSON files into the folder `out` and return their paths. `judge`: whose judgments to write."""
    workload, stored = _stored(run_id, store)
    return workload.reader.export(stored, Path(out), judge)


def export_tables(run_id: str, target: str | Path, store: str | None = None, kind: TableFormat = "parquet") -> dict[str, str]:
    """Write the committed rows of each table of the run into a folder or `s3://...`; return table -> path or URI.

    A table is one file, `<table>/part-0.<kind>`, sorted by key; in CSV, lists are JSON. ATTRIBUTION beside them is the source and
    licence of their texts, where the run has them. Raises UserError.
    """
    run = _run(run_id, store)
    if Path(target).is_file():
        raise UserError(f"{target} is a file; give a folder, or s3://BUCKET/PREFIX")
    files = open_files(str(target))
    try:
        written = write_tables(run, files, kind=kind)
        if attribution := run.record.get(ATTRIBUTION):
            files.put("ATTRIBUTION", f"{attribution}\n".encode())
    except OSError as error:
        # An error in reading the store is not a problem of the target.
        if files.folder is None or not _is_below(error.filename, files.folder):
            raise
        why = error.strerror or type(error).__name__
        raise UserError(f"{target}: no table can be written there ({why}); give another folder, or s3://BUCKET/PREFIX") from error
    return {table: files.where(name) for table, name in written.items()}


def _is_below(name: str | bytes | None, folder: Path) -> bool:
    """Whether the path in an error is the folder, inside it, or one of its parents."""
    if name is None:
        return False
    path, target = Path(os.fsdecode(name)).absolute(), folder.absolute()
    return path.is_relative_to(target) or target.is_relative_to(path)


def full_id(run_id: str, store: str | None = None) -> str:
    """The full id of the run whose id begins with `run_id`. Raises StoreError if none or several match."""
    return _run(run_id, store).run_id


def score(
    run_id: str,
    store: str | None = None,
    compat: Compat = "default",
    bias: str | Path | None = None,
    judge: str = "",
    labels: str | Path | None = None,
) -> haystacks.ScoreResult | Results:
    """Score a run from the store, without any call: its own judge's judgments first, then those of `rejudge`.

    A benchmark with its own scoring returns `Results`. `bias`: a file with the output of `judge_bench(...).biases()`. `judge`:
    score this judge's judgments alone. `labels`: a sheet of `label` with people's labels, which correct figures, too.
    """
    from summhay_ray.benchmarks import summhay as haystacks

    stored = _run(run_id, store)
    given = _labels(labels, stored)
    with _reading(stored):
        engine.benchmark_of(stored, stored.record)
        if not _has_judges(stored):
            _check_judged(stored, judge)
            return engine.workload_of(stored).reader.results(stored, compat)
        biases = haystacks.read_biases(Path(bias)) if bias is not None else ()
        return haystacks.score_run(stored, compat, biases=biases, rejudged=True, judge=judge, labels=given)


def label(
    run_id: str, n: int = 30, sheet: str | Path = "labels.csv", store: str | None = None, *, judge: str = "", seed: int = 0
) -> dict[str, Any]:
    """Write a sheet with `n` of a run's judgments for people to label: those whose label tells most. Never overwrites a file.

    `judge`: whose judgments, by default the run's own judge's. `score`, `make_report` and `compare_systems` take the labels.
    """
    from summhay_ray.benchmarks import summhay as haystacks

    return haystacks.draw_labels(_run(run_id, store), n, Path(sheet), judge, seed)


def _labels(labels: str | Path | None, *runs: RunStore) -> Any:
    """The labels in a sheet; None without one. Raises UserError for a run that has no judges of summaries."""
    from summhay_ray.benchmarks import summhay as haystacks

    if not labels:
        return None
    if unjudged := [run.run_id for run in runs if not _has_judges(run)]:
        raise UserError(f"labels: {unjudged[0]} holds no summaries with judgments")
    return haystacks.read_labels(Path(labels))


def results(run_id: str, store: str | None = None, compat: Compat = "default") -> Results:
    """The current results of a run of any kind, from the store: scores, sections, warnings. Makes no call."""
    stored = _run(run_id, store)
    with _reading(stored):
        return engine.workload_of(stored).reader.results(stored, compat)


def status(run_id: str, store: str | None = None) -> StatusResult:
    """The state of a run: progress, cost, failures, damage. Imports no code of the user's."""
    with plugins.own_code_allowed(False):
        return engine.status(_run(run_id, store))


def runs(store: str | None = None) -> list[RunEntry]:
    """All runs of the store, latest first."""
    with plugins.own_code_allowed(False):
        return engine.entries(Store(store_uri(store)))


def stop(run_id: str, store: str | None = None) -> str:
    """Stop the run's driver, on any machine, and wait until its calls in flight are stored. Returns `on HOST, pid N`.

    Raises UserError if the run has no live driver.
    """
    return engine.stop(_run(run_id, store))


def release(run_id: str, store: str | None = None) -> ReleaseResult:
    """Free the run's uncertain money, so that the run may spend it. Raises UserError while the run's driver is at work."""
    return engine.release(_run(run_id, store))


def failures(run_id: str, store: str | None = None) -> list[dict[str, Any]]:
    """All failures of a run, each with its place (such as the cell or haystack) if the benchmark knows it."""
    stored = _run(run_id, store)
    frame = stored.table("failures")
    with plugins.own_code_allowed(False):
        try:
            places = engine.workload_of(stored).reader.places(stored, frame[frame.columns[0]].unique().to_list())
        except plugins.UnknownName:
            # A kind of the user's own.
            places = {}
    return [{**row, **places.get(row[frame.columns[0]], {})} for row in frame.to_dicts()]


def explain(run_id: str, key: str, store: str | None = None, compat: Compat = "default") -> dict[str, Any]:
    """Everything that an item or an answer is based on. `key`: an id or key; in a synth run also NAME (haystack) or NAME/ID."""
    workload, stored = _stored(run_id, store)
    return workload.reader.explain(stored, key, compat)


def doctor(spec: Spec | None = None, store: str | None = None, *, untrusted: bool = False) -> list[Check]:
    """Check whether this machine is ready (for the spec). `store`: also read this store whole and check its files."""
    from summhay_ray import local_models

    offline = Check("offline models", True, ", ".join(local_models.local_names()))
    loaded = load(spec, store=store, untrusted=untrusted) if spec is not None else None
    uri = store_uri(store) if loaded is None else _store_of(loaded.spec, store)
    checks = [*engine.examine(uri, loaded), offline, *_models_here(loaded)]
    # A store that cannot be opened is reported by its own check.
    is_open = all(check.ok for check in checks if check.name == "store")
    return [*checks, *engine.examine_runs(Store(uri))] if store is not None and is_open else checks


def _models_here(loaded: Workload[Any] | None) -> list[Check]:
    """Check the spec's embedding and reranking models by loading them; without a spec, check where the default ones are."""
    from summhay_ray import encoders
    from summhay_ray.retrieve import MPNET

    wanted = getattr(loaded, "encoders_here", [])
    try:
        device = encoders.best_device()
    except encoders.NoModel as error:
        return [Check("models in this process", not wanted, str(error))]
    checks = [Check("models in this process", True, f"on {device}")]
    for encoder in wanted:
        try:
            encoders.load_encoder(encoder) if isinstance(encoder, encoders.Encoding) else encoders.load_scorer(encoder)
            checks.append(Check(f"model {encoder.model}", True, f"loaded, on {device}"))
        except encoders.NoModel as error:
            checks.append(Check(f"model {encoder.model}", False, str(error)))
    for name, retriever in () if loaded is not None else ((MPNET, "vector"), ("all-MiniLM-L6-v2", "{embed: all-MiniLM-L6-v2}")):
        try:
            found = encoders.check_model(name)
            checks.append(Check(f"model {name}", True, f"for {retriever}: {found.folder or 'the model hub'}"))
        except encoders.NoModel as error:
            # The check passes: not every spec needs this model.
            checks.append(Check(f"model {name}", True, f"not here, for {retriever}: {error}"))
    return checks


@dataclass(frozen=True)
class CleanResult:
    """The unneeded files of a store: their number and bytes, in total and by kind."""

    files: int
    bytes: int
    kinds: Mapping[str, Mapping[str, int]]
    dry_run: bool
    warnings: Sequence[str] = ()
    """A line for each damaged run, which was left alone, and for each damaged record of a driver."""

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay clean`."""
        return asdict(self)


def clean(store: str | None = None, older_s: float = RETENTION_S, dry_run: bool = False) -> CleanResult:
    """Delete files that no reader of the store needs and that are older than `older_s` seconds. Answers are never deleted.

    Runs do this themselves once a day. `dry_run`: only report what would be freed. Raises StoreError, for example if there is no
    store, and OSError.
    """
    opened = Store(store_uri(store))
    files = opened.files
    if opened.is_new:
        raise StoreError(f"there is no store at {files.uri}; another one is given by --store or $SUMMHAY_STORE")
    kinds: dict[str, dict[str, int]] = {}
    damaged: list[str] = []
    for file in unneeded(files, older_s, damaged=damaged):
        if not dry_run:
            file.delete(files)
        kind = kinds.setdefault(file.what, {"files": 0, "bytes": 0})
        kind["files"] += 1
        kind["bytes"] += file.size
    total = {name: sum(kind[name] for kind in kinds.values()) for name in ("files", "bytes")}
    return CleanResult(**total, kinds=kinds, dry_run=dry_run, warnings=damaged)


@dataclass(frozen=True)
class MigrateResult:
    """What was brought over from an old store's log."""

    store: str
    migrated: bool
    """False if there was nothing to migrate."""
    answers: int = 0
    """Answers that were brought over."""
    known: int = 0
    """Answers that were there already, because an earlier migration was interrupted or the old log held them twice."""
    damaged: int = 0
    """Records of the old log that cannot be read; a run that needs their answers asks again."""

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay migrate`."""
        return asdict(self)


def migrate(store: str | None = None) -> MigrateResult:
    """Bring the answers of a store of an earlier version into the present format. Interrupted, it can be called again.

    A run again makes its tables from the answers, without a call. Raises StoreError if there is no store, if it is of a newer
    version, or while a run is at work in it.
    """
    uri = store_uri(store)
    done = migrate_store(uri)
    if done is None:
        return MigrateResult(uri, False)
    return MigrateResult(uri, True, done["written"], done["known"], done["damaged"])


WHOSE = ("system", "label", "retriever", "ordering", "model", "haystack_id", "subtopic_id", "repeat")
"""The columns of `summaries` that say which system made a summary, and for which input."""


def table(run_id: str, name: str, store: str | None = None) -> pl.DataFrame:
    """A table of a run as a polars frame, sorted by its primary key. `name`: see schemas/*.json. Raises UserError if unknown.

    `scores` and `judgments` get the columns WHOSE of their summary.
    """
    import polars as pl

    from summhay_ray.metrics import with_labels

    stored = _run(run_id, store)
    if name not in stored.declared:
        raise plugins.unknown("table", name, stored.declared)
    frame = stored.table(name)
    if name not in ("scores", "judgments") or "summaries" not in stored.declared or "cell_id" not in frame.columns:
        return frame
    summaries = stored.table("summaries")
    if "label" not in summaries.columns:  # of an earlier version
        summaries = with_labels(summaries)
    frame = frame.drop(column for column in WHOSE if column in frame.columns)
    whose = [column for column in WHOSE if column in summaries.columns]
    joined = frame.join(summaries.select("cell_id", *whose), on="cell_id", how="left", maintain_order="left")
    return joined.select(pl.col("cell_id"), *map(pl.col, whose), pl.exclude("cell_id", *whose))


def judge_bench(
    file: str | Path,
    judges: Sequence[str] = (),
    store: str | None = None,
    budget: float | None = None,
    *,
    spec: str | None = None,
    held_out: bool = False,
    untrusted: bool = False,
) -> bench.BenchResult:
    """Compare judges with people's annotations; without `judges`, the file's stored predictions and the offline judge.

    `spec`: the path of a spec whose judges give the endpoints and prices of models. `held_out`: fit the offline judge on the
    file's other topics. Nothing is written if no call is made.
    """
    from summhay_ray.benchmarks import judge_bench as bench

    _check_budget(budget)
    return bench.bench_judges(Path(file), judges, Store(store_uri(store)), bench.BenchOptions(budget, spec, held_out, untrusted))


def rejudge(
    run_id: str,
    judges: str | Sequence[str] = (),
    store: str | None = None,
    budget: float | None = None,
    watch: Watch | None = None,
    *,
    spec: str | None = None,
    overrides: Iterable[str] = (),
    address: str | None = None,
    executor: str | None = None,
    note: Callable[[str], None] | None = None,
    untrusted: bool = False,
) -> RunResult:
    """Judge the stored summaries of a run again; the old judgments stay. The same call resumes.

    `judges`: names such as `offline` or `blend(openai/gpt-4o,offline)`. `spec`: the path of a YAML file with judges and their
    settings. Raises SpecError or StoreError before any call is made.
    """
    from summhay_ray.benchmarks import rejudge as rejudging

    named = (judges,) if isinstance(judges, str) else tuple(judges)
    options = _options(budget, executor, address, watch, note)
    request = rejudging.RejudgeRequest(named, spec, tuple(overrides), untrusted)
    return rejudging.rejudge_run(_run(run_id, store), request, options)


def support(
    what: str | Path,
    judge: str = "",
    store: str | None = None,
    budget: float | None = None,
    address: str | None = None,
    watch: Watch | None = None,
    *,
    documents: str | Path | None = None,
    per: Literal["citation", "bullet"] = "citation",
    overrides: Iterable[str] = (),
    executor: str | None = None,
    note: Callable[[str], None] | None = None,
    untrusted: bool = False,
) -> RunResult:
    """Judge, without gold, whether the cited documents say what is cited for them. The same call resumes.

    `what`: a run's id; with `documents`, a folder, a file of answers in JSON lines (docs/citations.md). `judge`: by default the
    free `offline/support-judge`; a model, `nli/NAME`, or a cascade or panel of them. `per`: what a model is asked about at once.
    Raises SpecError or StoreError before any call is made.
    """
    from summhay_ray.benchmarks import support as supporting

    options = _options(budget, executor, address, watch, note)
    request = supporting.SupportRequest(judge or supporting.SUPPORT_JUDGE, per)
    if documents is None:
        if Path(what).is_file():
            raise UserError(f"{what} is a file of answers; give the folder of the documents that they cite: --documents FOLDER")
        request = replace(request, run=_run(str(what), store))
    else:
        request = replace(request, answers=str(what), documents=str(documents))
    loaded = load(supporting.support_fields(request), overrides, store, untrusted=untrusted)
    return engine.run_workload(loaded, _opened(loaded, store), options)


def recite(run_id: str, store: str | None = None, *, mode: Literal["both", "drop", "add"] = "both") -> supporting.ReciteResult:
    """The summaries of a run with their citations repaired by the free support judge, as a run of its own, without any call.

    `mode`: drop what is not supported, add what is, or both. Coverage judgments carry over. Raises UserError.
    """
    from summhay_ray.benchmarks import support as supporting

    return supporting.recite_run(_run(run_id, store), mode)


def coverage(
    spec: str | Path,
    evaluators: str | Sequence[str] = (),
    store: str | None = None,
    budget: float | None = None,
    watch: Watch | None = None,
    *,
    sample: int | None = None,
    chunk_tokens: int | None = None,
    overrides: Iterable[str] = (),
    address: str | None = None,
    executor: str | None = None,
    note: Callable[[str], None] | None = None,
    untrusted: bool = False,
) -> RunResult:
    """Measure information coverage: the share of a context's chunks that a benchmark's questions need (ETHIC, appendix A).

    `spec`: the path of any benchmark's spec, or of one of kind coverage. `evaluators`: models, `offline/coverage`,
    `offline/coverage-embed`. `sample`: questions per task and domain. Raises SpecError or StoreError before any call is made.
    """
    from summhay_ray.benchmarks import coverage as measuring

    options = _options(budget, executor, address, watch, note)
    named = (evaluators,) if isinstance(evaluators, str) else tuple(evaluators)
    given = {"sample": sample, "chunk_tokens": chunk_tokens, "evaluators": list(named) or None}
    (fields, folder), changes, opened = engine.read_fields(str(spec)), tuple(overrides), Store(store_uri(store))
    measured = measuring.coverage_fields(Path(spec), fields, given, changes)
    own = changes if fields.get("kind") == measuring.Coverage.kind else ()
    loaded = engine.load_workload(measured, own, opened, untrusted=untrusted, folder=folder)
    if not isinstance(loaded, measuring.Coverage):
        raise SpecError(f"{spec}: is of kind {loaded.kind}; expected a benchmark's spec")
    return engine.run_workload(loaded, opened, options)


def mine(
    folder: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    store: str | None = None,
    budget: float | None = None,
    address: str | None = None,
    watch: Watch | None = None,
    *,
    review: str | Path | None = None,
    overrides: Iterable[str] = (),
    executor: str | None = None,
    note: Callable[[str], None] | None = None,
    untrusted: bool = False,
) -> RunResult:
    """Make a haystack of a folder of documents, or of a spec of kind mine. The same call resumes.

    `out`: a file for the haystack as released JSON. `review`: a file for a person's sheet (CSV; an HTML page beside it). Raises
    SpecError or StoreError before any call is made, and UserError if a file exists.
    """
    from summhay_ray.benchmarks import mine as mining

    options = _options(budget, executor, address, watch, note)
    spec = {"kind": "mine", "folder": str(folder)} if isinstance(folder, str | Path) and Path(folder).is_dir() else folder
    if isinstance(spec, str | Path) and not Path(spec).exists():
        raise SpecError(f"{spec}: no such folder; give a folder of documents, or a spec of kind mine (YAML)")
    loaded = load(spec, overrides, store, untrusted=untrusted)
    if not isinstance(loaded, mining.Mine):
        raise SpecError(f"{'spec' if isinstance(spec, Mapping) else spec}: is of kind {loaded.kind}; start it with: summhay run")
    for path in (out, review):
        if path and not Path(path).absolute().parent.is_dir():
            raise UserError(f"{Path(path).parent} is not a folder; make it first")
    opened = _opened(loaded, store)
    result = engine.run_workload(loaded, opened, options)
    run = opened.run(result.run)
    files = []
    if out is not None and result.results.details["insights"]:
        mining.write_mined(run, Path(out))
        files.append(str(out))
    if review is not None and result.results.details["insights"]:
        files += mining.write_review(run, Path(review))
    details = {**result.results.details, "path": str(out) if str(out) in files else None, "files": files}
    return replace(result, results=replace(result.results, details=details))


def accept(sheet: str | Path, out: str | Path | None = None, store: str | None = None) -> dict[str, Any]:
    """Take over a person's review of a mined haystack; the sheet names its run. `out`: a file for the haystack.

    Raises UserError, which names the row and the column, for a sheet that cannot be read.
    """
    from summhay_ray.benchmarks import mine as mining

    return mining.accept_sheet(Path(sheet), lambda run_id: _stored(run_id, store)[1], None if out is None else Path(out))


def synth(
    spec: Spec,
    store: str | None = None,
    budget: float | None = None,
    address: str | None = None,
    watch: Watch | None = None,
    *,
    overrides: Iterable[str] = (),
    out: str | Path | None = None,
    executor: str | None = None,
    note: Callable[[str], None] | None = None,
    untrusted: bool = False,
) -> RunResult:
    """Make and verify the haystacks of a synth spec. The same call resumes. `out`: a folder to write them to.

    A haystack's `entry` names it in the spec of a run in the same store. Raises SpecError or StoreError before any call is made.
    """
    from summhay_ray.benchmarks import synth as synthesis

    options = _options(budget, executor, address, watch, note)
    loaded = load(spec, overrides, store, untrusted=untrusted)
    if not isinstance(loaded, synthesis.Synth):
        raise SpecError(f"{'spec' if isinstance(spec, Mapping) else spec}: is of kind {loaded.kind}; start it with: summhay run")
    return synthesis.run_synth(loaded, _opened(loaded, store), options, None if out is None else Path(out))


def verify(
    paths: str | Path | Sequence[str | Path], out: str | Path | None = None, address: str | None = None
) -> list[synthesis.VerifiedFile]:
    """Check haystack files against their own annotations, offline, and list mismatches. `out`: a CSV file for all checks.

    More than eight files are checked by a local Ray, or by the Ray cluster at `address`, whose nodes must see them. Raises
    InvalidHaystack, and UserError if `out` exists.
    """
    from summhay_ray.benchmarks import synth as synthesis

    listed = [paths] if isinstance(paths, str | Path) else paths
    if out is not None and Path(out).exists():
        raise UserError(f"{out} exists; give another file")
    verified = synthesis.verify_files([str(path) for path in listed], address or "")
    if out is not None:
        synthesis.write_checks(verified, Path(out))
    return verified


def audit(
    run_id: str,
    sheet: str | Path,
    store: str | None = None,
    *,
    insights: int = 100,
    documents: int = 10,
    haystacks: int = 10,
    seed: int = 0,
) -> dict[str, Any]:
    """Write a sheet for a person to label, with a sample of the annotations of a run's haystacks. Never overwrites a file.

    The sheet asks for the subtopics of `insights` insights and for the insights in `documents` documents, taken from at most
    `haystacks` haystacks.
    """
    from summhay_ray.benchmarks import synth as synthesis

    return synthesis.write_sheet(
        _stored(run_id, store)[1],
        Path(sheet),
        synthesis.Sample(insights=insights, documents=documents, haystacks=haystacks, seed=seed),
    )


def audited(run_id: str, sheet: str | Path, store: str | None = None) -> dict[str, Any]:
    """Evaluate a labelled sheet: the paper's Tables 4 and 5 for a run's haystacks, as lists of rows."""
    from summhay_ray.benchmarks import synth as synthesis

    return synthesis.read_sheet(_stored(run_id, store)[1], Path(sheet))


def compare(
    run_id: str, judges: Sequence[str] = (), store: str | None = None, rows: int = 20
) -> rejudging.CompareResult | extracts.RaterComparison:
    """Compare two judges on one run: their agreement, the `rows` insights where they differ most, and the systems' ranking.

    `judges`: two of the run's judges, including those of `rejudge`; not needed if the run has just two.
    """
    from summhay_ray.benchmarks import extract_evaluate as extracts
    from summhay_ray.benchmarks import rejudge as rejudging

    workload, run = _stored(run_id, store)
    if (rates := getattr(workload.reader, "rates", None)) is not None:
        return extracts.compare_raters(rates, run, judges)
    if not _has_judges(run):
        raise UserError(
            f"{run_id} is a run of {run.record['kind']}, which has no judges: name two of its systems with --systems A B "
            "('*' '*' is every pair), or a second run"
        )
    return rejudging.compare_judges(run, judges, rows)


def compare_systems(
    run_id: str,
    other: str | None = None,
    systems: Sequence[str] = (),
    judges: Sequence[str] = (),
    store: str | None = None,
    *,
    judge: str = "",
    seed: int = 0,
    over: Literal["queries", "haystacks"] = "queries",
    by: Literal["retriever", "model"] | None = None,
    labels: str | Path | None = None,
) -> comparison.SystemComparison | extracts.RaterComparison:
    """Compare systems on the queries that both answered: intervals, tests, and the certainty of their ranking.

    In one run, every pair of systems, or those that match the two names or patterns in `systems`. In two runs, systems of the
    same name, or one name for each run. `judge`: whose judgments to use; by default each run's own judge or, if these differ, one
    that both have. `judges`: one for each run. `over`: whether the intervals generalize to further queries of these haystacks
    (for other benchmarks: documents), or to other `haystacks`. `by`: of summaries of haystacks, compare retrievers, each averaged
    over the models, or models, each averaged over the retrievers, instead of systems. `labels`: as for `score`, of one run.

    For two runs with ratings (Extract-then-Evaluate, ETHIC, ODSum's G-EVAL), `judges` are two raters, one of each run, who are
    compared on what both rated.
    """
    from summhay_ray import comparison
    from summhay_ray.benchmarks import extract_evaluate as extracts
    from summhay_ray.benchmarks import summhay as haystacks

    if len(systems) not in (0, 2):
        raise UserError(f"systems: expected two names or patterns, such as A B; got {len(systems)}")
    opened = [_stored(name, store) for name in (run_id, other) if name is not None]
    stored = [run for _, run in opened]
    if judge and judges:
        raise UserError("judge: give it alone, or judges, one for each run")
    if all(map(_has_judges, stored)):
        given = _labels(labels, *stored)
        return haystacks.compare_systems(stored, systems, [judge] if judge else judges, seed=seed, over=over, by=by, labels=given)
    if by is not None:
        raise UserError(f"by {by}: {run_id} is a run of {stored[0].record['kind']}; only grids of retrievers and models have it")
    if labels:
        raise UserError("labels: a run holds no summaries with judgments")
    for run in stored:
        _check_judged(run, judge)
    rates = [getattr(workload.reader, "rates", None) for workload, _ in opened]
    if judges and len(stored) == 2 and not systems and rates[0] is not None and rates[0] == rates[1]:
        return extracts.compare_raters(rates[0], stored[0], judges, stored[1])
    if judges:
        raise UserError(f"judges: {run_id} is a run of {stored[0].record['kind']}; leave them out, or give two runs with ratings")
    scores = []
    for workload, run in opened:
        by_query = None if _has_judges(run) else engine.scores_by_query(workload, run.at())
        if by_query is None:
            raise UserError(
                f"{run.run_id} is a run of {run.record['kind']}, whose systems cannot be compared query by query"
                f"{f' with those of {run_id}' if len(stored) > 1 else ''}; summhay report RUN_A RUN_B puts any runs side by side"
            )
        scores.append(comparison.RunScores(run.run_id, by_query))
    return comparison.compare_runs(scores, systems, seed, over)


def _has_judges(run: RunStore) -> bool:
    """Whether a run has judgments of summaries of haystacks, or of another run's."""
    return run.declared.keys() >= {"insights", "summaries", "judgments"} or "of" in run.record


def _check_judged(run: RunStore, judge: str) -> None:
    """Raises UserError if a judge is named for a run without summaries that several may have judged."""
    if judge and (of := run.record.get("of")) is not None:
        raise UserError(f"judge {judge}: {run.run_id} holds judgments of the summaries of {of}; give that run")
    if judge and not _has_judges(run):
        raise UserError(
            f"judge {judge}: {run.run_id} is a run of {run.record['kind']}, which holds no judged summaries; leave it out"
        )


def make_report(
    runs: str | Sequence[str],
    store: str | None = None,
    compat: Compat = "default",
    judge: str = "",
    labels: str | Path = "",
) -> reports.Report:
    """A report of the current results of runs: `.write(out)` writes the page, `.figure(name)` draws a chart.

    `judge`: whose judgments it shows, by default those of each run's own judge. `labels`: as for `score`. A notebook displays
    the report. Raises StoreError, UserError.
    """
    from summhay_ray import report as reports

    opened = Store(store_uri(store))
    stored = [opened.run(run_id) for run_id in ([runs] if isinstance(runs, str) else runs)]
    for run in stored:
        _check_judged(run, judge)
    _labels(labels, *stored)
    with _reading(*stored):
        return reports.report(stored, compat, judge, str(labels or ""))
