"""The mine room: from documents to a haystack, by words alone: reads a folder, and finds the insights that recur in it,
with every document that says each. For the benchmarks."""

from summhay_ray.mine.haystack import COLUMNS, Kept, accepted, doubts_first, haystack_json, kept_insights
from summhay_ray.mine.insights import WORDS, Evidence, Mined
from summhay_ray.mine.merging import may_be_one, merged
from summhay_ray.mine.mining import Mining, Step, mine
from summhay_ray.mine.reading import LARGEST_FOLDER, Source, Unread, read_folder, read_table
from summhay_ray.mine.statements import DocumentClaim, language_of
from summhay_ray.mine.subtopics import Grouped, group_insights

__all__ = [
    "COLUMNS",
    "LARGEST_FOLDER",
    "WORDS",
    "DocumentClaim",
    "Evidence",
    "Grouped",
    "Kept",
    "Mined",
    "Mining",
    "Source",
    "Step",
    "Unread",
    "accepted",
    "doubts_first",
    "group_insights",
    "haystack_json",
    "kept_insights",
    "language_of",
    "may_be_one",
    "merged",
    "mine",
    "read_folder",
    "read_table",
]
