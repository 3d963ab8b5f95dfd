"""Extract-then-Evaluate (Wu, Iso et al., EACL 2024): do judges of long summaries need the whole source?

`extract`, `correlations` and `choose` can be used on their own. `kind: extract_evaluate` in a spec runs the whole benchmark.
"""

from summhay_ray.benchmarks.extract_evaluate.agreement import RaterComparison, compare_raters
from summhay_ray.benchmarks.extract_evaluate.choice import Cell, choose
from summhay_ray.benchmarks.extract_evaluate.data import Pair, read_pairs
from summhay_ray.benchmarks.extract_evaluate.spec import ExtractEvaluateSpec
from summhay_ray.benchmarks.extract_evaluate.workload import ExtractEvaluate
from summhay_ray.extract import Extract, extract
from summhay_ray.metrics import Correlations, correlations

__all__ = [
    "Cell",
    "Correlations",
    "Extract",
    "ExtractEvaluate",
    "ExtractEvaluateSpec",
    "Pair",
    "RaterComparison",
    "choose",
    "compare_raters",
    "correlations",
    "extract",
    "read_pairs",
]
