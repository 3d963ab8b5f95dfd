"""Judge a run's stored summaries again, with other judges (paper, section 4.3). The run itself stays unchanged."""

from summhay_ray.benchmarks.rejudge.cascade import check_budget, with_cascades
from summhay_ray.benchmarks.rejudge.compare import CompareResult, compare_judges
from summhay_ray.benchmarks.rejudge.workload import (
    Choice,
    JudgeCounts,
    Rejudge,
    Rejudged,
    RejudgeRequest,
    RejudgeSpec,
    load_rejudge,
)

__all__ = [
    "Choice",
    "CompareResult",
    "JudgeCounts",
    "Rejudge",
    "RejudgeRequest",
    "RejudgeSpec",
    "Rejudged",
    "check_budget",
    "compare_judges",
    "load_rejudge",
    "with_cascades",
]
