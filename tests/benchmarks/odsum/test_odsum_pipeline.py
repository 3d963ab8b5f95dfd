"""The release's pipeline files have no ids: their texts are mapped to ids again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from odsum_collections import MEETINGS, QUERIES, meetings
from runs import summhay, write_spec

from summhay_ray.benchmarks.odsum import pipeline_run, read_collection
from summhay_ray.errors import SpecError
from summhay_ray.retrieve import read_run

pytestmark = pytest.mark.core

SHARED = Path(__file__).resolve().parents[4] / "shared"


def test_queries_and_documents_are_found_by_their_texts(tmp_path: Path) -> None:
    collection = read_collection(meetings(tmp_path / "m"), "m")
    entries = [
        {"Query": QUERIES["0"]["query"], "Summary": "", "Article": f"{MEETINGS['m2']} <doc-sep> {MEETINGS['m1']}"},
        # Like the sparse files of the stories: other words and white space in the query, and a blank last document.
        {
            "Query": "Other words.",
            "Summary_1": QUERIES["1"]["answer"],
            "Article": f"{MEETINGS['m4'].replace(' ', '  ')}<doc-sep>",
        },
    ]
    (tmp_path / "test.json").write_text(json.dumps(entries), encoding="utf-8")
    run = pipeline_run(collection, [tmp_path / "test.json"])
    assert read_run(run, "run").keys() == {"0", "1"}
    assert [line.split()[2] for line in run.splitlines()] == ["m2", "m1", "m4", "m3"]
    # Nothing blank is retrieved from a collection without a blank document.
    run = pipeline_run(collection.drop_blank(), [tmp_path / "test.json"])
    assert [line.split()[2] for line in run.splitlines()] == ["m2", "m1", "m4"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is absent: no ODSum-meeting")
@pytest.mark.soak
@pytest.mark.parametrize("name", ["dense/MEAN/dev", "dense/MIN/dev"])
def test_released_lists_have_their_blank_documents(tmp_path: Path, name: str) -> None:
    collection = read_collection(SHARED / "data/odsum_meeting", "meetings")
    released = json.loads((SHARED / "benchmarks/odsum/meeting_released_dev.json").read_text("utf-8"))["lists"][name]
    texts = {document.document_id: document.text for document in collection.documents}
    entries = [
        {"Query": collection.by_id[query].text, "Article": "<doc-sep>".join(texts[name] for name in names)}
        for query, names in released["queries"].items()
    ]
    (tmp_path / "dev.json").write_text(json.dumps(entries), encoding="utf-8")
    (tmp_path / "dense.run").write_text(pipeline_run(collection, [tmp_path / "dev.json"]), encoding="utf-8")
    lines = [line.split() for line in (tmp_path / "dense.run").read_text("utf-8").splitlines()]
    assert {query: [line[2] for line in lines if line[0] == query] for query in released["queries"]} == released["queries"]
    k = len(next(iter(released["queries"].values())))
    fields = {"corpus": str(SHARED / "data/odsum_meeting"), "retrievers": [{"run": "dense.run"}], "splits": ["dev"], "k": [k]}
    spec = write_spec(tmp_path, {"kind": "odsum", "executor": "inline", **fields})
    row = summhay("retrieve", spec, "--store", tmp_path / "store")["retrieval"][0]
    assert [100 * row[one] for one in ("precision", "f1", "ndcg", "ap")] == pytest.approx(
        [released["mean"][one] for one in ("P", "F1", "NDCG", "AP")], abs=1e-4
    )


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
