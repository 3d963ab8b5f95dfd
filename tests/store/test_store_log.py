"""The response log: what is damaged is never an answer, what is whole is always read, and money adds up."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summhay_ray.store import LocalFiles, Location, LogIndex, LogWriter, StoreError, read_at
from summhay_ray.store import log_lines as room

pytestmark = pytest.mark.core

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def answer(key: str, usd_micros: int = 0, run: str = "r", call: str = "", **more: Any) -> dict[str, Any]:
    return {"kind": "answer", "call": call or f"call-{key}", "run": run, "key": key, "usd_micros": usd_micros, **more}


def intent(call: str, usd_micros: int, run: str = "r") -> dict[str, Any]:
    return {"kind": "intent", "call": call, "run": run, "key": f"key-{call}", "usd_micros": usd_micros}


def void(call: str, usd_micros: int, run: str = "r") -> dict[str, Any]:
    return {**intent(call, usd_micros, run), "kind": "void"}


def written(root: Path, records: Sequence[Mapping[str, Any]], writer: str = "w") -> Path:
    log = LogWriter(LocalFiles(root), writer)
    log.append(records)
    log.close()
    return root / log.name


def index_of(root: Path) -> LogIndex:
    index = LogIndex(LocalFiles(root))
    index.refresh()
    return index


@given(st.dictionaries(st.text(), JSON, max_size=6))
def test_what_is_encoded_is_decoded(record: dict[str, Any]) -> None:
    line = room.encode(record)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert room.decode(line) == record


def test_lone_surrogates_nul_and_line_breaks_survive(tmp_path: Path) -> None:
    text = "a\ud83d\x00\n\r\u2028\u202e<|endoftext|>" + "x" * 100_000
    written(tmp_path, [answer("k", text=text)])
    record = index_of(tmp_path).read("k")
    assert record is not None and record["text"] == text


def test_nan_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    log = LogWriter(LocalFiles(tmp_path), "w")
    with pytest.raises(ValueError, match="JSON compliant"):
        log.append([answer("a"), answer("b", x=float("nan"))])
    log.append([answer("c")])
    assert set(index_of(tmp_path).answers) == {"c"}


@given(st.binary(max_size=80))
def test_no_noise_is_a_record(noise: bytes) -> None:
    assert room.decode(noise) is None


RECORDS = [answer("a", 5, text="one"), intent("x", 70), answer("b", 7, text="two\n"), void("x", 3), answer("c", 11, text="")]


def whole(root: Path) -> dict[str, dict[str, Any]]:
    index = index_of(root)
    found = {key: index.read(key) for key in index.answers}
    return {key: record for key, record in found.items() if record is not None}


def test_every_truncation_loses_the_tail_alone(tmp_path: Path) -> None:
    file = written(tmp_path, RECORDS)
    content = file.read_bytes()
    ends = [0]
    for record in RECORDS:
        ends.append(ends[-1] + len(room.encode(record)))
    assert ends[-1] == len(content)
    for cut in range(len(content) + 1):
        file.write_bytes(content[:cut])
        expected = {r["key"]: r for r, end in zip(RECORDS, ends[1:], strict=True) if end <= cut and r["kind"] == "answer"}
        assert whole(tmp_path) == expected, cut


@pytest.mark.parametrize("flip", [0x01, 0x20, 0x80, 0xFF, "newline"])
def test_every_flipped_byte_costs_one_record_at_most_and_forges_none(tmp_path: Path, flip: int | str) -> None:
    file = written(tmp_path, RECORDS)
    content = file.read_bytes()
    starts = [0]
    for record in RECORDS:
        starts.append(starts[-1] + len(room.encode(record)))
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] = ord("\n") if flip == "newline" else damaged[place] ^ int(flip)
        file.write_bytes(damaged)
        hit = max(number for number, start in enumerate(starts) if start <= place)
        found = whole(tmp_path)
        for number, record in enumerate(RECORDS):
            if record["kind"] == "answer":
                assert found.get(record["key"], record) == record, (place, "a wrong record was read")
                assert number == hit or record["key"] in found, (place, "an undamaged record was lost")
        assert set(found) <= {"a", "b", "c"}


@pytest.mark.parametrize(
    "newer", [{**void("x", 0), "kind": "refund"}, {"kind": "ceiling", "to": 9}, {**void("x", 0), "kind": ["void"]}]
)
def test_a_kind_of_record_that_is_not_known_is_refused_and_ends_no_call(tmp_path: Path, newer: dict[str, Any]) -> None:
    before = [answer("a", 5), intent("x", 500)]
    file = written(tmp_path, before)
    index = index_of(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole + room.encode(newer) + room.encode(answer("b", 7)))
    for found in (index, LogIndex(LocalFiles(tmp_path))):
        with pytest.raises(StoreError, match=f"log/w.jsonl: the record at byte {len(whole)} .* newer version .*; upgrade"):
            found.refresh()
    assert (index.spent("r"), set(index.answers)) == (505, {"a"}), "nothing is set free, and nothing lost"
    file.write_bytes(whole + room.encode(void("x", 3)))
    index.refresh()
    assert index.spent("r") == 8, "what was refused is read again"


def test_a_damaged_answer_is_an_error_where_it_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, RECORDS)
    index = index_of(tmp_path)
    content = bytearray(file.read_bytes())
    content[30] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreError, match="byte 0 is damaged"):
        index.read("a")
    file.unlink()
    with pytest.raises(StoreError, match="is gone"):
        index.read("b")


def test_damaged_and_foreign_records_are_counted_and_passed_over(tmp_path: Path) -> None:
    written(tmp_path, [{"kind": "answer", "key": "no call"}, answer("a"), {"kind": "later", **intent("z", 0)}])
    (tmp_path / "log" / "noise.jsonl").write_bytes(b"not a record\n\n12345678 3 {}\n")
    index = index_of(tmp_path)
    assert set(index.answers) == {"a"} and index.damaged == 4


def test_an_unfinished_line_is_read_when_it_is_finished(tmp_path: Path) -> None:
    file = tmp_path / "log" / "w.jsonl"
    file.parent.mkdir()
    line = room.encode(answer("a", 4))
    index = LogIndex(LocalFiles(tmp_path))
    for cut in range(len(line)):
        file.write_bytes(line[:cut])
        index.refresh()
        assert (index.answers, index.damaged) == ({}, 0)
    file.write_bytes(line)
    index.refresh()
    index.refresh()
    assert index.answers == {"a": Location("log/w.jsonl", 0, len(line))} and index.spent("r") == 4


def test_locations_lead_to_the_records(tmp_path: Path) -> None:
    log = LogWriter(LocalFiles(tmp_path), "w")
    locations = [*log.append(RECORDS[:2]), *log.append(RECORDS[2:])]
    assert [read_at(LocalFiles(tmp_path), location) for location in locations] == RECORDS
    assert index_of(tmp_path).answers == {"a": locations[0], "b": locations[2], "c": locations[4]}


def test_the_first_answer_of_a_key_counts(tmp_path: Path) -> None:
    written(tmp_path, [answer("a", 1, call="1", text="first"), answer("a", 2, call="2", text="second")])
    index = index_of(tmp_path)
    record = index.read("a")
    assert record is not None and record["text"] == "first"
    assert index.spent("r") == 1 + 2


def test_money_by_hand(tmp_path: Path) -> None:
    written(tmp_path, [intent("1", 100), intent("2", 200), intent("3", 400), answer("k1", 30, call="1")], "a")
    written(tmp_path, [void("2", 0), intent("4", 800, run="other"), answer("free", 0)], "b")
    index = index_of(tmp_path)
    # 1 was answered for 30; 2 was ended (by another writer) for nothing; 3 has no end.
    assert index.spent("r") == 30 + 0 + 400
    assert index.spent("other") == 800 and index.spent("unknown") == 0
    assert index.unanswered("a") == {"key-3"} and index.unanswered("b") == {"key-2", "key-4"}
    written(tmp_path, [void("3", 400), answer("k4", 799, run="other", call="4")], "c")
    index.refresh()
    assert index.spent("r") == 30 + 0 + 400 and index.spent("other") == 799
    assert (index.unanswered("a"), index.unanswered("b"), index.unanswered("c")) == (set(), {"key-2"}, {"key-3"})
    assert {"k1", "k4", "free"} <= set(index.answers) and "nothing" not in index.answers


class Disk:
    """`os.write` that fills up: `room_left` bytes fit, then ENOSPC."""

    def __init__(self, room_left: int) -> None:
        self.room_left = room_left

    def write(self, descriptor: int, block: memoryview) -> int:
        if not self.room_left:
            raise OSError(errno.ENOSPC, "No space left on device")
        fits = min(len(block), self.room_left, 50)
        self.room_left -= fits
        return REAL_WRITE(descriptor, block[:fits])


REAL_WRITE = os.write


@settings(max_examples=40, deadline=None)
@given(room_left=st.integers(0, 400))
def test_after_a_full_disk_no_acknowledged_record_is_lost(tmp_path_factory: pytest.TempPathFactory, room_left: int) -> None:
    root = tmp_path_factory.mktemp("store")
    log = LogWriter(LocalFiles(root), "w")
    index = LogIndex(LocalFiles(root))
    log.append([answer("before", 1)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", Disk(room_left).write)
        try:
            log.append([answer("torn-1", text="x" * 150), answer("torn-2", text="y" * 150)])
            acknowledged = {"torn-1", "torn-2"}
        except OSError:
            acknowledged = set()
    index.refresh()
    location = log.append([answer("after", 2)])[0]
    index.refresh()
    assert {"before", "after"} | acknowledged <= set(index.answers)
    assert index.answers["after"] == location and read_at(LocalFiles(root), location) == answer("after", 2)
    assert set(whole(root)) == set(index.answers)


def test_a_writer_has_its_file_alone(tmp_path: Path) -> None:
    LogWriter(LocalFiles(tmp_path), "w")
    with pytest.raises(FileExistsError):
        LogWriter(LocalFiles(tmp_path), "w")
    for name in ("", "a/b", "a.b"):
        with pytest.raises(ValueError, match="expected a name"):
            LogWriter(LocalFiles(tmp_path), name)


def test_a_writer_that_is_left_out_is_read_later(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    for name in ("mine", "theirs"):
        writer = LogWriter(files, name)
        writer.append([{"kind": "answer", "call": name, "run": "r", "key": name, "usd_micros": 5}])
    index = LogIndex(files)
    index.refresh(but={"mine"})
    assert set(index.answers) == {"theirs"} and index.spent("r") == 5
    index.refresh()
    assert set(index.answers) == {"mine", "theirs"} and index.spent("r") == 10
