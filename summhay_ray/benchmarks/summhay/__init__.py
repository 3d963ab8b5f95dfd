"""Summary of a Haystack (Laban et al., 2024): retrieve, summarize with citations, judge coverage, score (sections 3.3 to 5).

Start reading in `workload.py`, which defines the benchmark, then in `cell.py`. The other benchmarks on haystacks and `api` import
the names below.
"""

from summhay_ray.benchmarks.summhay.biases import read_biases
from summhay_ray.benchmarks.summhay.compare import compare_systems
from summhay_ray.benchmarks.summhay.export import export
from summhay_ray.benchmarks.summhay.imports import Import, ImportResult, import_released
from summhay_ray.benchmarks.summhay.imports_on_ray import import_files
from summhay_ray.benchmarks.summhay.judges import JudgedBy, all_judgments, judges_of
from summhay_ray.benchmarks.summhay.labels import draw_labels, read_labels
from summhay_ray.benchmarks.summhay.retrieval import HaystackRetrieval
from summhay_ray.benchmarks.summhay.scores import ScoreResult, score_run
from summhay_ray.benchmarks.summhay.spec import SummhaySpec
from summhay_ray.benchmarks.summhay.tables import TABLES
from summhay_ray.benchmarks.summhay.workload import SummHay

__all__ = [
    "TABLES",
    "HaystackRetrieval",
    "Import",
    "ImportResult",
    "JudgedBy",
    "ScoreResult",
    "SummHay",
    "SummhaySpec",
    "all_judgments",
    "compare_systems",
    "draw_labels",
    "export",
    "import_files",
    "import_released",
    "judges_of",
    "read_biases",
    "read_labels",
    "score_run",
]
