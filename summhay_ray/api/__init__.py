"""The Python API: each command as a function that returns a typed result. Used as `summhay_ray.run` and so on."""

from summhay_ray.api.haystacks import accept, audit, audited, import_collection, import_released, mine, read_text, synth, verify
from summhay_ray.api.judging import bench_support_judges, judge_bench, recite, rejudge, support
from summhay_ray.api.opened import load, store_uri
from summhay_ray.api.scores import compare, compare_systems, label, make_report, results, score
from summhay_ray.api.specs import coverage, doctor, plan, run, submit
from summhay_ray.api.stores import (
    clean,
    explain,
    export,
    export_tables,
    failures,
    full_id,
    release,
    runs,
    status,
    stop,
    table,
)

__all__ = [
    "accept",
    "audit",
    "audited",
    "bench_support_judges",
    "clean",
    "compare",
    "compare_systems",
    "coverage",
    "doctor",
    "explain",
    "export",
    "export_tables",
    "failures",
    "full_id",
    "import_collection",
    "import_released",
    "judge_bench",
    "label",
    "load",
    "make_report",
    "mine",
    "plan",
    "read_text",
    "recite",
    "rejudge",
    "release",
    "results",
    "run",
    "runs",
    "score",
    "status",
    "stop",
    "store_uri",
    "submit",
    "support",
    "synth",
    "table",
    "verify",
]
