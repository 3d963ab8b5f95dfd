"""Finds the documents that support a bullet and those that it cites, and repairs its citations.

It compares words and calls no model. For the benchmarks. `metrics/citation_parsing.py` reads the citations, as for the paper's
scores; `metrics/coverage_citation_joint.py` computes their precision and recall.
"""

from summhay_ray.citations.corpus import Cited, CitedCorpora, CitedDocuments, Mode, is_heading, repair_citations
from summhay_ray.citations.support_judge import SUPPORT_JUDGE, SUPPORT_REVISION, SUPPORTED, Supports, verdict_of

__all__ = [
    "SUPPORTED",
    "SUPPORT_JUDGE",
    "SUPPORT_REVISION",
    "Cited",
    "CitedCorpora",
    "CitedDocuments",
    "Mode",
    "Supports",
    "is_heading",
    "repair_citations",
    "verdict_of",
]
