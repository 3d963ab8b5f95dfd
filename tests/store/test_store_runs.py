"""Commits: what several writers finish, in whatever order and batches, is read as one table."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summhay_ray.records import Failure, Judgment, RawAnswer, Summary
from summhay_ray.store import RunStore, Store, StoreError

pytestmark = pytest.mark.core


def new_run(root: Path, run_id: str = "run") -> RunStore:
    return Store(str(root)).create_run(run_id, {"kind": "grid"})


def commit_cells(run: RunStore, cells: Iterable[str], generation: int = 1, failed: Iterable[str] = (), word: str = "") -> None:
    """One commit: a summary and a judgment for each cell; the failed have a failure that may be tried again."""
    done, lost = [cell for cell in cells if cell not in set(failed)], list(failed)
    rows = {
        "summaries": [Summary(c, "h", "s", "sys", "bm25", "given", "m", 0, "x", f"key-{c}", (f"{word}{c}",)) for c in done],
        "judgments": [Judgment(c, "j", "i", 0, f"jkey-{c}", "NO_COVERAGE", '"NA"') for c in done],
        "raw_answers": [RawAnswer(f"key-{c}", "m", c, "stop", 1, 0, 1, 1, 1) for c in done],
        "failures": [Failure(c, "summarize", "", "", "failed", "timeout", "m", f"key-{c}", 1, 1) for c in lost],
    }
    run.commit("cell", generation, rows, {**dict.fromkeys(done, False), **dict.fromkeys(lost, True)})


def batches(cells: list[str], size: int) -> Iterable[list[str]]:
    return (cells[start : start + size] for start in range(0, len(cells), size))


CELLS = [f"c{number}" for number in range(7)]


@settings(max_examples=8, deadline=None)
@given(size=st.integers(1, 7), other=st.integers(1, 7), order=st.permutations(CELLS))
def test_two_drivers_with_other_batches_give_the_tables_of_one(
    tmp_path_factory: pytest.TempPathFactory, size: int, other: int, order: list[str]
) -> None:
    alone, both = new_run(tmp_path_factory.mktemp("alone")), new_run(tmp_path_factory.mktemp("both"))
    commit_cells(alone, CELLS)
    for one, two in itertools.zip_longest(batches(CELLS, size), batches(order, other)):
        for batch in (one, two):
            if batch:
                commit_cells(both, batch)
    assert both.digests() == alone.digests()
    assert both.finished("cell") == alone.finished("cell") == dict.fromkeys(CELLS, False)


def test_a_retry_supersedes_the_failure_and_what_came_with_it(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert run.next_generation() == 1
    commit_cells(run, ["a"], failed=["b", "c"])
    assert run.finished("cell") == {"a": False, "b": True, "c": True} and run.next_generation() == 2
    commit_cells(run, ["b"], generation=2, failed=["c"], word="again ")
    assert run.finished("cell") == {"a": False, "b": False, "c": True}
    assert run.table("summaries")["bullets"].to_list() == [["a"], ["again b"]]
    assert run.table("failures")["cell_id"].to_list() == ["c"] and run.next_generation() == 3
    commit_cells(run, ["c"], generation=3)
    assert run.table("failures").height == 0 and run.table("summaries").height == 3


def test_the_highest_generation_counts_whoever_writes_last(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    commit_cells(run, ["a"], generation=12, word="new ")
    commit_cells(run, ["a", "b"], generation=9, word="old ")
    assert run.table("summaries")["bullets"].to_list() == [["new a"], ["old b"]]


def test_of_one_generation_the_first_name_counts_for_all_tables(tmp_path: Path) -> None:
    first, second = new_run(tmp_path / "1"), new_run(tmp_path / "2")
    for run, words in ((first, ("x ", "y ")), (second, ("y ", "x "))):
        for word in words:
            commit_cells(run, ["a", "b"], word=word)
    assert first.digests() == second.digests()
    words = {bullets[0].split()[0] for bullets in first.table("summaries")["bullets"].to_list()}
    assert len(words) == 1


def test_the_same_commit_twice_is_one(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    commit_cells(run, ["a"])
    commit_cells(run, ["a"])
    assert len(list(run.commits())) == 1 and run.table("summaries").height == 1
    assert list(run.commits("context")) == [] and len(list(run.commits("cell"))) == 1


def test_parts_without_a_commit_and_foreign_files_are_not_read(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    commit_cells(run, ["a"])
    known = run.digests()
    folder = tmp_path / "runs" / "run"
    commit_cells(new_run(tmp_path / "elsewhere"), ["b"])
    for part in (tmp_path / "elsewhere" / "runs" / "run" / "parts").iterdir():
        (folder / "parts" / part.name).write_bytes(part.read_bytes())
    (folder / "commits" / "notes.json").write_text("{}")
    assert run.digests() == known


@pytest.mark.parametrize("damage", ["flip", "cut", "delete"])
def test_a_damaged_part_is_refused_and_says_how_to_mend_it(tmp_path: Path, damage: str) -> None:
    run = new_run(tmp_path)
    commit_cells(run, ["a", "b"])
    known = run.digests()
    part = next((tmp_path / "runs/run/parts").glob("*.summaries.parquet"))
    content = part.read_bytes()
    for place in range(0, len(content), 97):
        flipped = bytes([*content[:place], content[place] ^ 1, *content[place + 1 :]])
        part.write_bytes({"flip": flipped, "cut": content[:place], "delete": b""}[damage])
        if damage == "delete":
            part.unlink()
        with pytest.raises(StoreError, match="absent or damaged; delete it and runs/run/commits/") as refused:
            run.table("summaries")
    commit = tmp_path / next(word for word in str(refused.value).replace(",", " ").split() if "/commits/" in word)
    part.unlink(missing_ok=True)
    commit.unlink()
    commit_cells(run, ["a", "b"])
    assert run.digests() == known


def test_a_damaged_commit_is_refused(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    commit_cells(run, ["a"])
    record = next((tmp_path / "runs/run/commits").iterdir())
    record.write_bytes(record.read_bytes().replace(b'"a"', b'"b"'))
    with pytest.raises(StoreError, match="is damaged; delete it and run again"):
        run.finished("cell")


def test_objects_are_kept_once_and_checked(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    digest = store.put_object("haystack", b"content")
    assert store.put_object("haystack", b"content") == digest
    assert store.get_object("haystack", digest) == b"content"
    with pytest.raises(StoreError, match="has no haystack 0000"):
        store.get_object("haystack", "0000")
    file = tmp_path / "objects" / "haystack" / digest
    file.write_bytes(b"c0ntent")
    with pytest.raises(StoreError, match=f"objects/haystack/{digest} is damaged; delete it"):
        store.get_object("haystack", digest)
    file.unlink()
    store.put_object("haystack", b"content")
    assert store.get_object("haystack", digest) == b"content"


def test_unknown_runs_are_refused_and_the_known_named(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for run_id in ("r2", "r1"):
        store.create_run(run_id, {})
    (tmp_path / "runs" / "unfinished").mkdir()
    assert store.run_ids() == ["r1", "r2"]
    for unknown in ("r3", "", "../runs/r1", ".", ".."):
        with pytest.raises(StoreError, match="it has: r1, r2"):
            store.run(unknown)
    with pytest.raises(StoreError, match="it has: none"):
        Store(str(tmp_path / "empty")).run("r1")


def test_the_first_creator_of_a_run_writes_its_record(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.create_run("r", {"cells": 1})
    assert store.create_run("r", {"cells": 2}).record == {"cells": 1} == store.run("r").record


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps({"format": 2}), "format 2 is newer than this version reads"),
        (json.dumps({"format": "x"}), "names no format"),
        ("{", "is damaged"),
        ("[]", "is damaged"),
    ],
)
def test_a_store_of_another_format_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "format.json").write_text(content)
    with pytest.raises(StoreError, match=message) as refused:
        Store(str(tmp_path))
    assert "\n" not in str(refused.value)


def test_a_damaged_run_record_is_refused(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    (tmp_path / "runs" / "run" / "run.json").write_bytes(b"\xff{")
    with pytest.raises(StoreError, match=r"run\.json is damaged"):
        _ = run.record
