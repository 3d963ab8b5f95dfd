"""`summhay coverage SPEC`: measure the coverage of a benchmark's questions, without a spec of kind coverage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summhay_ray.benchmark import SpecError
from summhay_ray.benchmarks.coverage.workload import Coverage
from summhay_ray.engine import RunOptions, RunResult, load_workload, read_fields, run_workload
from summhay_ray.store import Store


@dataclass(frozen=True, slots=True)
class CoverageRequest:
    """What to measure. `spec`: path of a benchmark's spec, or of a spec of kind coverage."""

    spec: str
    evaluators: tuple[str, ...] = ()
    """Replace those of the spec; empty: those of the spec."""
    sample: int | None = None
    chunk_tokens: int | None = None
    overrides: tuple[str, ...] = ()
    """Changes of the spec: `a.b=c`."""
    untrusted: bool = False
    """Whether the spec is somebody else's (see `load_workload`)."""


def coverage_run(request: CoverageRequest, store: Store, options: RunOptions = RunOptions()) -> RunResult:
    """Measure what is not measured yet. Raises SpecError before any call is made, and all errors of a run."""
    return run_workload(load_coverage(request, store), store, options)


def load_coverage(request: CoverageRequest, store: Store) -> Coverage:
    """The measurement with its questions drawn; no call is made. Raises SpecError."""
    fields, folder = read_fields(request.spec)
    given = {"sample": request.sample, "chunk_tokens": request.chunk_tokens, "evaluators": list(request.evaluators) or None}
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if fields.get("kind") == Coverage.kind:
        of = fields.get("of")
        placed = {**fields, **({"of": str((folder / of).absolute())} if isinstance(of, str) else {}), **changed}
        workload = load_workload(placed, request.overrides, store, untrusted=request.untrusted, folder=folder)
    else:
        reach = {name: fields[name] for name in ("seed",) if name in fields}
        own = {"kind": Coverage.kind, "name": f"coverage-of-{Path(request.spec).stem}", "of": str(Path(request.spec).absolute())}
        made = {**own, **reach, "overrides": list(request.overrides), **changed}
        workload = load_workload(made, (), store, untrusted=request.untrusted, folder=folder)
    if not isinstance(workload, Coverage):
        raise SpecError(f"{request.spec}: is of kind {workload.kind}; expected a benchmark's spec")
    return workload
