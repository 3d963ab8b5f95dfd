"""Compare systems by their scores query by query: is a difference real, and which system is the best?

This package serves every benchmark that reports its systems' scores by query (`Workload.by_query`), for `summhay compare` and
the report. `benchmark`, the benchmarks, the report and the API may import it.
"""

from summhay_ray.comparison.compare import compare_pairs, compare_runs, every_pair
from summhay_ray.comparison.decision import SystemDecision
from summhay_ray.comparison.leaderboard import ENDS, SystemComparison, decision_section, leaderboard_section
from summhay_ray.comparison.run_scores import Estimate, RunScores, Unbiased, by_factor
from summhay_ray.comparison.sections import comparison_sections, screen_sections

__all__ = [
    "ENDS",
    "Estimate",
    "RunScores",
    "SystemComparison",
    "SystemDecision",
    "Unbiased",
    "by_factor",
    "compare_pairs",
    "compare_runs",
    "comparison_sections",
    "decision_section",
    "every_pair",
    "leaderboard_section",
    "screen_sections",
]
