"""Benchmark support: whether cited documents say what is cited for them, without gold; and summaries with citations repaired."""

from summhay_ray.benchmarks.support.agreement import (
    LabelOptions,
    SupportAgreement,
    agreement_section,
    bench_support,
    holds_labels,
)
from summhay_ray.benchmarks.support.answers import export_rag_answers
from summhay_ray.benchmarks.support.recite import Recite, ReciteResult, recite_run
from summhay_ray.benchmarks.support.request import SupportRequest, support_fields
from summhay_ray.benchmarks.support.spec import SupportSpec
from summhay_ray.benchmarks.support.workload import SupportBench
from summhay_ray.citations import SUPPORT_JUDGE

__all__ = [
    "SUPPORT_JUDGE",
    "LabelOptions",
    "Recite",
    "ReciteResult",
    "SupportAgreement",
    "SupportBench",
    "SupportRequest",
    "SupportSpec",
    "agreement_section",
    "bench_support",
    "export_rag_answers",
    "holds_labels",
    "recite_run",
    "support_fields",
]
