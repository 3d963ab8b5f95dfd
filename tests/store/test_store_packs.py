"""Packs: a reader with them knows what a reader without them knows, from few reads, whenever packing was cut off."""

from __future__ import annotations

import contextlib
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from far_files import FarFiles, Lost, answer, intent, void

from summhay_ray.store import (
    Chain,
    LocalFiles,
    Location,
    LogIndex,
    StoreError,
    begin,
    lost_packs,
    open_log,
    pack,
    read_at,
    seal,
    unneeded,
)
from summhay_ray.store import packs as room
from summhay_ray.store.log_lines import Mark, encode, segment_name

pytestmark = pytest.mark.core


CLAIM = {"claimed_tokens": 900, "claimed_micros": 180, "claimed_margin": 2.5}


@pytest.fixture(autouse=True)
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMMHAY_SPOOL", str(tmp_path / "spool"))


@pytest.fixture
def files(tmp_path: Path) -> FarFiles:
    return FarFiles(tmp_path / "store")


def index_of(files: FarFiles, *, packed: bool = True) -> LogIndex:
    index = LogIndex(FarFiles(files.root), packs=packed)
    index.refresh()
    return index


def told(index: LogIndex, runs: tuple[str, ...] = ("r", "q")) -> dict[str, Any]:
    writers = {writer for run in runs for writer in index.spent_by(run)}
    return {
        "answers": {key: index.read(key) for key in index.answers},
        "damaged": index.damaged,
        "spent": {run: (index.spent(run), index.spent_by(run), index.tallies(run)) for run in runs},
        "excesses": {run: index.excesses(run) for run in runs},
        "unanswered": {writer: index.unanswered(writer) for writer in writers},
    }


def session(files: FarFiles, seed: int, *, seal_one: bool = False) -> int:
    """A session of two seats that writes a bit of everything, and ends."""
    dice, begun = random.Random(seed), begin(files, "r", False, {"calling": 2})
    for seat in ("calling-0", "calling-1", "calling-0"):
        log, me = open_log(files, begun.number, seat), f"{seed}-{seat}-{dice.random()}"
        for number in range(dice.randrange(1, 40)):
            key, run = f"{me}-{number}", dice.choice("rq")
            kind = dice.randrange(6)
            if kind < 4:
                log.append([intent(key, 90, run, stage="judge", model="m")])
            if kind < 2:
                claim = CLAIM if number % 3 == 0 else {}
                used = {"input_tokens": 7, "output_tokens": 2, "text": "x" * number}
                log.append([answer(key, dice.randrange(90), run=run, stage="judge", model="m", **used, **claim)])
            if kind == 2:
                log.append([void(key, 90, run, stage="judge", model="m")])
            if kind > 3:
                # The same free answer may come twice; the first counts.
                log.append([answer(f"free-{number}", run=run, text=key)])
            if dice.random() < 0.2:
                log.flush()
        if seal_one and seat == "calling-1":
            log.flush()
            seal(files, log.writer)
        else:
            log.close()
    begun.end("done")
    return begun.number


def test_with_packs_and_without_the_log_says_the_same(files: FarFiles) -> None:
    for seed in range(6):
        session(files, seed, seal_one=seed % 3 == 1)
        if seed % 2:
            assert pack(files) == 2
            assert told(index_of(files)) == told(index_of(files, packed=False))
    assert pack(files) == 0
    live = session(files, 99)
    index = index_of(files)
    assert told(index) == told(index_of(files, packed=False)) and index._position.session == live
    assert any(location.name.startswith("log/packs/") for location in index.answers.values())


def test_a_follower_goes_on_while_others_pack(files: FarFiles) -> None:
    index = LogIndex(files)
    for seed in range(4):
        index.refresh()
        session(files, seed)
        index.refresh(but={"nobody"})
        assert pack(files) == 1
        index.refresh()
        assert told(index) == told(index_of(files))


def test_who_has_not_ended_is_not_packed(files: FarFiles) -> None:
    first = begin(files, "q", False, {"calling": 1})
    log = open_log(files, first.number, "calling-0")
    log.append([answer("early")])
    log.flush()
    session(files, 1)
    assert pack(files) == 1
    assert told(index_of(files)) == told(index_of(files, packed=False))
    first.end("stopped")
    # Its driver has ended, its writer has not.
    assert pack(files) == 0
    log.append([answer("late")])
    log.close()
    assert {"early", "late"} <= set(index_of(files).answers)
    assert pack(files) == 1 and pack(files) == 0
    body = Chain(files, "log/packs").newest()
    assert body is not None and (body[1]["through"], body[1]["others"]) == (2, [])
    assert told(index_of(files)) == told(index_of(files, packed=False))
    with pytest.raises(OSError, match="is closed"):
        open_log(files, first.number, "calling-0")


@pytest.mark.parametrize(("how", "told"), [("delete", "is gone"), ("flip", "is damaged")])
def test_a_pack_whose_answers_are_lost_is_named(files: FarFiles, how: str, told: str) -> None:
    session(files, 1)
    assert lost_packs(files) == [] and pack(files) == 1 and lost_packs(files) == []
    (path,) = (files.root / "log" / "packs").glob("*.jsonl")
    content = path.read_bytes()
    path.unlink() if how == "delete" else path.write_bytes(content[:-9] + b"?" + content[-8:])
    (line,) = lost_packs(files)
    assert f"{path.name} {told}: " in line


def test_without_packs_what_was_not_cleaned_is_read_and_packed_again(files: FarFiles) -> None:
    for seed in range(3):
        session(files, seed)
        pack(files)
    for file in list(unneeded(files, 0.0)):
        file.delete(files)
    gone = {*index_of(files).answers}
    for seed in range(3, 5):
        session(files, seed)
    later = {*index_of(files).answers} - gone
    shutil.rmtree(files.root / "log" / "packs")
    assert later and later <= {*index_of(files).answers}
    before = told(index_of(files))
    assert pack(files) > 0 and pack(files) == 0 and told(index_of(files)) == before


def test_a_session_whose_record_is_put_back_is_packed_later(files: FarFiles) -> None:
    for seed in range(3):
        session(files, seed)
    record = files.read("drivers/00000002.json")
    expected = told(index_of(files))
    files.delete("drivers/00000002.json")
    assert pack(files) == 2
    files.create("drivers/00000002.json", record)
    assert pack(files) == 1 and told(index_of(files))["answers"] == expected["answers"]


def test_small_packs_become_one(files: FarFiles) -> None:
    for seed in range(10):
        session(files, seed)
        pack(files)
    newest = Chain(files, "log/packs").newest()
    assert newest is not None and newest[0] == 10 and len(newest[1]["packs"]) == 1


def test_no_pack_is_larger_than_it_may_be(files: FarFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SIZE", 3000)
    monkeypatch.setattr(room, "SMALL", 100)
    for seed in range(4):
        session(files, seed)
        pack(files)
    newest = Chain(files, "log/packs").newest()
    assert newest is not None and len(newest[1]["packs"]) > 3
    assert all(one["size"] <= 3000 == room.SIZE for one in newest[1]["packs"])
    assert told(index_of(files)) == told(index_of(files, packed=False))


def test_a_damaged_record_is_told_of_its_own_segment(files: FarFiles) -> None:
    begun = begin(files, "r", False, {"calling": 1})
    log = open_log(files, begun.number, "calling-0")
    for key in "abc":
        log.append([answer(key, 1)])
        log.flush()
    log.close()
    begun.end("done")
    (path,) = (path for path in (files.root / "log").rglob("*.jsonl") if b'"key":"b"' in path.read_bytes())
    path.write_bytes(path.read_bytes().replace(b'"key":"b"', b'"key":"x"'))
    name = str(path.relative_to(files.root))
    assert pack(files) == 1 and not name.endswith("/00000000.jsonl")
    assert dict(index_of(files).damaged_files) == dict(index_of(files, packed=False).damaged_files) == {name: 1}


def test_an_end_in_one_pack_closes_a_call_of_another(files: FarFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SMALL", -1)
    monkeypatch.setattr(room, "_absorbs", lambda now, before: False)
    for record in (intent("a", 90), void("a", 0), intent("b", 50), answer("b", 20)):
        begun = begin(files, "r", False, {"calling": 1})
        log = open_log(files, begun.number, "calling-0")
        log.append([record])
        log.close()
        begun.end("done")
        assert pack(files) == 1
    assert index_of(files).spent("r") == 0 + 20 and told(index_of(files)) == told(index_of(files, packed=False))


@pytest.mark.parametrize("hook", ["before", "after"])
def test_packing_cut_off_anywhere_loses_and_doubles_nothing(files: FarFiles, hook: str) -> None:
    session(files, 1)
    session(files, 2, seal_one=True)
    expected, cut, packed = told(index_of(files, packed=False)), 0, 0
    while not packed:
        again, n = FarFiles(files.root), [0]

        def stop(operation: str, name: str, n: list[int] = n, cut: int = cut) -> None:
            n[0] += 1
            if n[0] > cut:
                raise Lost

        setattr(again, hook, stop)
        with contextlib.suppress(Lost):
            packed = pack(again)
        assert told(index_of(files)) == expected
        cut += 1
        # The chain's record is written before the last operations are.
        if Chain(files, "log/packs").read(1) is not None:
            break
    assert cut > 20 and pack(files) == 0 and told(index_of(files)) == expected


def test_two_who_pack_at_once(files: FarFiles) -> None:
    session(files, 1)
    again = FarFiles(files.root)
    other: list[int] = []

    def first(operation: str, name: str) -> None:
        if operation == "create" and name == "log/packs/00000001.json" and not other:
            other.append(pack(FarFiles(files.root)))

    again.before = first
    assert pack(again) in (0, 1) and other == [1]
    assert told(index_of(files)) == told(index_of(files, packed=False))


def write_segments(files: LocalFiles, session_number: int, seat: str, n: int, size: int) -> None:
    """A writer's log as it would have been shipped, without the waiting."""
    writer, per = f"{session_number:08d}-{seat}-0", 32
    files.create(segment_name(writer, 0), Mark(0).line())
    for number in range(1, n // per + 1):
        keys = [f"{session_number:02d}{seat}{number:06d}{k:03d}".ljust(64, "0") for k in range(per)]
        lines = [encode(record) for key in keys for record in (intent(key, 9), answer(key, 3, text="x" * size))]
        files.path(segment_name(writer, number)).write_bytes(b"".join(lines) + Mark(number, end=number == n // per).line())


def test_many_answers_are_opened_with_few_reads(files: FarFiles) -> None:
    for number in range(1, 5):
        begun = begin(files, "r", False, {"calling": 4})
        for seat in range(4):
            write_segments(files, number, f"calling-{seat}", 1568, 40)
        begun.end("done")
    assert pack(files) == 4
    reader = FarFiles(files.root)
    index = LogIndex(reader)
    index.refresh()
    assert len(index.answers) == 16 * 1568 == 25_088 and index.spent("r") == 3 * 25_088
    assert reader.counts.total() <= 20 and reader.counts["read"] <= 10
    key = next(reversed(index.answers))
    record = index.read(key)
    assert record is not None and record["key"] == key and reader.counts["read_range"] == 1


@pytest.mark.parametrize("suffix", ["index", "jsonl"])
def test_a_damaged_pack_is_one_line_and_can_be_deleted(files: FarFiles, suffix: str) -> None:
    session(files, 1)
    expected = told(index_of(files))
    pack(files)
    for path in (files.root / "log" / "packs").glob(f"*.{suffix}"):
        path.write_bytes(path.read_bytes()[:-9] + b"123456789")
    index = LogIndex(files)
    if suffix == "index":
        with pytest.raises(StoreError, match=r"is damaged; put it back from a copy; or delete the folder log/packs: answers"):
            index.refresh()
    else:
        index.refresh()
        with pytest.raises(StoreError, match="is damaged"):
            read_at(files, max(index.answers.values(), key=lambda location: location.offset))
    for path in (files.root / "log" / "packs").iterdir():
        path.unlink()
    assert told(index_of(files)) == expected


def test_near_by_nothing_is_packed(tmp_path: Path) -> None:
    assert pack(LocalFiles(tmp_path)) == 0 and not (tmp_path / "log").exists()
    assert Location("log/packs/x.jsonl", 0, 1).name.count("/") == 2
