"""Information coverage (ETHIC, section 2.3 and appendix A): the share of its context that a question needs, for any benchmark."""

from summhay_ray.benchmarks.coverage.run import coverage_fields
from summhay_ray.benchmarks.coverage.workload import Coverage

__all__ = ["Coverage", "coverage_fields"]
