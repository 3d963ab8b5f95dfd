"""The answers log: an acknowledged answer is found once; a damaged record is no answer, and is counted."""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from answers import PURPOSE, answer
from far_files import FarFiles
from fault_proxy import Fault, FaultProxy, Kind
from hypothesis import given
from hypothesis import strategies as st
from s3_servers import Bucket, s3_bucket, s3_server

from summhay_ray.store import (
    DamagedRecord,
    Excess,
    Files,
    LocalFiles,
    LogIndex,
    LogWriter,
    StoreError,
    damaged_records,
    open_files,
    read_at,
    unneeded,
)
from summhay_ray.store import answers as room
from summhay_ray.store.answers import HEAD_FIELDS
from summhay_ray.store.names import StoreUnavailable, parse_place
from summhay_ray.store.s3 import S3Files

__all__ = ["s3_bucket", "s3_server"]

TEXT = st.text()
RECORDS = [answer("a", 5, text="one"), answer("b", 7, text="two\n", saved_micros=3), answer("c", 11, text="")]


def written(files: Files, records: Sequence[Mapping[str, Any]]) -> str:
    """The name of the file with the records."""
    log = LogWriter(files, 1)
    places = log.append(records)
    log.close()
    return places[0].name


def index_of(files: Files) -> LogIndex:
    index = LogIndex(files)
    index.refresh()
    return index


def read(index: LogIndex) -> dict[str, Any]:
    return {key: index.read(key) for key in index.answers}


def totals(index: LogIndex) -> tuple[int, int]:
    """(number of answers, micro-dollars) of the run `r`."""
    tally = index.totals("r")[PURPOSE]
    return tally.answers, tally.usd_micros


@pytest.mark.core
@given(st.lists(st.builds(lambda key, text: answer(key, text=text, reason=text[:3]), TEXT, TEXT), min_size=1, max_size=5))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]]) -> None:
    files = LocalFiles(tmp_path_factory.mktemp("store"))
    log = LogWriter(files, 1)
    places = [*log.append(records[:2]), *log.append(records[2:])]
    log.close()
    assert [read_at(files, place, one["key"]) for place, one in zip(places, records, strict=True)] == records
    index = index_of(files)
    assert read(index) == {record["key"]: record for record in reversed(records)}, "the first answer of a key counts"
    assert totals(index)[0] == len(records) and index.damaged == 0


@pytest.mark.core
def test_nan_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    log = LogWriter(LocalFiles(tmp_path), 1)
    with pytest.raises(ValueError, match="JSON compliant"):
        log.append([answer("a"), answer("b", x=float("nan"))])
    log.append([answer("c")])
    assert set(index_of(LocalFiles(tmp_path)).answers) == {"c"}


@pytest.mark.core
@given(st.binary(max_size=80))
def test_no_noise_is_a_record(noise: bytes) -> None:
    assert room.decode(noise) is None


def starts_of(records: Sequence[Mapping[str, Any]]) -> list[int]:
    """The start of each record, and the end of the last one."""
    starts = [0]
    for record in records:
        starts.append(starts[-1] + len(room.encode(record)))
    return starts


@pytest.mark.core
def test_a_file_that_is_cut_anywhere_loses_its_tail_alone(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    path = tmp_path / written(files, RECORDS)
    content, growing = path.read_bytes(), LogIndex(files)
    for cut in sorted({*range(0, len(content), 9), *(near + by for near in starts_of(RECORDS)[1:] for by in (-1, 0))}):
        path.write_bytes(content[:cut])
        whole = {record["key"]: record for record, end in zip(RECORDS, starts_of(RECORDS)[1:], strict=True) if end <= cut}
        growing.refresh()
        for index in (index_of(files), growing):
            assert read(index) == whole and index.damaged == 0, cut


@pytest.mark.core
@pytest.mark.parametrize(
    "flip",
    [
        0x01,
        pytest.param(0x20, marks=pytest.mark.soak),
        pytest.param(0x80, marks=pytest.mark.soak),
        pytest.param(0xFF, marks=pytest.mark.soak),
        pytest.param("newline", marks=pytest.mark.soak),
    ],
)
def test_a_damaged_byte_costs_one_record_which_is_counted(tmp_path: Path, flip: int | str) -> None:
    files = LocalFiles(tmp_path)
    path = tmp_path / written(files, RECORDS)
    content, starts = path.read_bytes(), starts_of(RECORDS)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] = ord("\n") if flip == "newline" else damaged[place] ^ int(flip)
        path.write_bytes(damaged)
        hit = max(number for number, start in enumerate(starts) if start <= place)
        index = index_of(files)
        found = read(index)
        for number, record in enumerate(RECORDS):
            assert found.get(record["key"], record) == record, (place, "a wrong record was read")
            assert number == hit or record["key"] in found, (place, "an undamaged record was lost")
        lost = len(found) < len(RECORDS)
        # Without its last line break, a record may be incomplete.
        assert (index.damaged > 0) == (lost and place < len(content) - 1), place
        told = damaged_records(files)
        assert {name: len(places) for name, places in told.items()} == (
            {str(path.relative_to(tmp_path)): index.damaged} if index.damaged else {}
        )
        if found:
            assert totals(index) == (len(found), sum(record["usd_micros"] for record in found.values()))


@pytest.mark.core
def test_a_kind_of_record_that_is_not_known_is_refused(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    path = tmp_path / written(files, RECORDS[:1])
    index, before = index_of(files), path.read_bytes()
    path.write_bytes(before + room.encode(answer("b", kind="refund")))
    for found in (index, LogIndex(files)):
        with pytest.raises(StoreError, match=f"{path.name}: has a record of a kind .* of a newer version"):
            found.refresh()
    path.write_bytes(before + room.encode(RECORDS[1]))
    index.refresh()
    assert set(index.answers) == {"a", "b"}, "what was refused is read again"


@pytest.mark.core
def test_an_answer_that_is_damaged_since_it_was_found_is_skipped_and_one_that_is_gone_is_an_error(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    path = tmp_path / written(files, RECORDS)
    index, content = index_of(files), bytearray(path.read_bytes())
    place = index.answers["a"]
    content[30] ^= 1
    path.write_bytes(content)
    assert (index.read("a"), index.damaged, "a" in index.answers) == (None, 1, False)
    with pytest.raises(DamagedRecord, match="byte 0 is damaged; .*; run summhay doctor --store"):
        read_at(files, place, "a")
    path.unlink()
    with pytest.raises(StoreError, match="is gone; put it back"):
        index.read("b")


@pytest.mark.core
def test_what_runs_have_cost_adds_up(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    claimed = {"claimed_tokens": 900, "claimed_micros": 5000, "claimed_margin": 1.5}
    written(files, [*RECORDS, answer("judged", 13, stage="judge"), answer("free", 0, run="other")])
    index = index_of(files)
    written(files, [answer("a", 2), answer("much", 17, stage="judge", **claimed)])
    index.refresh()
    assert {purpose: (tally.answers, tally.usd_micros) for purpose, tally in index.totals("r").items()} == {
        PURPOSE: (4, 5 + 7 + 11 + 2),
        ("judge", PURPOSE[1]): (2, 13 + 17),
    }
    assert index.totals("r")[PURPOSE].saved_micros == 3 and index.totals("unknown") == {}
    assert index.excesses("r") == {"much": Excess(PURPOSE[1], 900, 12, 5000, 17, 1.5)} and index.excesses("other") == {}


class Disk:
    """`os.write` on a disk that fills up: `room_left` bytes fit, then ENOSPC."""

    def __init__(self, room_left: int) -> None:
        self.room_left = room_left

    def write(self, descriptor: int, block: memoryview) -> int:
        if not self.room_left:
            raise OSError(errno.ENOSPC, "No space left on device")
        fits = min(len(block), self.room_left, 50)
        self.room_left -= fits
        return REAL_WRITE(descriptor, block[:fits])


REAL_WRITE = os.write


@pytest.mark.core
@given(room_left=st.integers(0, 800))
def test_after_a_full_disk_no_acknowledged_record_is_lost(tmp_path_factory: pytest.TempPathFactory, room_left: int) -> None:
    files = LocalFiles(tmp_path_factory.mktemp("store"))
    log, index, acknowledged = LogWriter(files, 1), LogIndex(files), {"before", "after"}
    log.append([answer("before", 1)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", Disk(room_left).write)
        try:
            log.append([answer("torn-1", text="x" * 150), answer("torn-2", text="y" * 150)])
            acknowledged |= {"torn-1", "torn-2"}
        except OSError as error:
            assert error.filename == str(files.root / "answers")
    index.refresh()
    (place,) = log.append([answer("after", 2)])
    index.refresh()
    assert set(index.answers) == acknowledged and read_at(files, place, "after") == answer("after", 2)
    assert read(index_of(files)) == read(index)


def clean(files: Files) -> int:
    """Delete unneeded files, and return the number of segments among them."""
    found = list(unneeded(files, 0.0))
    for one in found:
        files.delete(one.name)
    return sum(one.what == "segments that are merged" for one in found)


def check(index: LogIndex, n: int) -> None:
    assert read(index) == {f"k{number}": answer(f"k{number}", number) for number in range(n)}
    assert totals(index) == (n, sum(range(n))) and index.damaged == 0


@pytest.fixture
def eight_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight segments are merged instead of 64, because the tests' folders have eight."""
    for module in ("log", "answers"):
        monkeypatch.setattr(f"summhay_ray.store.{module}.TOGETHER", 8)


@pytest.mark.s3
@pytest.mark.usefixtures("eight_together")
def test_what_was_merged_is_found_once_by_whoever_reads_when(s3_bucket: Bucket) -> None:
    files = open_files(s3_bucket.uri())
    log, watching, late = LogWriter(files, 1), LogIndex(files), LogIndex(files)
    for number in range(18):
        log.append([answer(f"k{number}", number)])
        if number + 1 in (5, 7, 8, 9):
            watching.refresh()
            assert totals(watching) == (number + 1, sum(range(number + 1)))
        if number + 1 in (7, 8, 9):
            assert totals(index_of(files))[0] == number + 1
        if number + 1 == 12:
            late.refresh()
    log.close()
    for index in (watching, late, index_of(files)):
        index.refresh()
        check(index, 18)
    names = s3_bucket.keys()
    assert sum(name.endswith(".merged") for name in names) == 3
    assert clean(files) == 18 and clean(files) == 0
    check(index_of(files), 18)
    watching.refresh()
    assert totals(watching)[0] == 18


@pytest.mark.core
def test_a_bucket_that_is_copied_to_a_folder_keeps_its_answers(tmp_path: Path) -> None:
    far = FarFiles(tmp_path)
    log = LogWriter(far, 1)
    for number in range(65):
        log.append([answer(f"k{number}", number)])
    log.close()
    check(index_of(LocalFiles(tmp_path)), 65)
    assert clean(far) == 64
    check(index_of(LocalFiles(tmp_path)), 65)


@pytest.mark.core
def test_a_merged_object_is_read_by_its_first_line_or_if_that_is_damaged_by_its_records(tmp_path: Path) -> None:
    far = FarFiles(tmp_path)
    claimed = {"claimed_tokens": 900, "claimed_micros": 5000, "claimed_margin": 1.5}
    records = [*RECORDS, answer("much", 17, stage="judge", **claimed), answer("\u00e4", 1, run="other")]
    log = LogWriter(far, 1)
    for record in records:
        log.append([record])
    log.close()
    assert clean(far) == len(records)

    def found(index: LogIndex) -> Any:
        return read(index), [(index.totals(run), index.excesses(run)) for run in ("r", "other")]

    (path,) = (tmp_path / "answers").iterdir()
    far.counts.clear()
    index = index_of(far)
    assert far.counts["read_range"] == 1 and index.damaged == 0
    whole, content = found(index), path.read_bytes()
    assert whole[0] == {record["key"]: record for record in records} and set(index.excesses("r")) == {"much"}
    first = content.index(b"\n") + 1
    for place in range(0, first, 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        index = index_of(far)
        assert found(index) == whole and index.damaged == 1, place
        assert damaged_records(far) == {f"answers/{path.name}": [0]}, place
    # The form and name before it had this line.
    writer, number, _, suffix = path.name.split(".")
    path.unlink()
    path.with_name(f"{writer}.{number}.{suffix}").write_bytes(content[first:])
    assert found(index_of(far)) == whole


def index_line(heads: Any) -> bytes:
    """The first line of a merged object."""
    return forged(b'{"kind":"index"}', json.dumps(heads).encode())


LIES: dict[str, Callable[[Any], Any]] = {
    "a price": lambda heads: heads["answers"]["r"][3].__setitem__(0, 0),
    "a total": lambda heads: heads["totals"][0].update(usd_micros=0),
    "a number of answers": lambda heads: heads["totals"][0].update(answers=9),
    "a run less": lambda heads: heads["answers"].pop("r"),
    "a place outside": lambda heads: heads["answers"]["r"][1].__setitem__(0, 10**9),
    "a negative place": lambda heads: heads["answers"]["r"][1].__setitem__(0, -1),
    "a key less": lambda heads: heads["answers"]["r"][0].pop(),
    "no totals": lambda heads: heads.pop("totals"),
    "a column that is a text": lambda heads: heads["answers"]["r"].__setitem__(0, "abc"),
}


@pytest.mark.core
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_an_index_that_contradicts_itself_is_not_believed(tmp_path: Path, lie: Callable[[Any], Any]) -> None:
    lines = b"".join(map(room.encode, RECORDS))
    heads = json.loads(json.dumps(room.heads_of("", lines)))
    lie(heads)
    line = index_line(heads)
    (tmp_path / "answers").mkdir()
    (tmp_path / f"answers/w.00000000.{len(line)}.merged").write_bytes(line + lines)
    index = index_of(LocalFiles(tmp_path))
    assert read(index) == {record["key"]: record for record in RECORDS}
    assert index.damaged == 1 and totals(index) == (3, 5 + 7 + 11)
    assert list(damaged_records(LocalFiles(tmp_path)).values()) == [[0]]


@pytest.mark.core
def test_an_index_that_names_another_record_gives_no_wrong_answer(tmp_path: Path) -> None:
    lines = b"".join(map(room.encode, RECORDS))
    heads = json.loads(json.dumps(room.heads_of("", lines)))
    keys = heads["answers"]["r"][0]
    keys[0], keys[1] = keys[1], keys[0]
    line = index_line(heads)
    (tmp_path / "answers").mkdir()
    (tmp_path / f"answers/w.00000000.{len(line)}.merged").write_bytes(line + lines)
    (tmp_path / "answers/x.jsonl").write_bytes(room.encode(RECORDS[0]))
    index = index_of(LocalFiles(tmp_path))
    assert [index.read(key) for key in "abc"] == [RECORDS[0], None, RECORDS[2]] and index.damaged == 2
    assert list(damaged_records(LocalFiles(tmp_path)).values()) == [[0]]


@pytest.mark.s3
@pytest.mark.usefixtures("eight_together")
@pytest.mark.parametrize(("n", "n_merged"), [(1, 0), (7, 7), (9, 8)])
def test_a_writer_that_ends_merges_what_it_has(s3_bucket: Bucket, n: int, n_merged: int) -> None:
    files = open_files(s3_bucket.uri())
    log = LogWriter(files, 1)
    for number in range(n):
        log.append([answer(f"k{number}", number)])
    log.close()
    check(index_of(files), n)
    assert clean(files) == n_merged
    check(index_of(files), n)


@pytest.mark.s3
@pytest.mark.parametrize("kind", ["lose", "drop"])
def test_lost_requests_and_replies_lose_nothing_and_write_nothing_twice(s3_bucket: Bucket, kind: Kind) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        proxy.add(Fault(kind, share=0.3, method="PUT", key="answers/"))
        log = LogWriter(open_files(s3_bucket.uri(url=proxy.url)), 1)
        for number in range(20):
            log.append([answer(f"k{number}", number)])
        log.close()
    names = s3_bucket.keys()
    assert sum(name.endswith(".jsonl") for name in names) == 20
    check(index_of(open_files(s3_bucket.uri())), 20)


@pytest.mark.s3
@pytest.mark.parametrize(("kind", "n"), [("lose", 4), ("drop", 3)])
def test_after_a_service_that_did_not_answer_the_log_goes_on(s3_bucket: Bucket, kind: Kind, n: int) -> None:
    near = open_files(s3_bucket.uri())
    with FaultProxy(s3_bucket.server.url) as proxy:
        log = LogWriter(S3Files(parse_place(s3_bucket.uri(url=proxy.url)), patience_s=0.5), 1)
        log.append([answer("a", 1)])
        log.append([answer("b", 2)])
        with proxy.during(Fault(kind, key="answers/")) as fault, pytest.raises(StoreUnavailable):
            log.append([answer("doubtful", 4)])
        assert fault.struck > 1
        log.append([answer("c", 8)])
        log.close()
    clean(near)
    index = index_of(near)
    assert {"a", "b", "c"} <= set(index.answers) and totals(index)[0] == n


HEAD = {name: value for name, value in answer("k", 7).items() if name in HEAD_FIELDS}
BODY = {name: value for name, value in answer("k", 7).items() if name not in HEAD_FIELDS}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def forged(head: bytes, body: bytes = json.dumps(BODY).encode()) -> bytes:
    """A line with a right checksum and any content."""
    return b"%08x %d %d %s%s\n" % (zlib.crc32(head + body), len(head), len(body), head, body)


def text_of(head: Any) -> bytes:
    """JSON as Python writes it, with blanks, NaN and half characters."""
    return json.dumps(head).encode()


def with_field(name: str, value: str) -> bytes:
    """A head with another JSON text as the value of a field."""
    return text_of({**HEAD, name: "VALUE"}).replace(b'"VALUE"', value.encode())


DAMAGED_HEADS = {
    "nothing": b"",
    "no JSON": b"not json",
    "no object": b"[]",
    "no fields": b"{}",
    "no more than a kind": b'{"kind": "answer"}',
    "deep": b"[" * 5000 + b"]" * 5000,
    "deep in a field": with_field("deep", "[" * 5000 + "]" * 5000),
    "two objects": text_of(HEAD) + b"," + text_of(HEAD),
    "half an object": text_of(HEAD)[:-1],
    "not UTF-8": text_of(HEAD).replace(b'"k"', b'"\xff"'),
    "half a character": with_field("model", '"\\ud800"'),
    "a field twice": text_of(HEAD)[:-1] + b', "usd_micros": 0}',
    "a field twice, with a blank": text_of(HEAD).replace(b'"usd_micros":', b'"usd_micros" : 9, "usd_micros":'),
    "a kind that is a list": with_field("kind", '["answer"]'),
    "a number as key": with_field("key", "1"),
    **{
        f"{name} {shown}": with_field(name, value)
        for name in ("usd_micros", "claimed_tokens")
        for shown, value in {
            "as text": '"5"',
            "negative": "-5",
            "a boolean": "true",
            "null": "null",
            "a fraction": "5.0",
            "1e308": "1e308",
            "NaN": "NaN",
            "more than a million dollars": str(10**12 + 1),
            "4,000 digits": "9" * 4000,
            "5,000 digits": "9" * 5000,
        }.items()
    },
    **{f"a margin {value}": with_field("claimed_margin", value) for value in ("NaN", "Infinity", "-1", "1e999", '"2"')},
}
DAMAGED_BODIES = {
    "nothing": b"",
    "no JSON": b"x",
    "a list": b"[]",
    "no text": text_of({**BODY, "text": None}),
    "no finish reason": text_of({name: value for name, value in BODY.items() if name != "finish_reason"}),
    "negative attempts": text_of({**BODY, "attempts": -1}),
    "texts that are a text": text_of({**BODY, "further_texts": "abc"}),
    "a half character": text_of({**BODY, "text": "\ud800"}),
    "deep": text_of({**BODY, "raw": "RAW"}).replace(b'"RAW"', b"[" * 5000 + b"]" * 5000),
}


def beside(folder: Path, line: bytes) -> tuple[LocalFiles, int]:
    """A log with two real records around the line, and the place where the line begins."""
    first, last = room.encode(RECORDS[0]), room.encode(RECORDS[1])
    (folder / "answers").mkdir(exist_ok=True)
    (folder / "answers/w.jsonl").write_bytes(first + line + last)
    return LocalFiles(folder), len(first)


@pytest.mark.core
@pytest.mark.parametrize("head", DAMAGED_HEADS.values(), ids=DAMAGED_HEADS.keys())
def test_a_head_of_another_form_is_one_damaged_record(tmp_path: Path, head: bytes) -> None:
    files, place = beside(tmp_path, forged(head))
    index = index_of(files)
    assert read(index) == {record["key"]: record for record in RECORDS[:2]}
    assert index.damaged == 1 and totals(index) == (2, 5 + 7)
    assert damaged_records(files) == {"answers/w.jsonl": [place]}


@pytest.mark.core
@pytest.mark.parametrize("body", DAMAGED_BODIES.values(), ids=DAMAGED_BODIES.keys())
def test_a_body_of_another_form_is_one_damaged_record(tmp_path: Path, body: bytes) -> None:
    # It comes before the real answer to the same question.
    head = text_of({**HEAD, "key": "b"})
    files, place = beside(tmp_path, forged(head, body))
    assert damaged_records(files) == {"answers/w.jsonl": [place]}
    index = index_of(files)
    assert [index.read(key) for key in "ab"] == RECORDS[:2] and index.damaged == 1


@pytest.mark.core
@given(JSON, JSON)
def test_no_json_with_a_right_checksum_ends_a_reader(tmp_path_factory: pytest.TempPathFactory, head: Any, body: Any) -> None:
    files, place = beside(tmp_path_factory.mktemp("store"), forged(text_of(head), text_of(body)))
    index = index_of(files)
    assert read(index) == {record["key"]: record for record in RECORDS[:2]}
    assert index.damaged == 1 and damaged_records(files) == {"answers/w.jsonl": [place]}


@pytest.mark.core
@given(st.dictionaries(st.sampled_from(HEAD_FIELDS[1:]), JSON, min_size=1), st.dictionaries(st.sampled_from([*BODY]), JSON))
def test_no_field_of_another_form_ends_a_reader(
    tmp_path_factory: pytest.TempPathFactory, head: dict[str, Any], body: dict[str, Any]
) -> None:
    files, _ = beside(tmp_path_factory.mktemp("store"), forged(text_of({**HEAD, **head}), text_of({**BODY, **body})))
    index = index_of(files)
    found = [index.read(record["key"]) for record in RECORDS[:2]]
    # A valid record is like any other, and may answer the same question first.
    assert found == RECORDS[:2] or head.get("key") in ("b", "a")
    assert all(total.usd_micros >= 0 for total in index.totals("r").values()) and totals(index)[1] >= 5 + 7
    assert set(damaged_records(files)) <= {"answers/w.jsonl"}


@pytest.mark.core
def test_a_log_larger_than_what_is_read_at_once_is_whole_but_for_its_damaged_record(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    lines = [room.encode(answer(f"k{number}", text="x" * 2**20)) for number in range(70)]
    (tmp_path / "answers").mkdir()
    path = tmp_path / "answers" / "w.jsonl"
    path.write_bytes(b"".join(lines))
    assert damaged_records(files) == {}
    content = bytearray(path.read_bytes())
    content[sum(map(len, lines[:65])) + 500] ^= 1
    path.write_bytes(content)
    assert damaged_records(files) == {f"answers/{path.name}": [sum(map(len, lines[:65]))]}
