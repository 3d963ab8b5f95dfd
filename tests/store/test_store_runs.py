"""Runs in a store: the work of several writers, in any order and batches, is read as one table."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
from run_rows import TABLES, commit, done, lost, new_run, watched_run

from summhay_ray.llm import RawAnswer
from summhay_ray.store import RUN_FORMAT, Finished, RunStore, Store, StoreError, Table, columns_of, with_hash

pytestmark = pytest.mark.core


def test_a_success_supersedes_the_failure_and_what_came_with_it(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert (run.version(), run.finished("item"), run.table("failures").height) == (0, {}, 0)
    commit(run, [done("a"), lost("b"), lost("c")])
    assert run.finished("item") == {"a": False, "b": True, "c": True} and run.version() == 1
    commit(run, [done("b", "again "), lost("c")])
    assert run.finished("item") == {"a": False, "b": False, "c": True} and run.version() == 2
    assert run.table("summaries")["bullets"].to_list() == [["a"], ["again b"]]
    assert run.table("failures")["cell_id"].to_list() == ["c"]
    commit(run, [done("c")])
    commit(run, [lost("c")])
    assert run.table("failures").height == 0 and run.table("summaries").height == 3


def test_of_rows_with_one_key_the_first_units_counts_in_any_order(tmp_path: Path) -> None:
    def unit(name: str) -> Finished:
        return Finished(name, {"raw_answers": [RawAnswer("k", "m", f"by {name}", "stop", 1, 0, 1, 0, 1)]})

    for place, order in enumerate(itertools.permutations("abc")):
        run = new_run(tmp_path / str(place))
        for name in order:
            commit(run, [unit(name)])
        assert run.table("raw_answers")["text"].to_list() == ["by a"]
        run.committer(1).finish()
        assert run.table("raw_answers")["text"].to_list() == ["by a"]


def test_a_table_that_a_run_has_not_is_refused_and_those_named_that_it_has(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    message = "run run has no table 'nonsense'; it has: documents, failures, judgments, raw_answers, scores, summaries$"
    for use in (
        lambda: run.table("nonsense"),
        lambda: run.tables(["summaries", "nonsense"]),
        lambda: run.write("item", [Finished("a", {"nonsense": []})]),
    ):
        with pytest.raises(StoreError, match=message):
            use()
    assert (run.version(), list((tmp_path / "runs/run").iterdir())) == (0, [tmp_path / "runs/run/run.json"])


def test_the_same_commit_twice_is_one(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    commit(run, [done("a")])
    commit(run, [done("a")])
    commit(run, [])
    assert (run.version(), run.manifest().added, run.table("summaries").height) == (1, 1, 1)
    with pytest.raises(ValueError, match="one unit at least"):
        run.write("item", [])


def test_a_view_stays_as_it_was(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    nothing = run.at()
    commit(run, [done("a")])
    still = run.at()
    commit(run, [done("b")])
    run.committer(1).finish()
    assert (nothing.version(), nothing.finished("item")) == (0, {})
    assert (still.version(), still.table("summaries").height, run.table("summaries").height) == (1, 1, 2)
    assert still.at().finished("item") == {"a": False} and still.record == run.record


def test_parts_that_no_manifest_names_and_foreign_files_are_not_read(tmp_path: Path) -> None:
    run, _ = watched_run(tmp_path)
    commit(run, [done("a")])
    known = run.digests()
    run.write("item", [done("b")])
    (tmp_path / "runs" / "run" / "commits" / "notes.json").write_text("{}")
    assert run.digests() == known


def test_objects_are_kept_once_and_checked(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    digest = store.put_object("haystack", b"content")
    assert store.put_object("haystack", b"content") == digest
    assert store.get_object("haystack", digest) == b"content"
    missing = "0" * 64
    with pytest.raises(StoreError, match=f"has no haystack {missing}: .* is gone"):
        store.get_object("haystack", missing)
    # A record from somebody else may name anything: no file outside the objects is opened.
    with pytest.raises(StoreError):
        store.get_object("haystack", "../..")
    file = tmp_path / "objects" / "haystack" / digest
    file.write_bytes(b"c0ntent")
    with pytest.raises(StoreError, match=f"objects/haystack/{digest} is damaged"):
        store.get_object("haystack", digest)
    file.unlink()
    store.put_object("haystack", b"content")
    assert store.get_object("haystack", digest) == b"content"


def test_unknown_runs_are_refused_and_the_known_named(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for run_id in ("r2", "r1"):
        store.create_run(run_id, {"kind": "mine"}, ())
    (tmp_path / "runs" / "unfinished").mkdir()
    assert store.run_ids() == ["r1", "r2"]
    for unknown in ("r3", "", "../runs/r1", ".", ".."):
        with pytest.raises(StoreError, match="it has: r1, r2"):
            store.run(unknown)
    with pytest.raises(StoreError, match="it has: none"):
        Store(str(tmp_path / "empty")).run("r1")


@dataclass(frozen=True)
class Guess:
    """A row of a user's table."""

    number: int
    right: bool
    share: float | None = None


GUESSES = Table("guesses", Guess, ("number",))


def test_a_run_describes_its_tables_so_that_whoever_reads_it_needs_no_record(tmp_path: Path) -> None:
    Store(str(tmp_path)).create_run("r", {"kind": "mine"}, [GUESSES]).commit(
        "item", [Finished("a", {"guesses": [Guess(2, True), Guess(10, False, 0.5)]})]
    )
    code = (
        "import sys; from summhay_ray.store import Store; run = Store(sys.argv[1]).run('r'); "
        "print(run.table('guesses').rows(), list(run.digests())); "
        "assert 'summhay_ray.records' not in sys.modules and 'summhay_ray.engine' not in sys.modules"
    )
    read = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True).stdout
    assert read == "[(2, True, None), (10, False, 0.5)] ['guesses']\n"
    assert json.loads((tmp_path / "runs/r/run.json").read_text())["tables"] == [
        {
            "name": "guesses",
            "key": ["number"],
            "columns": [
                {"name": "number", "type": "int64", "nullable": False, "meaning": ""},
                {"name": "right", "type": "bool", "nullable": False, "meaning": ""},
                {"name": "share", "type": "double", "nullable": True, "meaning": ""},
            ],
        }
    ]


def test_parts_of_a_run_that_is_not_there_yet_count_once_it_is(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    parts = RunStore(store, "r", declared=columns_of([GUESSES])).write("item", [Finished("a", {"guesses": [Guess(1, True)]})])
    assert store.run_ids() == []
    run = store.create_run("r", {"kind": "mine"}, [GUESSES])
    run.committer(0).add([parts])
    assert GUESSES.records(run.table("guesses")) == [Guess(1, True)]


def test_a_run_of_an_earlier_version_is_refused_in_one_line(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    (tmp_path / "runs/run/run.json").write_bytes(with_hash({"kind": "grid", "cells": 1}))
    for use in (
        lambda: run.store.run("run").table("summaries"),
        lambda: run.store.run("run").digests(),
        lambda: run.store.run("run").at(),
        lambda: run.store.create_run("run", {"kind": "mine"}, TABLES),
    ):
        with pytest.raises(StoreError, match=f"run run .*reads format {RUN_FORMAT}"):
            use()


def test_a_run_keeps_its_tables_whatever_a_later_version_makes_of_them(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Longer(Guess):
        why: str = ""

    @dataclass(frozen=True)
    class Told:
        number: Annotated[int, "said otherwise"]
        right: bool
        share: float | None

    store = Store(str(tmp_path))
    store.create_run("r", {"kind": "mine"}, [GUESSES])
    other_key = Table("guesses", Guess, ("number", "right"))
    for tables, named in (
        ([Table("guesses", Longer, ("number",))], "guesses"),
        ([other_key], "guesses"),
        ([GUESSES, TABLES[0]], "documents"),
        ([], "guesses"),
    ):
        with pytest.raises(StoreError, match=rf"with other tables \({named}\) than this version writes"):
            store.create_run("r", {"kind": "mine"}, tables)
    assert store.create_run("r", {"kind": "mine"}, [Table("guesses", Told, ("number",))]).declared["guesses"].key == ("number",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps({"format": 4}), r"format 4 is newer than this version reads \(3\); upgrade"),
        (json.dumps({"format": 2}), "format 2 is older than this version reads"),
        (json.dumps({"format": "x"}), "is damaged"),
        ("{", "is damaged"),
        ("[]", "is damaged"),
    ],
)
def test_a_store_of_another_format_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "format.json").write_text(content)
    with pytest.raises(StoreError, match=message) as refused:
        Store(str(tmp_path))
    assert "\n" not in str(refused.value)
