"""The tables of `explain` for a synthesis."""

from __future__ import annotations

import pytest

from summhay_ray.cli.record_tables import MOST_ROWS, explained_tables

pytestmark = pytest.mark.core

CHECK = {"kind": "document_insight", "subject": "d1", "object": "s1-i1", "expected": "yes", "found": "no", "by": "offline"}


def test_what_is_amiss_in_a_haystack_made_no_untruth_and_elsewhere_nobody_says_so() -> None:
    found = {"checks_by_kind": [], "amiss": [{**CHECK, "score": 0.25}], "documents": []}
    [made], [failed] = (explained_tables({**found, "haystack": haystack}) for haystack in ({"name": "ferry"}, None))
    assert made.title == "Unexpected at the end (they corrected the plan, or were not sure enough to count)"
    assert failed.title == "Unexpected at the end", "it may be what failed the topic"
    assert made.rows == failed.rows == (("document_insight", "d1 s1-i1", "yes", "no", "offline", "0.25"),)


def test_a_table_that_is_cut_states_it() -> None:
    one = {"document_id": "d1", "words": 1200, "insights": ["i"], "distractors": [], "corrections": None}
    documents = [{**one, "date": "", "refers_to": []}] * (MOST_ROWS + 1)
    [table] = explained_tables({"checks_by_kind": [], "amiss": [], "documents": documents, "haystack": None})
    assert (table.title, len(table.rows)) == ("Documents (41; the first 40, --json has all)", MOST_ROWS)
    assert table.rows[0] == ("d1", "1,200", "1", "0", "-", "-", "-")
