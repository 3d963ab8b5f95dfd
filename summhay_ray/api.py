"""The Python API: the commands as functions that return typed results. Imported as `summhay_ray.run` and so on."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from summhay_ray import engine, plugins
from summhay_ray.engine import (
    Check,
    Compat,
    Job,
    PlanResult,
    Progress,
    Results,
    RunEntry,
    RunOptions,
    RunResult,
    SpecError,
    StatusResult,
    Workload,
)
from summhay_ray.errors import UserError
from summhay_ray.store import RETENTION_S, Store, TableFormat, open_files, unneeded, with_endpoint, write_tables

# Each function loads the benchmarks that it needs: `status` of one kind of run waits for no other.
if TYPE_CHECKING:
    import polars as pl

    from summhay_ray import report as reports
    from summhay_ray.benchmarks import extract_evaluate as extracts
    from summhay_ray.benchmarks import judge_bench as bench
    from summhay_ray.benchmarks import rejudge as rejudging
    from summhay_ray.benchmarks import summhay as haystacks
    from summhay_ray.benchmarks import synth as synthesis
    from summhay_ray.benchmarks.odsum import CollectionImport

DEFAULT_STORE = "./summhay-store"
Spec = str | Path | Mapping[str, Any]
"""The path of a YAML file, or its fields."""
Watch = Callable[[Progress], None]


def store_uri(uri: str | None = None) -> str:
    """The store: as given, else $SUMMHAY_STORE, else ./summhay-store."""
    return uri or os.environ.get("SUMMHAY_STORE") or DEFAULT_STORE


def load(spec: Spec, overrides: Iterable[str] = (), store: str | None = None) -> Workload[Any]:
    """The workload of a spec, with its inputs read and every name checked. Raises SpecError, InvalidHaystack, StoreError.

    `store`: where inputs lie that are named by their content, or that another spec's run has made.
    """
    return engine.load_workload(spec, tuple(overrides), lambda parsed: Store(_store_of(parsed, store)))


def _store_of(spec: engine.Spec, store: str | None) -> str:
    """The store for a spec: its `endpoint_url` says where an s3:// store is that does not say so itself."""
    return with_endpoint(store_uri(store), spec.endpoint_url)


def _opened(loaded: Workload[Any], store: str | None) -> Store:
    return Store(_store_of(loaded.spec, store))


def _check_budget(budget: float | None) -> None:
    if budget is not None and not 0 <= budget < math.inf:
        raise SpecError(f"budget {budget}: expected dollars, 0 or more; leave it out for no bound")


@dataclass(frozen=True)
class ReportableResult(RunResult):
    """What became of a run, and where it lies: it draws its figures."""

    store: str = ""

    def figure(self, name: str) -> Any:
        """The chart of a section as a matplotlib figure, such as "cost_quality". Raises UserError, naming what there is."""
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
) -> ReportableResult:
    """Run or resume the work of a spec, of whatever kind; dollars spent never exceed `budget` (else the spec's).

    `executor`: inline (this process, no Ray), ray, or auto, which takes what is sooner done; `note` is told which, in a line.
    `limit`: a first look: so many items, which the benchmark chooses fairly, are answered in all; the run is the same.
    `address`: of a Ray cluster. `watch` is called about twice a second, in a thread of its own.
    """
    _check_budget(budget)
    if limit is not None and limit < 1:
        raise SpecError(f"limit {limit}: expected 1 item or more; leave it out for all of them")
    loaded = load(spec, overrides, store)
    options = RunOptions(budget, executor, _address(address), watch, compat, note, limit)
    opened = _opened(loaded, store)
    result = engine.run_workload(loaded, opened, options)
    return ReportableResult(**{one.name: getattr(result, one.name) for one in fields(result)}, store=opened.uri)


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
) -> RunResult:
    """Retrieve and measure, and nothing else; what a spec says of summarizers and judges is left aside. The same call goes on.

    `trec`: a folder that gets each retriever's rankings as RETRIEVER.run, and `qrels`; `beir`: one that gets each corpus as a
    BEIR folder. Raises SpecError for a kind that has nothing to retrieve from, and UserError rather than overwrite a file.
    """
    from summhay_ray.benchmarks import retrieval

    _check_budget(budget)
    loaded = engine.load_workload(
        spec, tuple(overrides), lambda parsed: Store(_store_of(parsed, store)), retrieval.retrieval_alone
    )
    opened = _opened(loaded, store)
    result = engine.run_workload(loaded, opened, RunOptions(budget, executor, _address(address), watch, note=note))
    if trec is not None:
        retrieval.write_trec(opened.run(result.run), Path(trec))
    if beir is not None:
        retrieval.write_beir(loaded, Path(beir))
    return result


def _address(address: str | None) -> str | None:
    """None for this machine."""
    return None if address in (None, "", "local") else address


def submit(
    spec: Spec,
    address: str,
    store: str | None = None,
    budget: float | None = None,
    *,
    overrides: Iterable[str] = (),
    compat: Compat = "default",
) -> Job:
    """Run or resume as a job of the Ray cluster whose dashboard is at `address`; `.follow(print)` waits.

    Keys are not sent. Raises JobError, SpecError, StoreError, with nothing sent.
    """
    _check_budget(budget)
    loaded = load(spec, overrides, store)
    return engine.submit(loaded, engine.JobOrder(_store_of(loaded.spec, store), budget, compat), address)


def plan(spec: Spec, store: str | None = None, overrides: Iterable[str] = (), budget: float | None = None) -> PlanResult:
    """Calls, tokens and dollars per stage and model, before any call; what is already paid is `reused`.

    It warns where `budget` (else the spec's) will stop the run, and where a key is missing here.
    """
    _check_budget(budget)
    loaded = load(spec, overrides, store)
    made = engine.plan(loaded, _opened(loaded, store), budget)
    asked = any(stage.calls for stage in made.stages)
    return replace(made, warnings=(*made.warnings, *(engine.missing_keys(loaded) if asked else ())))


def import_released(
    paths: str | Path | Sequence[str | Path], store: str | None = None, address: str | None = None
) -> haystacks.ImportResult:
    """Keep released SummHay files as a run. Raises InvalidHaystack, with nothing written, where one is broken.

    Hundreds of files are read by a Ray of its own, or by the one at `address`, whose nodes must see files and store.
    """
    from summhay_ray.benchmarks import summhay as haystacks

    listed = [paths] if isinstance(paths, str | Path) else paths
    return haystacks.import_files([str(path) for path in listed], Store(store_uri(store)), address or "")


def import_collection(folder: str | Path, store: str | None = None) -> CollectionImport:
    """Keep the documents and queries of a folder (docs/odsum.md), which a spec then names by `corpus: store/SHA256`.

    Raises SpecError, in one line that names the file.
    """
    from summhay_ray.benchmarks import odsum

    return odsum.import_collection(folder, Store(store_uri(store)))


def _stored(run_id: str, store: str | None) -> tuple[Workload[Any], Any]:
    stored = Store(store_uri(store)).run(run_id)
    return engine.workload_of(stored), stored


def export(run_id: str, out: str | Path, store: str | None = None, judge: str = "") -> list[Path]:
    """The run as released JSON files in the folder `out`."""
    workload, stored = _stored(run_id, store)
    return workload.export(stored, Path(out), judge)


def export_tables(run_id: str, target: str | Path, store: str | None = None, kind: TableFormat = "parquet") -> dict[str, str]:
    """Write each table of the run, as far as it is committed, into a folder or `s3://...`: table -> where it is.

    A table is one file, `<table>/part-0.<kind>`, sorted by key; in CSV lists are JSON. Raises UserError.
    """
    run = Store(store_uri(store)).run(run_id)
    if Path(target).is_file():
        raise UserError(f"{target} is a file; give a folder, or s3://BUCKET/PREFIX")
    files = open_files(str(target))
    try:
        written = write_tables(run, files, kind=kind)
    except OSError as error:
        # What cannot be read of the store is no fault of the target's.
        if files.folder is None or not _is_below(error.filename, files.folder):
            raise
        why = error.strerror or type(error).__name__
        raise UserError(f"{target}: no table can be written there ({why}); give another folder, or s3://BUCKET/PREFIX") from error
    return {table: files.where(name) for table, name in written.items()}


def _is_below(name: str | bytes | None, folder: Path) -> bool:
    """Whether a file that an error names is the folder, lies in it, or holds it."""
    if name is None:
        return False
    path, target = Path(os.fsdecode(name)).absolute(), folder.absolute()
    return path.is_relative_to(target) or target.is_relative_to(path)


def full_id(run_id: str, store: str | None = None) -> str:
    """The id of the run whose id begins so. Raises StoreError where none or several do."""
    return Store(store_uri(store)).run(run_id).run_id


def score(
    run_id: str, store: str | None = None, compat: Compat = "default", bias: str | Path | None = None
) -> haystacks.ScoreResult | Results:
    """Score what is stored, without a call: judgments, those of `rejudge` among them, or a benchmark of one's own as it does.

    `bias`: a file of `judge_bench(...).biases()`.
    """
    from summhay_ray.benchmarks import summhay as haystacks

    stored = Store(store_uri(store)).run(run_id)
    if engine.scores_itself(stored):
        return engine.workload_of(stored).results(stored, compat)
    biases = haystacks.read_biases(Path(bias)) if bias is not None else ()
    return haystacks.score_run(stored, compat, biases=biases, rejudged=True)


def results(run_id: str, store: str | None = None, compat: Compat = "default") -> Results:
    """What a run's tables come to now, whatever its kind: scores, sections, warnings; without a call."""
    workload, stored = _stored(run_id, store)
    return workload.results(stored, compat)


def status(run_id: str, store: str | None = None) -> StatusResult:
    """How a run stands."""
    return engine.status(Store(store_uri(store)).run(run_id))


def runs(store: str | None = None) -> list[RunEntry]:
    """Every run of the store, the latest first."""
    return engine.entries(Store(store_uri(store)))


def stop(run_id: str, store: str | None = None) -> str:
    """Have whoever drives the run stop, on whatever machine, and wait until its calls in flight are kept: `on HOST, pid N`.

    Raises UserError where nobody drives it.
    """
    return engine.stop(Store(store_uri(store)).run(run_id))


def failures(run_id: str, store: str | None = None) -> list[dict[str, Any]]:
    """Every failure of a run, each with where it happened, as far as its benchmark knows."""
    workload, stored = _stored(run_id, store)
    frame = stored.table("failures")
    places = workload.places(stored, frame[frame.columns[0]].unique().to_list())
    return [{**row, **places.get(row[frame.columns[0]], {})} for row in frame.to_dicts()]


def explain(run_id: str, key: str, store: str | None = None, compat: Compat = "default") -> dict[str, Any]:
    """From an item or an answer to everything it stands on; of a synthesis also from a haystack (NAME) or document (NAME/ID)."""
    workload, stored = _stored(run_id, store)
    return workload.explain(stored, key, compat)


def doctor(spec: Spec | None = None, store: str | None = None) -> list[Check]:
    """Is this machine ready (for the spec)? Where a store is named, all that it holds is read: what is damaged or missing."""
    from summhay_ray import local_models

    offline = Check("offline models", True, ", ".join(local_models.local_names()))
    loaded = load(spec, store=store) if spec is not None else None
    uri = store_uri(store) if loaded is None else _store_of(loaded.spec, store)
    checks = [*engine.examine(uri, loaded), offline, *_models_here(loaded)]
    # A store that cannot be opened has its line.
    is_open = all(check.ok for check in checks if check.name == "store")
    return [*checks, *engine.examine_runs(Store(uri))] if store is not None and is_open else checks


def _models_here(loaded: Workload[Any] | None) -> list[Check]:
    """The embedding and reranking models of the spec, each loaded; without a spec where those lie that names stand for."""
    from summhay_ray import encoders
    from summhay_ray.retrieve import MPNET

    wanted = getattr(loaded, "encoders_here", [])
    try:
        device = encoders.best_device()
    except encoders.NoModel as error:
        return [Check("models in this process", not wanted, str(error))]
    checks = [Check("models in this process", True, f"on {device}")]
    for one in wanted:
        try:
            encoders.load_encoder(one) if isinstance(one, encoders.Encoding) else encoders.load_scorer(one)
            checks.append(Check(f"model {one.model}", True, f"loaded, on {device}"))
        except encoders.NoModel as error:
            checks.append(Check(f"model {one.model}", False, str(error)))
    for name, retriever in () if loaded is not None else ((MPNET, "vector"), ("all-MiniLM-L6-v2", "{embed: all-MiniLM-L6-v2}")):
        try:
            found = encoders.check_model(name)
            checks.append(Check(f"model {name}", True, f"for {retriever}: {found.folder or 'the model hub'}"))
        except encoders.NoModel as error:
            # Not everybody needs it.
            checks.append(Check(f"model {name}", True, f"not here, for {retriever}: {error}"))
    return checks


@dataclass(frozen=True)
class CleanResult:
    """What of a store nobody needs: files and bytes, of all and of each kind."""

    files: int
    bytes: int
    kinds: Mapping[str, Mapping[str, int]]
    dry_run: bool
    warnings: Sequence[str] = ()
    """The runs that were left alone."""

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay clean`."""
        return asdict(self)


def clean(store: str | None = None, older_s: float = RETENTION_S, dry_run: bool = False) -> CleanResult:
    """Delete what no reader of the store can need any more and was written longer ago than that; answers never are.

    Runs do it by themselves once a day. `dry_run`: only say what it would free. Raises StoreError, OSError.
    """
    files = Store(store_uri(store)).files
    kinds: dict[str, dict[str, int]] = {}
    damaged: list[str] = []
    for one in unneeded(files, older_s, damaged=damaged):
        if not dry_run:
            one.delete(files)
        kind = kinds.setdefault(one.what, {"files": 0, "bytes": 0})
        kind["files"] += 1
        kind["bytes"] += one.size
    total = {name: sum(kind[name] for kind in kinds.values()) for name in ("files", "bytes")}
    return CleanResult(**total, kinds=kinds, dry_run=dry_run, warnings=damaged)


WHOSE = ("system", "retriever", "ordering", "model", "haystack_id", "subtopic_id", "repeat")
"""Of a summary, what says whose it is and of what."""


def table(run_id: str, name: str, store: str | None = None) -> pl.DataFrame:
    """A table of a run as a polars frame, sorted by its primary key; names: schemas/*.json. Raises UserError for another name.

    Beside scores and judgments stands whose they are: system, retriever, ordering, model, haystack, subtopic, repeat.
    """
    import polars as pl

    stored = Store(store_uri(store)).run(run_id)
    if name not in stored.declared:
        raise plugins.unknown("table", name, stored.declared)
    frame = stored.table(name)
    if name not in ("scores", "judgments") or "summaries" not in stored.declared or "cell_id" not in frame.columns:
        return frame
    summaries = stored.table("summaries")
    whose = [one for one in WHOSE if one in summaries.columns and one not in frame.columns]
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
) -> bench.BenchResult:
    """Judges held against people's annotations; without judges, the file's stored predictions and the free one.

    `spec`: the path of a spec whose judges say how models are reached; `held_out`: whether the free judge is fitted on the
    file's other topics. Nothing is written where nothing is asked.
    """
    from summhay_ray.benchmarks import judge_bench as bench

    _check_budget(budget)
    return bench.bench_judges(Path(file), judges, Store(store_uri(store)), bench.BenchOptions(budget, spec, held_out))


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
) -> RunResult:
    """New judgments over the stored summaries of a run, beside the old ones; the same call goes on where it was.

    `judges`: names such as `offline` or `blend(openai/gpt-4o,offline)`. `spec`: path of a YAML file with judges and their
    settings. Raises SpecError, StoreError, with nothing asked.
    """
    from summhay_ray.benchmarks import rejudge as rejudging

    named = (judges,) if isinstance(judges, str) else tuple(judges)
    _check_budget(budget)
    request = rejudging.RejudgeRequest(named, spec, tuple(overrides))
    options = RunOptions(budget, executor, _address(address), watch, note=note)
    return rejudging.rejudge_run(Store(store_uri(store)).run(run_id), request, options)


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
) -> RunResult:
    """Information coverage: the share of a context's chunks that the questions of a benchmark need (ETHIC, appendix A).

    `spec`: the path of any benchmark's spec, or of one of kind coverage. `evaluators`: models, `offline/coverage`,
    `offline/coverage-embed`. `sample`: questions of each task and domain. Raises SpecError, StoreError, with nothing asked.
    """
    from summhay_ray.benchmarks import coverage as measuring

    _check_budget(budget)
    named = (evaluators,) if isinstance(evaluators, str) else tuple(evaluators)
    request = measuring.CoverageRequest(str(spec), named, sample, chunk_tokens, tuple(overrides))
    options = RunOptions(budget, executor, _address(address), watch, note=note)
    return measuring.coverage_run(request, Store(store_uri(store)), options)


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
) -> RunResult:
    """Make the haystacks of a synth spec, verified; the same call goes on where it was. `out`: a folder that gets them.

    Each haystack's `entry` names it in a run's spec, for the same store. Raises SpecError, StoreError, with nothing asked.
    """
    from summhay_ray.benchmarks import synth as synthesis

    _check_budget(budget)
    loaded = load(spec, overrides, store)
    if not isinstance(loaded, synthesis.Synth):
        raise SpecError(f"{'spec' if isinstance(spec, Mapping) else spec}: is of kind {loaded.kind}; start it with: summhay run")
    options = RunOptions(budget, executor, _address(address), watch, note=note)
    return synthesis.run_synth(loaded, _opened(loaded, store), options, None if out is None else Path(out))


def verify(
    paths: str | Path | Sequence[str | Path], out: str | Path | None = None, address: str | None = None
) -> list[synthesis.VerifiedFile]:
    """Check haystack files against their own annotations, offline; list mismatches. `out`: a CSV of all checks.

    More than eight files are checked by a Ray of their own, or by the one at `address`, whose nodes must see them. Raises
    InvalidHaystack, and UserError where `out` exists.
    """
    from summhay_ray.benchmarks import synth as synthesis

    listed = [paths] if isinstance(paths, str | Path) else paths
    if out is not None and Path(out).exists():
        raise UserError(f"{out} exists; give another file")
    found = synthesis.verify_files([str(path) for path in listed], address or "")
    if out is not None:
        synthesis.write_checks(found, Path(out))
    return found


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
    """Write a sheet for a person to label: a sample of the truth about a run's haystacks. It is never written over another.

    It asks of so many insights of which subtopic they are, of so many documents what they say; from so many haystacks at most.
    """
    from summhay_ray.benchmarks import synth as synthesis

    return synthesis.write_sheet(
        _stored(run_id, store)[1],
        Path(sheet),
        synthesis.Sample(insights=insights, documents=documents, haystacks=haystacks, seed=seed),
    )


def audited(run_id: str, sheet: str | Path, store: str | None = None) -> dict[str, Any]:
    """What a person's labels say of a run's haystacks: the paper's Tables 4 and 5, as lists of rows."""
    from summhay_ray.benchmarks import synth as synthesis

    return synthesis.read_sheet(_stored(run_id, store)[1], Path(sheet))


def compare(
    run_id: str, judges: Sequence[str] = (), store: str | None = None, rows: int = 20
) -> rejudging.CompareResult | extracts.RaterComparison:
    """Two judges on one run: how far they agree, where they differ most (so many rows), and what moves among the systems.

    `judges`: two of the run's judges, its own or those of `rejudge`; where the run has just two, none need be named.
    """
    from summhay_ray.benchmarks import extract_evaluate as extracts
    from summhay_ray.benchmarks import rejudge as rejudging

    workload, run = _stored(run_id, store)
    if (rates := getattr(workload, "rates", None)) is not None:
        return extracts.compare_raters(rates, run, judges)
    _check_compared([run])
    return rejudging.compare_judges(run, judges, rows)


def compare_systems(
    run_id: str,
    other: str | None = None,
    systems: Sequence[str] = (),
    judges: Sequence[str] = (),
    store: str | None = None,
    *,
    seed: int = 0,
    over: Literal["haystacks", "queries"] = "haystacks",
) -> haystacks.SystemComparison | extracts.RaterComparison:
    """Whether systems differ on the queries that both answered: intervals, tests, and how sure their order is.

    Of one run every two systems, or those that two names or patterns match; of two runs the systems of one name, or a name for
    each run. `judges`: whose judgments count, else the one that all have. `over`: figures are about other haystacks, or about
    further `queries` of these.

    Of two runs with ratings (Extract-then-Evaluate, ETHIC, ODSum's G-EVAL) a rater of each is compared, on what both rated.
    """
    from summhay_ray.benchmarks import extract_evaluate as extracts
    from summhay_ray.benchmarks import summhay as haystacks

    if len(systems) not in (0, 2):
        raise UserError(f"systems: expected two names or patterns, such as A B; got {len(systems)}")
    opened = [_stored(one, store) for one in (run_id, other) if one is not None]
    stored = [run for _, run in opened]
    rates = [getattr(workload, "rates", None) for workload, _ in opened]
    if len(stored) == 2 and not systems and rates[0] is not None and rates[0] == rates[1]:
        return extracts.compare_raters(rates[0], stored[0], judges, stored[1])
    _check_compared(stored)
    return haystacks.compare_systems(stored, systems, judges, seed=seed, over=over)


def _check_compared(runs: Sequence[Any]) -> None:
    """Raises UserError where a run has neither summaries nor the ratings that the other has."""
    for run in runs:
        if "summaries" not in run.declared and "of" not in run.record:
            raise UserError(
                f"{run.run_id} is a run of {run.record['kind']}: compare takes systems of one run or two on haystacks, "
                "or raters, of a run or of two of one kind with ratings (Extract-then-Evaluate, ETHIC, ODSum's G-EVAL); "
                "summhay report RUN_A RUN_B puts any runs side by side"
            )


def make_report(runs: str | Sequence[str], store: str | None = None, compat: Compat = "default") -> reports.Report:
    """What runs came to, as they stand: `.write(out)` makes the page, `.figure(name)` a chart; a notebook shows it.

    Raises StoreError, UserError.
    """
    from summhay_ray import report as reports

    opened = Store(store_uri(store))
    return reports.report([opened.run(one) for one in ([runs] if isinstance(runs, str) else runs)], compat)
