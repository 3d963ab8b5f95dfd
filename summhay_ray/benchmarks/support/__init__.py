"""Benchmark support: whether cited documents say what is cited for them, without gold; and summaries with citations repaired."""

from summhay_ray.benchmarks.support.request import SupportRequest, support_fields
from summhay_ray.benchmarks.support.spec import SupportSpec
from summhay_ray.benchmarks.support.workload import SupportBench

__all__ = ["SupportBench", "SupportRequest", "SupportSpec", "support_fields"]
