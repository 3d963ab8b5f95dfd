"""Information coverage for any benchmark: the share of a context that its question needs (ETHIC, section 2.3 and appendix A)."""

from summhay_ray.benchmarks.coverage.workload import Coverage, coverage_fields

__all__ = ["Coverage", "coverage_fields"]
