"""The release's pipeline files, mapped back to the ids that they lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from odsum_collections import MEETINGS, QUERIES, meetings

from summhay_ray.benchmark import SpecError
from summhay_ray.benchmarks.odsum import pipeline_run, read_collection
from summhay_ray.retrieve import read_run

pytestmark = pytest.mark.core


def test_queries_and_documents_are_found_by_their_texts(tmp_path: Path) -> None:
    collection = read_collection(meetings(tmp_path / "m"), "m")
    entries = [
        {"Query": QUERIES["0"]["query"], "Summary": "", "Article": f"{MEETINGS['m2']} <doc-sep> {MEETINGS['m1']}"},
        # As the story's sparse files are: other words for the query, no quotes and newlines, a separator at the end.
        {
            "Query": "Other words.",
            "Summary_1": QUERIES["1"]["answer"],
            "Article": f"{MEETINGS['m4'].replace(' ', '  ')}<doc-sep>",
        },
    ]
    (tmp_path / "test.json").write_text(json.dumps(entries), encoding="utf-8")
    run = pipeline_run(collection, [tmp_path / "test.json"])
    assert read_run(run, "run").keys() == {"0", "1"}
    assert [line.split()[2] for line in run.splitlines()] == ["m2", "m1", "m4"]


def test_what_is_not_in_the_collection_is_named(tmp_path: Path) -> None:
    collection = read_collection(meetings(tmp_path / "m"), "m")
    for entry, message in (
        ({"Query": "Nobody's.", "Article": MEETINGS["m1"]}, "entry 0: the collection has no query with this text"),
        ({"Query": QUERIES["0"]["query"], "Article": "Another text."}, "document 1 of its article is not in the collection"),
        ({"Query": 3, "Article": ""}, "entry 0: Query: expected text"),
    ):
        (tmp_path / "bad.json").write_text(json.dumps([entry]), encoding="utf-8")
        with pytest.raises(SpecError, match=message):
            pipeline_run(collection, [tmp_path / "bad.json"])
