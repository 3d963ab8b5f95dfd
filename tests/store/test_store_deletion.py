"""Deleting answers keeps the log's size, order and money, for every kind of log file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from answers import PURPOSE, answer
from far_files import FarFiles
from run_rows import TABLES

from summhay_ray.store import (
    RUN,
    LocalFiles,
    LogIndex,
    LogWriter,
    Money,
    MoneyRecord,
    Selection,
    Store,
    begin_session,
    damaged_records,
    forget,
)
from summhay_ray.store.money import MoneyRecords

pytestmark = pytest.mark.core

LOST = 'Zoë’s "own" words\n'


def key_of(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def logged(root: Path, files: LocalFiles, numbers: range, **more: Any) -> Store:
    """A store whose log has an answer with a unique text, and the deleted text in the first of its files."""
    store = Store(str(root))
    store.files = files
    store.create_run("run", {"kind": "mine", "name": "n", "cells": 3}, TABLES)
    session = begin_session(files, "run", paying=False)
    writer = LogWriter(files, session.number)
    for number in numbers:
        text = LOST if number == numbers[0] else f"text {number}"
        writer.append([answer(key_of(number), 7, "run", text=f"- {text}", further_texts=[text], **more)])
    writer.close()
    session.end("done")
    return store


def content_of(root: Path) -> str:
    return "".join(path.read_text("ascii") for path in sorted((root / "answers").iterdir()))


@pytest.mark.parametrize("kind", [LocalFiles, FarFiles])
def test_the_files_keep_their_size_and_a_reader_its_places(tmp_path: Path, kind: type[LocalFiles]) -> None:
    files = kind(tmp_path)
    # In a bucket, these are a merged object, its segments, and segments that are merged at the end.
    store = logged(tmp_path, files, range(70), raw={"id": "Zoë"}, logprobs="[1]", cache_write_tokens=3)
    index = store.log()
    sizes = {entry.name: entry.size for entry in files.entries("answers")}
    assert "own" in content_of(tmp_path) and any(name.endswith(".merged") for name in sizes) == (kind is FarFiles)
    deleted = forget(store, Selection(text=LOST.strip()), "item", dry_run=False)
    assert (dict(deleted.answers), deleted.again_micros) == ({"run": 1}, 7)
    assert "own" not in content_of(tmp_path)
    there = {entry.name: entry.size for entry in files.entries("answers")}
    assert there.items() <= sizes.items() and damaged_records(files) == {}

    assert index.read(key_of(0)) is None, "a reader from before finds no answer"
    after = store.log()
    for reader in (index, after) if kind is LocalFiles else (after,):
        assert [reader.read(key_of(number))["text"] for number in range(1, 70)] == [f"- text {n}" for n in range(1, 70)]  # type: ignore[index]
    assert after.read(key_of(0)) is None and after.damaged == 0
    assert after.totals("run")[PURPOSE].usd_micros == 70 * 7 and after.totals("run")[PURPOSE].answers == 70
    assert not forget(store, Selection(text=LOST.strip()), "item", dry_run=False).answers


def test_a_call_that_a_kill_left_open_stays_answered(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    store = logged(tmp_path, files, range(2))
    calls = {key_of(number): (PURPOSE, 50) for number in (0, 5)}
    records = MoneyRecords(files, "run")
    records.append(MoneyRecord(1, False, {}, {}, {}, calls, {RUN: 200, ("stage", PURPOSE[0]): 200, ("model", PURPOSE[1]): 200}))
    before = Money.of(records.newest(), "run", store.log())
    forget(store, Selection(run="run"), "item", dry_run=False)
    after = Money.of(records.newest(), "run", store.log())
    assert (after.spent, after.uncertain, [*after.calls]) == (before.spent, before.uncertain, [key_of(5)])


def test_what_a_killed_writer_left_unfinished_is_deleted(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    store = logged(tmp_path, files, range(3))
    [path] = (tmp_path / "answers").iterdir()
    line = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(path.read_bytes() + line[:-9])
    forget(store, Selection(run="another"), "item", dry_run=True)
    assert path.read_bytes().endswith(line[:-9])
    forget(store, Selection(text=LOST.strip()), "item", dry_run=False)
    assert "own" not in content_of(tmp_path)
    index = LogIndex(files)
    index.refresh()
    assert index.read(key_of(2)) is not None


def test_an_answer_that_was_given_again_keeps_its_items(tmp_path: Path) -> None:
    """Two runs asked the same question at once. While one of the answers exists, both runs keep their rows."""
    store = logged(tmp_path, LocalFiles(tmp_path), range(1))
    writer = LogWriter(store.files, 1)
    writer.append([answer(key_of(0), 7, "another", text="the other")])
    writer.close()
    deleted = forget(store, Selection(run="run"), "item", dry_run=False)
    assert (dict(deleted.answers), dict(deleted.items)) == ({"run": 1}, {})
    found = store.log().read(key_of(0))
    assert found is not None and found["text"] == "the other"
