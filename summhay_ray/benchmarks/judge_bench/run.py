"""The workload of `judge-bench`, from the names on the command line; and user-defined judges that need no model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summhay_ray.benchmark import Inputs, Item, RawAnswer, Request
from summhay_ray.benchmarks.judge_bench.spec import ELSEWHERE, JudgeBenchSpec
from summhay_ray.benchmarks.judge_bench.workload import ItemOutcomes, JudgeBench
from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.errors import SpecError
from summhay_ray.loops import run_loop
from summhay_ray.outcome import Failed, Outcome


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Options of the measurement."""

    spec: str | None = None
    """Path of a spec whose judges define how to reach models."""
    held_out: bool = False
    """Whether the free judge is fitted, for each topic, on the file's other topics."""
    untrusted: bool = False
    """Whether the spec is somebody else's."""


def without_asking(workload: JudgeBench) -> ItemOutcomes | None:
    """The outcomes of all items if none needs a model, as with user-defined judges that call none. None if any item needs one.

    Such judges run again each time, and nothing is stored.
    """
    if any(leaf.kind != "code" for _, leaf, _ in workload.parts):
        return None
    return run_loop(lambda: _without_asking(workload))


async def _without_asking(workload: JudgeBench) -> ItemOutcomes | None:
    needs_model = False

    async def never(_: Request) -> Outcome[RawAnswer]:
        nonlocal needs_model
        needs_model = True
        return Failed("planned", "nothing is asked yet")

    async def judged(item: Item) -> Mapping[int, Any]:
        return {} if needs_model else await workload.judged(item, never)

    items = list(workload.items())
    # Try the first item alone: most judges that call models do so immediately.
    outcomes = [*[await judged(item) for item in items[:1]], *await asyncio.gather(*map(judged, items[1:]))]
    return None if needs_model else {item.id: row for item, row in zip(items, outcomes, strict=True)}


def load_bench(path: Path, names: Sequence[str], options: BenchOptions = BenchOptions()) -> JudgeBench:
    """The workload for these judges; without names, the file's stored predictions and the free judge. Makes no call.

    Raises UserError, SpecError, UnknownName and BadName: every name is checked.
    """
    fields, folder = JudgeBenchSpec.read_fields(options.spec) if options.spec else ({}, Path())
    where = options.spec or "judge-bench"
    known = {name: value for name, value in fields.items() if name not in ELSEWHERE}
    own = {"kind": JudgeBench.kind, "file": str(path.absolute()), "names": list(names), "held_out": options.held_out}
    spec = JudgeBenchSpec.parse({**known, **own}, where)
    judges = _of_judges(spec.model_copy(update={"file": ""}) if options.untrusted else spec, fields)
    judges.check(where, [stage.name for stage in JudgeBench.stages], folder if options.untrusted else None)
    # The reader reports other problems with the file.
    if not path.exists():
        raise SpecError(f"{path}: no such file; give a file of annotated summaries")
    inputs = Inputs(folder, untrusted=options.untrusted)
    if options.untrusted:
        # The user named the annotations on the command line.
        inputs.give(spec.file, Inputs(folder).read(spec.file))
    workload = JudgeBench(spec, inputs)
    try:
        workload.models.settings()
    except SpecError as error:
        reason = str(error).removeprefix("spec: ")
        raise SpecError(f"judge-bench: {reason}; a spec's entry is given with --spec FILE") from error
    return workload


def _of_judges(spec: JudgeBenchSpec, fields: Mapping[str, Any]) -> JudgeBenchSpec:
    """The spec without the limits and budgets that a bench does not use: those of other stages and of summarizers."""
    listed = fields.get("summarizers")
    entries = listed if isinstance(listed, list) else []
    summarizers = {str(entry.get("model") if isinstance(entry, Mapping) else entry) for entry in entries}
    others = {stage.name for stage in SummHay.stages} - {stage.name for stage in JudgeBench.stages}
    judges = {part.model for part in spec.parts()}
    kept: dict[str, Any] = {
        name: {model: value for model, value in getattr(spec, name).items() if model in judges or model not in summarizers}
        for name in ("limits", "model_budgets_usd")
    }
    kept["stage_budgets_usd"] = {stage: usd for stage, usd in spec.stage_budgets_usd.items() if stage not in others}
    return spec.model_copy(update=kept)
