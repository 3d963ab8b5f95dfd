"""The support room: which documents say what a bullet says, which it cites, and the same bullet with its citations repaired.

By words alone: it asks no model. For the benchmarks.
"""

from summhay_ray.support.citing import Cited, Mode, is_heading, recited
from summhay_ray.support.corpus import Corpus, CorpusIndexes
from summhay_ray.support.index import PARTLY, SUPPORT_JUDGE, SUPPORTED, SupportIndex, Supports, verdict_of

__all__ = [
    "PARTLY",
    "SUPPORTED",
    "SUPPORT_JUDGE",
    "Cited",
    "Corpus",
    "CorpusIndexes",
    "Mode",
    "SupportIndex",
    "Supports",
    "is_heading",
    "recited",
    "verdict_of",
]
