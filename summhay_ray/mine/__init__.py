"""Makes a haystack from a folder of documents, without a model.

It finds insights that recur in the documents, and for each insight every document with it.
"""

from summhay_ray.mine.haystack import haystack_json, kept_insights
from summhay_ray.mine.insights import WORDS, Evidence, Mined
from summhay_ray.mine.merging import may_be_one, merged
from summhay_ray.mine.mining import MINING_REVISION, USUAL, Mining, ReadText, Step, mine, text_read
from summhay_ray.mine.reading import LARGEST_FOLDER, Source, Unread, read_folder, read_table
from summhay_ray.mine.review import CHECK, REVIEW, Decision, carried, decisions_of, reviewed
from summhay_ray.mine.review_sheet import COLUMNS, decided, review_rows
from summhay_ray.mine.sheets import Row, check_columns, check_new_sheet, read_cells, write_cells
from summhay_ray.mine.statements import DocumentClaim, language_of
from summhay_ray.mine.subtopics import Grouped, group_insights

__all__ = [
    "CHECK",
    "COLUMNS",
    "LARGEST_FOLDER",
    "MINING_REVISION",
    "REVIEW",
    "USUAL",
    "WORDS",
    "Decision",
    "DocumentClaim",
    "Evidence",
    "Grouped",
    "Mined",
    "Mining",
    "ReadText",
    "Row",
    "Source",
    "Step",
    "Unread",
    "carried",
    "check_columns",
    "check_new_sheet",
    "decided",
    "decisions_of",
    "group_insights",
    "haystack_json",
    "kept_insights",
    "language_of",
    "may_be_one",
    "merged",
    "mine",
    "read_cells",
    "read_folder",
    "read_table",
    "review_rows",
    "reviewed",
    "text_read",
    "write_cells",
]
