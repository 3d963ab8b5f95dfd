"""Measure judges against annotations: ask those that need calls, inline, and hold them against people."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from summhay_ray.benchmark import Failed, Inputs, Item, Outcome, Request, SpecError
from summhay_ray.benchmarks.judge_bench.result import BenchResult
from summhay_ray.benchmarks.judge_bench.spec import ELSEWHERE, JudgeBenchSpec
from summhay_ray.benchmarks.judge_bench.workload import JudgeBench, Told
from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.engine import RunOptions, RunResult, check_spec, missing_keys, read_fields, run_workload, validated
from summhay_ray.llm import USAGE_NOT_CREDIBLE, RawAnswer
from summhay_ray.loops import run_loop
from summhay_ray.store import Store


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How judges are measured."""

    budget_usd: float | None = None
    """Dollars that these judges never exceed on this file, over all times; None: the spec's, if it has a bound."""
    spec: str | None = None
    """Path of a spec whose judges say how models are reached."""
    held_out: bool = False
    """The free judge with numbers fitted on the file's other topics, topic by topic."""


def bench_judges(path: Path, names: Sequence[str], store: Store, options: BenchOptions = BenchOptions()) -> BenchResult:
    """Measure judges against the annotations at `path`; without names, its stored predictions and the free judge.

    Raises BadAnnotations, SpecError, UnknownName, BadName (nothing was asked then), StoreError, OSError.
    """
    workload = load_bench(path, names, options)
    told = without_asking(workload)
    if told is not None:
        return workload.measured(told)
    if not store.files.exists(f"runs/{workload.run_id}/run.json") and (missing := missing_keys(workload)):
        raise SpecError(f"{missing[0]}; nothing was asked")
    result = run_workload(workload, store, RunOptions(options.budget_usd, "inline"))
    measured: BenchResult = result.scores
    n_unpaid = sum(row.failures.get("budget", 0) for row in measured.judges)
    left = None
    if n_unpaid:
        known = result.left or {"calls": None, "usd": None}
        left = {"judgments": n_unpaid, "calls": known["calls"], "usd": known["usd"]}
    return replace(
        measured,
        calls=dict(result.calls),
        usd_spent=result.usd["spent"] or 0.0,
        left=left,
        doubted=_doubted(workload, result),
        warnings=result.warnings,
    )


def _doubted(workload: JudgeBench, result: RunResult) -> dict[str, str]:
    """Model -> why its usage is not credible."""
    lines = dict(line.split(": ", 1) for line in result.warnings if ": " in line)
    stopped = {model: why for model, why in result.stopped_models.items() if USAGE_NOT_CREDIBLE in why}
    return {**{model: why for model, why in lines.items() if model in workload.settings()}, **stopped}


def without_asking(workload: JudgeBench) -> Told | None:
    """What a person's own judges say where none of them asks a model: they are measured anew each time, and nothing is kept.

    None where a model is to be asked.
    """
    if any(leaf.kind != "code" for _, leaf, _ in workload.parts):
        return None
    return run_loop(lambda: _unasked(workload))


async def _unasked(workload: JudgeBench) -> Told | None:
    asked = False

    async def never(_: Request) -> Outcome[RawAnswer]:
        nonlocal asked
        asked = True
        return Failed("planned", "nothing is asked yet")

    async def judged(item: Item) -> Mapping[int, Any]:
        return {} if asked else await workload.judged(item, never)

    items = list(workload.items())
    # The first alone: most judges that ask do so at once.
    found = [*[await judged(item) for item in items[:1]], *await asyncio.gather(*map(judged, items[1:]))]
    return None if asked else {item.id: one for item, one in zip(items, found, strict=True)}


def load_bench(path: Path, names: Sequence[str], options: BenchOptions) -> JudgeBench:
    """The bench of these judges, with every name checked and nothing asked."""
    fields, folder = read_fields(options.spec) if options.spec else ({}, Path())
    where = options.spec or "judge-bench"
    known = {name: value for name, value in fields.items() if name not in ELSEWHERE}
    own = {"kind": JudgeBench.kind, "file": str(path.absolute()), "names": list(names), "held_out": options.held_out}
    spec = validated(JudgeBenchSpec, {**known, **own}, where)
    check_spec(_of_judges(spec, fields), where, [stage.name for stage in JudgeBench.stages])
    # Whatever else is no regular file is told where it is read.
    if not path.exists():
        raise SpecError(f"{path}: cannot be read: there is no such file; give a file of annotated summaries")
    return JudgeBench(spec, Inputs(folder))


def _of_judges(spec: JudgeBenchSpec, fields: Mapping[str, Any]) -> JudgeBenchSpec:
    """The spec without what a run's spec says of its other stages and of its summarizers: no bench has a use for that."""
    listed = fields.get("summarizers")
    entries = listed if isinstance(listed, list) else []
    writers = {str(one.get("model") if isinstance(one, Mapping) else one) for one in entries}
    others = {stage.name for stage in SummHay.stages} - {stage.name for stage in JudgeBench.stages}
    asked = {one.model for one in spec.judges}
    of_models = ("limits", "model_budgets_usd")
    kept: dict[str, Any] = {
        name: {model: one for model, one in getattr(spec, name).items() if model in asked or model not in writers}
        for name in of_models
    }
    kept["stage_budgets_usd"] = {stage: usd for stage, usd in spec.stage_budgets_usd.items() if stage not in others}
    return spec.model_copy(update=kept)
