"""The citations room: which documents say what a bullet says, which it cites, and the same bullet with its citations repaired.

By words alone: it asks no model. For the benchmarks. Citations are read by `extract_citations` in `metrics/citation_parsing.py`,
here as for the paper's scores; their precision and recall are computed in `metrics/coverage_citation_joint.py`.
"""

from summhay_ray.citations.citing import Cited, Mode, is_heading, recited
from summhay_ray.citations.corpus import CitedCorpora, CitedDocuments
from summhay_ray.citations.support_judge import (
    PARTLY,
    SUPPORT_JUDGE,
    SUPPORT_REVISION,
    SUPPORTED,
    SupportIndex,
    Supports,
    verdict_of,
)

__all__ = [
    "PARTLY",
    "SUPPORTED",
    "SUPPORT_JUDGE",
    "SUPPORT_REVISION",
    "Cited",
    "CitedCorpora",
    "CitedDocuments",
    "Mode",
    "SupportIndex",
    "Supports",
    "is_heading",
    "recited",
    "verdict_of",
]
