"""Summary of a Haystack (Laban et al., 2024): retrieve, summarize with citations, judge coverage, score (sections 3.3 to 5).

README.md says which section of the paper is in which file. `api` and the other benchmarks on haystacks import the names below.
"""

from summhay_ray.benchmarks.summhay.grid.retrieval import HaystackRetrieval
from summhay_ray.benchmarks.summhay.haystacks.export import export
from summhay_ray.benchmarks.summhay.haystacks.imports import Import, ImportResult, import_released
from summhay_ray.benchmarks.summhay.haystacks.metadata import TABLES
from summhay_ray.benchmarks.summhay.results.compare import compare_systems, compared_by_record
from summhay_ray.benchmarks.summhay.results.judges import JudgedBy, all_rows, judges_of, read_biases
from summhay_ray.benchmarks.summhay.results.labels import draw_labels, read_labels
from summhay_ray.benchmarks.summhay.results.paper_tables import brief_sections
from summhay_ray.benchmarks.summhay.results.paper_tables import sections as report_sections
from summhay_ray.benchmarks.summhay.results.scores import ScoreResult, score_run
from summhay_ray.benchmarks.summhay.spec import SummhaySpec
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
    "all_rows",
    "brief_sections",
    "compare_systems",
    "compared_by_record",
    "draw_labels",
    "export",
    "import_released",
    "judges_of",
    "read_biases",
    "read_labels",
    "report_sections",
    "score_run",
]
