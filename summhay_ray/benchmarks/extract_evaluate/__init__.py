"""Extract-then-Evaluate (Wu, Iso et al., EACL 2024): do judges of long summaries need the whole source?"""

from summhay_ray.benchmarks.extract_evaluate.choice import Cell, choose
from summhay_ray.extract import Extract, extract
from summhay_ray.metrics import Correlations, correlations

__all__ = [
    "Cell",
    "Correlations",
    "Extract",
    "choose",
    "correlations",
    "extract",
]
