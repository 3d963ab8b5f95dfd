"""Runs, plans and submits specs, and checks whether this machine is ready for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from summhay_ray import benchmarks, engine
from summhay_ray.api.arguments import (
    Spec,
    check_budget,
    checked,
    cluster_of,
    load,
    load_with,
    run_options,
    store_of,
    store_uri,
    uri_of,
)
from summhay_ray.api.judging import leaderboard, make_report
from summhay_ray.engine import Check, Compat, PlanResult, RayJob, RunResult, SpecError, Workload
from summhay_ray.errors import UserError
from summhay_ray.run_options import PlanOptions, RunOptions, StartOptions
from summhay_ray.store import Store


@dataclass(frozen=True)
class ReportableResult(RunResult):
    """The result of a run, with the run's store, so that it can draw figures."""

    store: str = ""

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the outcome, the decision and the leaderboard; if there is none, the scores or the first
        section."""
        compared = leaderboard(self.run, self.store, self.scores)
        alone = [self.scores] if hasattr(self.scores, "_repr_html_") else self.sections[:1]
        return self._html(alone if compared is None else [compared])

    def figure(self, name: str) -> Any:
        """Draw a section's chart, such as "cost_quality", as a matplotlib figure. Raise UserError, which lists the charts."""
        return make_report(self.run, self.store).figure(name)


@checked
def run(spec: Spec, store: str | None = None, **options: Unpack[RunOptions]) -> ReportableResult:
    """Run or resume the work of a spec of any kind. The dollars spent never exceed `budget` (default: the spec's).

    `executor`: inline (this process, no Ray), ray, or auto, which uses the faster one. `limit`: answer at most this many items in
    total, a representative sample; the run can be resumed without it. `RunOptions` describes every option.
    """
    start = run_options(options, options["compat"], options["limit"])
    with cluster_of(options) as cluster:
        loaded = load_with(spec, store, options, cluster)
        opened = store_of(store, loaded.spec)
        result = engine.run_workload(loaded, opened, start, cluster)
    return ReportableResult(**{field.name: getattr(result, field.name) for field in fields(result)}, store=opened.uri)


@checked
def retrieve(
    spec: Spec,
    store: str | None = None,
    *,
    trec: str | Path | None = None,
    beir: str | Path | None = None,
    **options: Unpack[StartOptions],
) -> RunResult:
    """Rank documents and measure the rankings; the spec's summarizers and judges are ignored. The same call resumes.

    `trec`: a folder for each retriever's rankings, as RETRIEVER.run, and for `qrels`. `beir`: a folder for each corpus, in BEIR
    format. Raises SpecError for a kind without retrieval, and UserError if a file exists.
    """
    start = run_options(options)
    for folder in (one for one in (trec, beir) if one is not None):
        if Path(folder).exists() and not Path(folder).is_dir():
            raise UserError(f"{folder}: is a file; give a folder")
    place, change = partial(store_of, store), benchmarks.retrieval.retrieval_alone
    with cluster_of(options) as cluster:
        loaded = engine.load_workload(spec, options["overrides"], place, change, options["untrusted"], mapped=cluster.mapped)
        opened = store_of(store, loaded.spec)
        result = engine.run_workload(loaded, opened, start, cluster)
    if trec is not None:
        benchmarks.retrieval.write_trec(opened.run(result.run), Path(trec))
    if beir is not None:
        benchmarks.retrieval.write_beir(loaded, Path(beir))
    return result


@checked
def coverage(
    spec: str | Path,
    evaluators: str | Sequence[str] = (),
    store: str | None = None,
    *,
    sample: int | None = None,
    chunk_tokens: int | None = None,
    **options: Unpack[StartOptions],
) -> RunResult:
    """Measure information coverage: the share of a context's chunks that a benchmark's questions need (ETHIC, appendix A).

    `spec`: the path of any benchmark's spec, or of one of kind coverage. `evaluators`: models, `offline/coverage`,
    `offline/coverage-embed`. `sample`: questions per task and domain. Raises SpecError or StoreError before any call is made.
    """
    start = run_options(options)
    named = (evaluators,) if isinstance(evaluators, str) else tuple(evaluators)
    given = {"sample": sample, "chunk_tokens": chunk_tokens, "evaluators": list(named) or None}
    (fields, folder), changes = engine.Spec.read_fields(str(spec)), tuple(options["overrides"])
    opened = Store(store_uri(store))
    measured = benchmarks.coverage.coverage_fields(Path(spec), fields, given, changes)
    own = changes if fields.get("kind") == benchmarks.coverage.Coverage.kind else ()
    loaded = engine.load_workload(measured, own, opened, untrusted=options["untrusted"], folder=folder)
    if not isinstance(loaded, benchmarks.coverage.Coverage):
        raise SpecError(f"{spec}: is of kind {loaded.kind}; expected a benchmark's spec")
    return engine.run_workload(loaded, opened, start)


@checked
def submit(
    spec: Spec,
    address: str,
    store: str | None = None,
    *,
    compat: Compat = "default",
    **options: Unpack[PlanOptions],
) -> RayJob:
    """Run or resume a spec as a job on the Ray cluster whose dashboard is at `address`. `.follow(print)` waits for the job's end.

    Keys are not sent. Raises UserError, SpecError or StoreError before anything is sent.
    """
    check_budget(budget := options["budget"])
    loaded = load_with(spec, store, options)
    order = engine.JobOrder(uri_of(loaded.spec, store), budget, compat, options["untrusted"])
    return engine.submit(loaded, order, address)


@checked
def plan(spec: Spec, store: str | None = None, *, exact: bool = False, **options: Unpack[PlanOptions]) -> PlanResult:
    """Return the calls, tokens and dollars of a run per stage and model, before any call. `reused` counts answers already paid
    for.

    With more than 2,000 items, the plan is estimated from a stratified sample (`drawn`), unless `exact`.

    The result contains warnings if `budget` (default: the spec's) will stop the run, or if a key is missing on this machine.
    """
    check_budget(budget := options["budget"])
    loaded = load_with(spec, store, options)
    opened = store_of(store, loaded.spec)
    made = engine.plan(loaded, opened, budget, exact=exact)
    asked = any(stage.calls for stage in made.stages)
    reported_left = engine.reported_work_left(opened, made.run)
    return replace(made, reported_left=reported_left, warnings=(*made.warnings, *(engine.missing_keys(loaded) if asked else ())))


@checked
def doctor(spec: Spec | None = None, store: str | None = None, *, untrusted: bool = False) -> list[Check]:
    """Check whether this machine is ready, and ready for the spec if given. `store`: also read this whole store and check its
    files."""
    from summhay_ray import local_models

    offline = Check("offline models", True, ", ".join(local_models.local_names()))
    loaded = load(spec, store=store, untrusted=untrusted) if spec is not None else None
    uri = store_uri(store) if loaded is None else uri_of(loaded.spec, store)
    checks = [*engine.examine(uri, loaded), offline, *_models_here(loaded)]
    # A store that cannot be opened is reported by its own check.
    is_open = all(check.ok for check in checks if check.name == "store")
    return [*checks, *engine.examine_runs(Store(uri))] if store is not None and is_open else checks


def _models_here(loaded: Workload[Any] | None) -> list[Check]:
    """Check the spec's embedding and reranking models by loading them. Without a spec, find the default ones."""
    from summhay_ray import encoders

    if loaded is None:
        return _default_models()
    checks = []
    for encoder in getattr(loaded, "encoders_here", []):
        try:
            device = encoders.best_device()
            encoders.load_encoder(encoder) if isinstance(encoder, encoders.Encoding) else encoders.load_scorer(encoder)
            checks.append(Check(f"model {encoder.model}", True, f"loaded, on {device}"))
        except encoders.NoModel as error:
            checks.append(Check(f"model {encoder.model}", False, str(error)))
    return checks


def _default_models() -> list[Check]:
    """Find the retrievers' default models, and report the places. These checks always pass, since not every spec needs the
    models."""
    from summhay_ray import encoders
    from summhay_ray.retrieve import MPNET

    checks = []
    for name, retriever in ((MPNET, "vector"), ("all-MiniLM-L6-v2", "{embed: all-MiniLM-L6-v2}")):
        try:
            said = f"for {retriever}: {encoders.check_model(name).folder or 'the model hub'}"
        except encoders.NoModel as error:
            said = f"not here, for {retriever}: {error}"
        checks.append(Check(f"model {name}", True, said))
    return checks
