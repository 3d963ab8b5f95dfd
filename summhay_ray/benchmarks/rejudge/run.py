"""Run a rejudge: judge the summaries of a run that the judges have not judged yet.

For a cascade, the free judge first judges all summaries in a run of its own.
"""

from __future__ import annotations

from dataclasses import replace

from summhay_ray.benchmark import RunResult, RunStore, SpecError, missing_keys, run_workload
from summhay_ray.benchmarks.rejudge.cascade import Uncertain, affordable, cascades_of, is_open, with_share
from summhay_ray.benchmarks.rejudge.workload import Rejudge, RejudgeRequest, free_of, load_rejudge
from summhay_ray.errors import UserError
from summhay_ray.judge import DEFAULT_SHARE, parse_name
from summhay_ray.plugins import own_code_allowed
from summhay_ray.run_options import RunOptions


def rejudge_run(source: RunStore, request: RejudgeRequest, options: RunOptions) -> RunResult:
    """Judge what is not judged yet. Raises SpecError or StoreError before any call, and the errors of any run."""
    source.store.files.check()
    with own_code_allowed(not request.untrusted):
        workload = _chosen(source, request, options)
    return run_workload(workload, source.store, options)


def _chosen(source: RunStore, request: RejudgeRequest, options: RunOptions) -> Rejudge:
    """The workload, with the insights that its cascades ask about. For cascades, runs the free judge first, at no cost."""
    workload = load_rejudge(source, request)
    budget = options.get("budget")
    budget_usd = workload.spec.budget_usd if budget is None else budget
    open_names = [name for name in request.judges if is_open(name)] if budget_usd is not None else []
    models = workload.models.settings()
    paid = [one for one in workload.spec.judges if not all(models[part.model].local for part in workload.spec.parts([one]))]
    if open_names and len(paid) > 1:
        raise SpecError(f"with --budget, {open_names[0]} is to be the only judge that is paid; give it a share, or judge apart")
    _check_keys(workload, options)
    if not cascades_of(workload):
        return workload
    free = _free(workload, options)
    bought: dict[str, tuple[float, float]] = {}
    for name in open_names:
        spec, _ = cascades_of(workload)[parse_name(name).text]
        share, *usd = affordable(workload, spec, free, budget_usd or 0.0)
        request = replace(request, judges=tuple(with_share(name, share) if judge == name else judge for judge in request.judges))
        bought[with_share(name, share)] = (usd[0], usd[1])
    if bought:
        workload = load_rejudge(source, request)
    cascades = [named for _, named in cascades_of(workload).values()]
    choices = [free.choice(named.text, DEFAULT_SHARE if named.share is None else named.share) for named in cascades]
    for place, choice in enumerate(choices):
        if choice.judge in bought:
            expected, most = bought[choice.judge]
            choices[place] = replace(choice, by_budget=True, usd_expected=expected, usd_max=most)
    workload.chosen = {choice: free.asked(choice.share) for choice in choices}
    return workload


def _check_keys(workload: Rejudge, options: RunOptions) -> None:
    """Raises UserError if an API key is missing here. A rejudge that has started is not checked: it may need no more calls."""
    begun = workload.judged.run.store.files.exists(f"runs/{workload.run_id}/run.json")
    if options.get("address") is None and not begun and (missing := missing_keys(workload)):
        raise UserError(f"{missing[0]}; nothing was asked")


def _free(workload: Rejudge, options: RunOptions) -> Uncertain:
    free = free_of(workload)
    result = run_workload(free, workload.judged.run.store, {**options, "budget": None})
    [judging] = free.spec.judges
    return Uncertain.of(workload.judged.run.store.run(result.run), judging.label)
