"""Judges: compares them with people, and asks them about stored summaries and about citations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from summhay_ray import engine
from summhay_ray.api.checked import checked
from summhay_ray.api.opened import check_budget, load_with, opened_run, run_options, store_of, store_uri
from summhay_ray.engine import RunResult
from summhay_ray.errors import UserError
from summhay_ray.plugins import own_code_allowed
from summhay_ray.run_options import StartOptions
from summhay_ray.store import RunStore, Store

if TYPE_CHECKING:
    from summhay_ray.benchmarks import judge_bench as bench
    from summhay_ray.benchmarks import support as supporting


@checked
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

    check_budget(budget)
    with own_code_allowed(not untrusted):
        workload = bench.load_bench(Path(file), judges, bench.BenchOptions(spec, held_out, untrusted))
    outcomes = bench.without_asking(workload)
    if outcomes is not None:
        return workload.measured(outcomes)
    result = engine.run_workload(workload, Store(store_uri(store)), {"budget": budget, "executor": "inline"})
    measured: bench.BenchResult = result.scores
    n_unpaid = sum(row.failures.get("budget", 0) for row in measured.judges)
    left = None
    if n_unpaid:
        known = result.left or {"calls": None, "usd": None}
        left = {"judgments": n_unpaid, "calls": known["calls"], "usd": known["usd"]}
    return replace(
        measured,
        calls=dict(result.calls),
        usd_spent=result.usd["spent"] or 0.0,
        usd_uncertain=result.usd["uncertain"] or 0.0,
        left=left,
        doubted=result.doubted,
        warnings=result.warnings,
    )


@checked
def bench_support_judges(
    file: str | Path,
    judges: Sequence[str] = (),
    store: str | None = None,
    budget: float | None = None,
    *,
    spec: str | None = None,
    untrusted: bool = False,
) -> list[supporting.SupportAgreement]:
    """Compare support judges with people's labels of claims (docs/how-to/citations.md); by default the free judge.

    `budget`: dollars for each judge. Returns a row for each judge and source of the file, and one for all sources together.
    """
    from summhay_ray.benchmarks import support as supporting

    check_budget(budget)
    opened, labels = Store(store_uri(store)), supporting.read_claim_labels(Path(file))
    named = dict.fromkeys(judges or ["offline"])
    # Checks every judge before asking the first.
    workloads = [(name, supporting.load_labelled(Path(file), name, spec, untrusted)) for name in named]
    rows: list[supporting.SupportAgreement] = []
    for name, workload in workloads:
        result = engine.run_workload(workload, opened, {"budget": budget, "executor": "inline"})
        rows += supporting.agreement(name, workload, labels, opened.run(result.run), result.status)
    return rows


@checked
def rejudge(
    run_id: str,
    judges: str | Sequence[str] = (),
    store: str | None = None,
    *,
    spec: str | None = None,
    **options: Unpack[StartOptions],
) -> RunResult:
    """Judge the stored summaries of a run again; the old judgments stay. The same call resumes.

    `judges`: names such as `offline` or `blend(openai/gpt-5.4,offline)`. `spec`: the path of a YAML file with judges and their
    settings. Raises SpecError or StoreError before any call is made.
    """
    from summhay_ray.benchmarks import rejudge as rejudging

    named = (judges,) if isinstance(judges, str) else tuple(judges)
    start = run_options(options)
    request = rejudging.RejudgeRequest(named, spec, tuple(options["overrides"]), options["untrusted"])
    source = opened_run(run_id, store)
    source.store.files.check()

    def by_free_judge(free: rejudging.Rejudge) -> RunStore:
        return source.store.run(engine.run_workload(free, source.store, {**start, "budget": None}).run)

    with own_code_allowed(not request.untrusted):
        workload = rejudging.load_rejudge(source, request)
        spend = workload.spec.budget_usd if start["budget"] is None else start["budget"]
        rejudging.check_budget(workload, request, spend)
        # A rejudge that has already started may need no more calls.
        begun = source.store.files.exists(f"runs/{workload.run_id}/run.json")
        if start["address"] is None and not begun and (missing := engine.missing_keys(workload)):
            raise UserError(f"{missing[0]}; nothing was asked")
        workload = rejudging.with_cascades(workload, request, spend, by_free_judge)
    return engine.run_workload(workload, source.store, start)


@checked
def support(
    what: str | Path,
    judge: str = "",
    store: str | None = None,
    *,
    documents: str | Path | None = None,
    per: Literal["citation", "bullet"] = "citation",
    **options: Unpack[StartOptions],
) -> RunResult:
    """Judge, without gold, whether the cited documents support the claims that cite them. The same call resumes.

    `what`: a run's id, or a file of answers in JSON lines, which cite `documents`, a folder, or their own passages
    (docs/how-to/citations.md). `judge`: by default the free `offline/support-judge`; a model, `nli/NAME`, or a cascade or panel
    of them. `per`: what one question to a model covers. Raises SpecError or StoreError before any call is made.
    """
    from summhay_ray.benchmarks import support as supporting

    start = run_options(options)
    request = supporting.SupportRequest(judge or supporting.SUPPORT_JUDGE, per)
    if documents is None and not Path(what).is_file():
        request = replace(request, run=opened_run(str(what), store))
    else:
        request = replace(request, answers=str(what), documents=str(documents or ""))
    loaded = load_with(supporting.support_fields(request), store, options)
    return engine.run_workload(loaded, store_of(loaded, store), start)


@checked
def recite(run_id: str, store: str | None = None, *, mode: Literal["both", "drop", "add"] = "both") -> supporting.ReciteResult:
    """Copy a run's summaries with citations repaired by the free support judge into a new run, without any call.

    `mode`: drop unsupported citations, add supported ones, or both. Coverage judgments carry over. Raises UserError.
    """
    from summhay_ray.benchmarks import support as supporting

    return supporting.recite_run(opened_run(run_id, store), mode)
