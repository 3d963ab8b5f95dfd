"""Finds the documents that support each bullet, and repairs the bullet's citations.

It compares words and calls no model. `metrics/citation_parsing.py` parses the citations; `metrics/coverage_citation_joint.py`
computes their precision and recall.
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
