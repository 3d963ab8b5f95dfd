"""Judges: measured against people, asked again about stored summaries, and asked about citations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from summhay_ray import engine
from summhay_ray.api.checked import checked
from summhay_ray.api.opened import check_budget, load_with, opened_run, run_options, store_of, store_uri
from summhay_ray.engine import RunResult
from summhay_ray.run_options import StartOptions
from summhay_ray.store import Store

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
    return bench.bench_judges(Path(file), judges, Store(store_uri(store)), bench.BenchOptions(budget, spec, held_out, untrusted))


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
    """Compare support judges with people's labels of claims and their references (docs/citations.md); by default the free judge.

    `budget`: dollars for each judge. Returns a row for each judge and source of the file, and one for all sources together.
    """
    from summhay_ray.benchmarks import support as supporting

    check_budget(budget)
    options = supporting.LabelOptions(budget, spec, untrusted)
    return supporting.bench_support(Path(file), judges or ["offline"], Store(store_uri(store)), options)


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

    `judges`: names such as `offline` or `blend(openai/gpt-4o,offline)`. `spec`: the path of a YAML file with judges and their
    settings. Raises SpecError or StoreError before any call is made.
    """
    from summhay_ray.benchmarks import rejudge as rejudging

    named = (judges,) if isinstance(judges, str) else tuple(judges)
    start = run_options(options)
    overrides, untrusted = tuple(options["overrides"]), options["untrusted"]
    request = rejudging.RejudgeRequest(named, spec, overrides, untrusted)
    return rejudging.rejudge_run(opened_run(run_id, store), request, start)


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
    """Judge, without gold, whether the cited documents say what is cited for them. The same call resumes.

    `what`: a run's id, or a file of answers in JSON lines, which cite `documents`, a folder, or passages of their own
    (docs/citations.md). `judge`: by default the
    free `offline/support-judge`; a model, `nli/NAME`, or a cascade or panel of them. `per`: what a model is asked about at once.
    Raises SpecError or StoreError before any call is made.
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
    """The summaries of a run with their citations repaired by the free support judge, as a run of its own, without any call.

    `mode`: drop what is not supported, add what is, or both. Coverage judgments carry over. Raises UserError.
    """
    from summhay_ray.benchmarks import support as supporting

    return supporting.recite_run(opened_run(run_id, store), mode)
