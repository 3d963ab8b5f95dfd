"""`summhay coverage SPEC`: the spec that measures the coverage of a benchmark's questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from summhay_ray.benchmarks.coverage.workload import Coverage


def coverage_fields(spec: Path, fields: Mapping[str, Any], given: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The fields of the spec that measures a benchmark; `fields` are those of `spec`, which may already be of kind coverage.

    `given`: replacements for the spec's fields; None keeps the spec's. `overrides`: changes of the benchmark's spec.
    """
    changed = {name: value for name, value in given.items() if value is not None}
    if fields.get("kind") == Coverage.kind:
        of = fields.get("of")
        return {**fields, **({"of": str((spec.parent / of).absolute())} if isinstance(of, str) else {}), **changed}
    own = {"kind": Coverage.kind, "name": f"coverage-of-{spec.stem}", "of": str(spec.absolute()), "overrides": list(overrides)}
    return {**own, **{name: fields[name] for name in ("seed",) if name in fields}, **changed}
