"""Folders of every layout as collections, and the warnings about them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from odsum_collections import QUERIES, beir, meetings, own, stories

from summhay_ray.benchmarks.odsum import Collection, read_collection
from summhay_ray.benchmarks.odsum.reading import meeting_splits
from summhay_ray.errors import SpecError

pytestmark = pytest.mark.core

SHARED = Path(__file__).resolve().parents[4] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is absent: no ODSum data, no reference figures")


def test_raw_meetings_keep_blank_documents_and_the_order_of_gold(tmp_path: Path) -> None:
    found = read_collection(meetings(tmp_path / "m"), "m")
    assert [one.document_id for one in found.documents] == ["m1", "m2", "m3", "m4"]
    assert found.by_id["1"].gold == ("m4", "m1") and found.by_id["2"].references == ("Summary: nothing was said.",)
    assert found.warnings[:2] == (
        "1 of 4 documents are blank; drop_blank: true takes them out: m3",
        "gold points at a blank document: 1 (2)",
    )
    assert "MIT" in found.attribution


def test_dropped_blank_documents_leave_the_index_and_gold(tmp_path: Path) -> None:
    found = read_collection(meetings(tmp_path / "m"), "m").drop_blank()
    assert [one.document_id for one in found.documents] == ["m1", "m2", "m4"]
    assert found.by_id["2"].gold == ("m2",)
    assert found.warnings == ("1 blank documents were dropped, from gold too",)


def test_raw_stories_are_split_into_parts_in_the_releases_order(tmp_path: Path) -> None:
    found = read_collection(stories(tmp_path / "s"), "s")
    assert [one.document_id for one in found.documents][:4] == ["train/11#0", "train/11#1", "train/11#2", "train/12#0"]
    assert [one.split for one in found.documents][::3] == ["train", "train", "test", "dev"]
    query = found.by_id["13-2"]
    assert query.gold == ("test/13#0", "test/13#1", "test/13#2") and len(query.references) == 4 and query.split == "test"
    assert len(found.of_splits(["dev"]).queries) == 2 and len(found.of_splits(["dev"]).documents) == 12


def test_beir_and_ones_own_need_neither_references_nor_gold(tmp_path: Path) -> None:
    found = read_collection(beir(tmp_path / "b"), "b")
    assert found.documents[0].text == "Ferry It is late."
    assert [(one.query_id, one.gold, one.references, one.split) for one in found.queries] == [
        ("q1", ("d1",), ("It is late.",), "test"),
        ("q2", ("d2",), (), "test"),
    ]
    mine = read_collection(own(tmp_path / "o"), "o")
    assert [(one.query_id, one.gold, one.references) for one in mine.queries] == [("1", ("b",), ("In May.",)), ("2", (), ())]
    assert mine.attribution == "Made for a test." and "no gold document: retrieval is not scored: 1 (2)" in mine.warnings


def test_a_split_of_ones_own_is_kept_and_a_split_that_no_query_is_of_is_told(tmp_path: Path) -> None:
    (beir(tmp_path / "b") / "qrels" / "test.tsv").rename(tmp_path / "b" / "qrels" / "hard.tsv")
    found = read_collection(tmp_path / "b", "b")
    assert [one.split for one in found.queries] == ["hard", "hard"] and found.of_splits(None) is found
    assert len(found.of_splits(["hard"]).queries) == 2
    with pytest.raises(ValueError, match="splits: no query belongs to 'test'"):
        found.of_splits(["hard", "test"])


@pytest.mark.parametrize("make", [meetings, stories, beir, own])
def test_what_the_store_keeps_is_the_same_collection(tmp_path: Path, make: object) -> None:
    found = read_collection(make(tmp_path / "c"), "c")  # type: ignore[operator]
    again = Collection.from_bytes(found.to_bytes())
    assert again == found and again.digest == found.digest


@pytest.mark.parametrize(
    "change,message",
    [
        ({"0": {**QUERIES["0"], "answer": 3}}, "queries.json: query '0': answer: expected text, found 3"),
        ({"0": {**QUERIES["0"], "meetings_list": "m1"}}, "meetings_list: expected a list"),
        ({"0": []}, r"query '0': expected an object, found \[\]"),
        ([], "expected an object of query id to query"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(tmp_path: Path, change: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read_collection(meetings(tmp_path / "m", change), "m")


def test_odd_lines_files_and_folders_are_one_line_each(tmp_path: Path) -> None:
    folder = stories(tmp_path / "s")
    with (folder / "queries.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps([{"title": "NOBODY", "question_text": "?", "responses": [], "question_number": 1}]))
    with pytest.raises(SpecError, match=r"queries.jsonl:5: title: no story is called 'NOBODY'"):
        read_collection(folder, "s")
    (folder / "queries.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(SpecError, match=r"queries.jsonl:1: is no JSON"):
        read_collection(folder, "s")
    with pytest.raises(SpecError, match="has no known format"):
        read_collection(tmp_path, "nothing")
    with pytest.raises(SpecError, match="no folder 'nowhere'"):
        read_collection(tmp_path / "nowhere", "nowhere")
    (tmp_path / "m").mkdir()
    unknown = {"0": {**QUERIES["0"], "meetings_list": ["m9"]}}
    told = read_collection(meetings(tmp_path / "m" / "x", unknown), "x").warnings
    assert any("is not there (" in one and one.endswith(": 1 (0)") for one in told)


def test_ids_that_stand_twice_are_named_and_texts_are_read_as_text(tmp_path: Path) -> None:
    folder = stories(tmp_path / "s")
    (folder / "documents" / "test.jsonl").write_text((folder / "documents" / "dev.jsonl").read_text("utf-8"), encoding="utf-8")
    with pytest.raises(SpecError, match=r"dev.jsonl:1: title: 'STORY 14' repeats an earlier story's"):
        read_collection(folder, "s")
    lines = (stories(tmp_path / "t") / "queries.jsonl").read_text("utf-8")
    (tmp_path / "t" / "queries.jsonl").write_text(lines + lines.splitlines()[0], encoding="utf-8")
    with pytest.raises(SpecError, match="two queries have the id '11-1'"):
        read_collection(tmp_path / "t", "t")
    mine = own(tmp_path / "o")
    (mine / "a.txt").write_bytes(b"\xef\xbb\xbfOne line,\r\nand another.")
    assert read_collection(mine, "o").documents[0].text == "One line,\nand another."
    (mine / "a.txt").write_bytes(b"\xff")
    with pytest.raises(SpecError, match="a.txt: is not UTF-8 text"):
        read_collection(mine, "o")


@needs_shared
def test_the_released_split_of_meetings_is_reproduced() -> None:
    released = json.loads((SHARED / "benchmarks/odsum/meeting_splits.json").read_text("utf-8"))
    split_of = meeting_splits(list(json.loads((SHARED / "data/odsum_meeting/queries.json").read_text("utf-8"))))
    for name, ids in released.items():
        assert [query for query, split in split_of.items() if split == name] == list(map(str, ids))


@needs_shared
def test_the_given_stories_are_read_with_their_blank_parts() -> None:
    found = read_collection(SHARED / "data/odsum_story_train", "stories")
    assert (len(found.documents), len(found.queries), sum(one.blank for one in found.documents)) == (476, 250, 17)
    assert len(found.drop_blank().documents) == 459


@pytest.mark.parametrize("field", ["query_id", "text", "references", "gold", "split"])
def test_half_a_character_is_refused_wherever_it_stands(tmp_path: Path, field: str) -> None:
    folder = own(tmp_path / "o")
    line = {"query_id": "9", "text": "?", "references": [], "gold": [], "split": ""}
    half = "half \ud83d"
    (folder / "queries.jsonl").write_text(json.dumps({**line, field: [half] if isinstance(line[field], list) else half}))
    with pytest.raises(SpecError, match=r"queries.jsonl:1: .*lone surrogate .ud83d"):
        read_collection(folder, "o")


def test_a_name_that_is_not_utf_8_and_a_query_that_is_none_are_refused(tmp_path: Path) -> None:
    folder = own(tmp_path / "o")
    odd = Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt"))
    odd.write_text("A text.")
    with pytest.raises(SpecError, match=r"udcff.txt': the name is not UTF-8"):
        read_collection(folder, "o")
    odd.unlink()
    (folder / "queries.jsonl").write_text(json.dumps({"query_id": "9", "text": "why? " * 8_000_000}))
    began = time.monotonic()
    with pytest.raises(SpecError, match="query '9': has 40,000,000 characters, and a query at most 1,000,000"):
        read_collection(folder, "o")
    assert time.monotonic() - began < 20
