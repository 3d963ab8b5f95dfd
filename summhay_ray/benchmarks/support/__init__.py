"""Benchmark support: judge without gold whether cited documents support the claims that cite them, and repair citations."""

from summhay_ray.benchmarks.support.agreement import (
    SupportAgreement,
    agreement,
    agreement_section,
    holds_labels,
    load_labelled,
    read_claim_labels,
)
from summhay_ray.benchmarks.support.answers import export_rag_answers
from summhay_ray.benchmarks.support.recite import Recite, ReciteResult, recite_run
from summhay_ray.benchmarks.support.spec import SupportRequest, support_fields
from summhay_ray.benchmarks.support.workload import SupportBench
from summhay_ray.citations import SUPPORT_JUDGE

__all__ = [
    "SUPPORT_JUDGE",
    "Recite",
    "ReciteResult",
    "SupportAgreement",
    "SupportBench",
    "SupportRequest",
    "agreement",
    "agreement_section",
    "export_rag_answers",
    "holds_labels",
    "load_labelled",
    "read_claim_labels",
    "recite_run",
    "support_fields",
]
