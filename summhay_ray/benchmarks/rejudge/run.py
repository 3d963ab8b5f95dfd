"""A rejudge whose cascades know which insights to ask about: the free judge first judges all summaries, in a separate run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from summhay_ray.benchmark import RunStore
from summhay_ray.benchmarks.rejudge.cascade import Uncertain, affordable, cascades_of, is_open, with_share
from summhay_ray.benchmarks.rejudge.workload import Rejudge, RejudgeRequest, free_of, load_rejudge
from summhay_ray.errors import SpecError
from summhay_ray.judge import DEFAULT_SHARE, parse_name


def check_budget(workload: Rejudge, request: RejudgeRequest, budget_usd: float | None) -> None:
    """Raises SpecError if a budget chooses a cascade's share while it also pays for another judge."""
    open_names = [name for name in request.judges if is_open(name)] if budget_usd is not None else []
    models = workload.models.settings()
    paid = [one for one in workload.spec.judges if not all(models[part.model].local for part in workload.spec.parts([one]))]
    if open_names and len(paid) > 1:
        raise SpecError(f"with --budget, {open_names[0]} is to be the only judge that is paid; give it a share, or judge apart")


def with_cascades(
    workload: Rejudge, request: RejudgeRequest, budget_usd: float | None, by_free_judge: Callable[[Rejudge], RunStore]
) -> Rejudge:
    """The workload, with the insights that its cascades ask about. `by_free_judge` runs the free judge for them at no cost."""
    if not cascades_of(workload):
        return workload
    free_workload = free_of(workload)
    [judging] = free_workload.spec.judges
    free = Uncertain.of(by_free_judge(free_workload), judging.label)
    bought: dict[str, tuple[float, float]] = {}
    for name in (name for name in request.judges if is_open(name) and budget_usd is not None):
        spec, _ = cascades_of(workload)[parse_name(name).text]
        share, *usd = affordable(workload, spec, free, budget_usd or 0.0)
        request = replace(request, judges=tuple(with_share(name, share) if judge == name else judge for judge in request.judges))
        bought[with_share(name, share)] = (usd[0], usd[1])
    if bought:
        workload = load_rejudge(workload.judged.run, request)
    cascades = [named for _, named in cascades_of(workload).values()]
    choices = [free.choice(named.text, DEFAULT_SHARE if named.share is None else named.share) for named in cascades]
    for place, choice in enumerate(choices):
        if choice.judge in bought:
            expected, most = bought[choice.judge]
            choices[place] = replace(choice, by_budget=True, usd_expected=expected, usd_max=most)
    workload.chosen = {choice: free.asked(choice.share) for choice in choices}
    return workload
