"""Blocks: what is written is read, whole or by slice, and damage is seen wherever it is."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_rows import NAMES, TABLES, Watched, commit, done, lost, new_run, watched_run

from summhay_ray.records import Document
from summhay_ray.store import (
    Finished,
    LocalFiles,
    LogWriter,
    RunStore,
    Store,
    StoreError,
    Table,
    VectorSpace,
    blocks,
    columns_of,
    digest,
    read_at,
    rows,
    tables,
)
from summhay_ray.store.blocks import UNITS, read_block, winners, write_block

pytestmark = pytest.mark.core

FOLDER = "runs/run/blocks"
DECLARED = columns_of(TABLES)
JUDGMENTS = {"judgments": DECLARED["judgments"]}


def documents(haystack: str, count: int, words: int) -> Finished:
    return Finished(haystack, {"documents": [documents_row(haystack, number, words) for number in range(count)]})


def documents_row(haystack: str, number: int, words: int) -> Document:
    text = " ".join(f"{haystack}{number * word:x}" for word in range(words))
    return Document(haystack, f"{haystack}-{number}", number, text, ())


def test_a_block_lists_its_slices_one_behind_the_other(tmp_path: Path) -> None:
    files = Watched(tmp_path)
    block = write_block(files, FOLDER, DECLARED, "cell", [done("a"), lost("b"), done("c")])
    assert list(block.slices) == [UNITS, "raw_answers", "summaries", "judgments", "failures"]
    assert (block.stage, block.units, block.level, block.name) == ("cell", 3, 0, f"{FOLDER}/{block.sha256}.block")
    assert [one.rows for one in block.slices.values()] == [3, 5, 2, 2, 1]
    places = [(one.offset, one.length) for one in block.slices.values()]
    assert [offset for offset, _ in places] == [sum(length for _, length in places[:place]) for place in range(5)]
    assert sum(length for _, length in places) == block.size == len(files.read(block.name))


def test_each_row_knows_its_unit(tmp_path: Path) -> None:
    files = Watched(tmp_path)
    block = write_block(files, FOLDER, DECLARED, "cell", [done("a"), lost("b"), done("c")])
    part = read_block(files, block, DECLARED)
    assert part.units.rows() == [("cell", "a", False), ("cell", "b", True), ("cell", "c", False)]
    assert part.rows["summaries"]["_unit"].to_list() == [0, 2]
    assert part.rows["raw_answers"]["_unit"].to_list() == [0, 2, 0, 1, 2], "by key"
    own = blocks.only(part, pl.Series([None, 4, 5], dtype=pl.Int32))
    assert own["raw_answers"]["_unit"].to_list() == [5, 4, 5] and own["summaries"]["cell_id"].to_list() == ["c"]


def test_equal_units_make_one_block(tmp_path: Path) -> None:
    files = Watched(tmp_path)
    first, second = (write_block(files, FOLDER, DECLARED, "cell", [done("a")]) for _ in range(2))
    assert first == second and len(list((tmp_path / FOLDER).iterdir())) == 1
    assert write_block(files, FOLDER, DECLARED, "cell", [done("a"), done("a"), lost("a")]) == first
    assert write_block(files, FOLDER, DECLARED, "context", [done("a")]).name != first.name


def test_winners_by_hand() -> None:
    def units(*rows: tuple[str, str, bool]) -> pl.DataFrame:
        return pl.DataFrame(rows, schema=["stage", "unit", "retry"], orient="row")

    a, b, other = ("cell", "a"), ("cell", "b"), ("context", "a")
    won, ranks = winners([units((*other, False), (*a, True)), units((*a, True), (*b, False)), units((*b, True))])
    assert won.rows() == [(*a, True), (*b, False), (*other, False)]
    assert [list(one) for one in ranks] == [[2, None], [0, 1], [None]]
    won, ranks = winners([units((*a, False)), units((*a, False)), units((*a, True))])
    assert won.rows() == [(*a, False)] and [list(one) for one in ranks] == [[None], [0], [None]]
    assert winners([])[0].is_empty() and winners([])[1] == []


@pytest.mark.parametrize("small", [0, 1 << 30])
def test_every_flipped_byte_of_what_is_read_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    monkeypatch.setattr(blocks, "_SMALL", small)
    files = Watched(tmp_path)
    block = write_block(files, FOLDER, DECLARED, "cell", [done("a"), lost("b")])
    path, wanted = tmp_path / block.name, block.slices["judgments"]
    content = path.read_bytes()
    for place in range(0, block.size, 29):
        path.write_bytes(bytes([*content[:place], content[place] ^ 4, *content[place + 1 :]]))
        units = block.slices[UNITS]
        touched = units.offset <= place < units.offset + units.length or 0 <= place - wanted.offset < wanted.length
        if small or touched:
            with pytest.raises(StoreError, match="is (damaged|gone); delete it and the folder"):
                read_block(files, block, JUDGMENTS)
        else:
            assert read_block(files, block, JUDGMENTS).rows["judgments"].height == 1


def test_who_wants_judgments_reads_no_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_SMALL", 0)
    run, files = watched_run(tmp_path)
    run.commit("haystack", [documents("h", 50, 100)])
    commit(run, [done("a")])
    files.asked.clear()
    assert run.table("judgments").height == 1
    assert files.asked["read"] == 2 + 2, "hint and manifest; of one block its units and its judgments"
    files.asked.clear()
    assert run.tables(["judgments", "summaries", "raw_answers"])["summaries"].height == 1
    assert files.asked["read"] == 2 + 1, "of several tables the whole block at once"
    mixed = [Finished("h2", {**documents("h2", 50, 100).rows, **done("b").rows})]
    run.commit("haystack", mixed)
    files.asked.clear()
    assert run.tables(["judgments", "summaries"])["summaries"].height == 2
    assert files.asked["read"] == 2 + 1 + 3 + 1, "units of h; of h2, which is mostly documents, three slices; all of a"


@pytest.mark.parametrize("together", [1, 700, 3000, 1 << 20])
def test_a_table_in_pieces_has_the_digest_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    run = new_run(tmp_path)
    for place in range(6):
        run.commit("haystack", [documents(f"h{place}", 3 + place, 20)])
    run.commit("haystack", [documents("h1", 2, 10)])
    commit(run, [done(f"c{place}") for place in range(20)])
    expected = {name: {"rows": frame.height, "sha256": digest(frame)} for name, frame in run.tables(NAMES).items()}
    monkeypatch.setattr(rows, "TOGETHER", together)
    assert run.digests() == expected and expected["documents"]["rows"] == sum([3, 2, 5, 6, 7, 8])


def test_a_large_table_is_digested_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path)
    for place in range(40):
        run.commit("haystack", [documents(f"h{place:02}", 30, 300)])
    run.committer(1).finish()
    whole = run.table("documents").to_arrow().nbytes
    most = [0]
    real = tables.Columns.frame

    def frame(columns: tables.Columns, found: list[pl.DataFrame]) -> object:
        most[0] = max(most[0], sum(one.to_arrow().nbytes for one in found))
        return real(columns, found)

    monkeypatch.setattr(rows, "TOGETHER", run.manifest().blocks[0].size // 8)
    monkeypatch.setattr(tables.Columns, "frame", frame)
    run.digests()
    assert most[0] < whole / 4


def test_rows_that_compress_to_nothing_come_in_pieces_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path)
    for place in range(4):
        run.commit("haystack", [documents(f"h{place}", 500, 1)])
    run.committer(1).finish()
    whole = run.table("documents")
    stored = sum(block.slices["documents"].length for block in run.manifest().blocks)
    size = whole.to_arrow().nbytes
    assert stored < size / 8
    monkeypatch.setattr(rows, "TOGETHER", size // 4)
    pieces = list(run.pieces("documents"))
    assert len(pieces) > 3 and max(one.to_arrow().nbytes for one in pieces) < size // 3 and pl.concat(pieces).equals(whole)
    assert pl.concat(run.pieces("documents", ["number"])).equals(whole.select("haystack_id", "number"))


def test_long_rows_are_unpacked_a_few_at_a_time(tmp_path: Path) -> None:
    files = Watched(tmp_path)
    block = write_block(files, FOLDER, DECLARED, "haystack", [documents(f"h{place}", 250, 20_000) for place in (1, 0, 3, 2)])
    piece = block.slices["documents"]
    stored = pq.ParquetFile(pa.BufferReader(files.read(block.name)[piece.offset : piece.offset + piece.length]))
    sizes = [stored.read_row_group(group).nbytes for group in range(stored.num_row_groups)]
    assert piece.unpacked > 3 * blocks._GROUP_BYTES > 2 * max(sizes), "a group is little larger than it should be"
    assert (piece.low, piece.high) == ("h0", "h3")
    ends = [stored.metadata.row_group(group).column(0).statistics for group in range(stored.num_row_groups)]
    assert all(one.max <= other.min for one, other in itertools.pairwise(ends)), "a range of keys is in few of the groups"


def test_blocks_whose_keys_follow_each_other_are_digested_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, files = watched_run(tmp_path)
    for place in (3, 0, 2, 1):
        run.commit("haystack", [documents(f"h{2 * place + one}", 5, 20) for one in range(2)])
    known = run.digests()
    monkeypatch.setattr(blocks, "_SMALL", 0)
    monkeypatch.setattr(rows, "TOGETHER", max(block.size for block in run.manifest().blocks) - 1)
    files.asked.clear()
    assert run.digests() == known
    assert files.asked["read"] == 2 + 4 + 4 * 2, "the units of all, then of each block units and documents"
    # One that lies across all others is read with them, and takes the place of what it finishes anew.
    run.commit("haystack", [documents("h0", 2, 20), documents("h7", 2, 20)])
    assert run.digests()["documents"] == {
        "rows": 6 * 5 + 2 * 2,
        "sha256": digest(run.table("documents")),
    }


@dataclass(frozen=True)
class Draw:
    number: int
    word: str


@pytest.mark.parametrize("together", [1, 300, 1 << 20])
@pytest.mark.parametrize("merged", [False, True])
def test_a_key_that_is_a_number_is_sorted_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int, merged: bool
) -> None:
    draws = Table("units", Draw, ("number",))
    run = Store(str(tmp_path)).create_run("run", {"kind": "mine"}, [draws])
    for place in range(6):
        drawn = [Draw(number, f"{place}") for number in range(-7 * place, 120, 6 + place)]
        run.commit("cell", [Finished(f"u{place}", {"units": drawn})])
    if merged:
        run.committer(1).finish()
    found = draws.records(run.table("units"))
    assert [one.number for one in found] == sorted({one.number for one in found}) and found[0].number == -35
    monkeypatch.setattr(rows, "TOGETHER", together)
    assert run.digests() == {"units": {"rows": len(found), "sha256": digest(draws.frame(found))}}


class FlippedOnce(LocalFiles):
    """A byte is wrong in the first reading of each file but the hints, and in none after it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.flipped: set[str] = set()

    def read(self, name: str) -> bytes:
        return self._flip(name, super().read(name))

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        return self._flip(name, super().read_range(name, offset, length))

    def _flip(self, name: str, content: bytes) -> bytes:
        if name in self.flipped or name.endswith("/latest"):
            return content
        self.flipped.add(name)
        middle = len(content) // 2
        return bytes([*content[:middle], content[middle] ^ 4, *content[middle + 1 :]])


@pytest.mark.parametrize("small", [0, 1 << 30])
def test_a_byte_that_is_wrong_in_one_reading_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    monkeypatch.setattr(blocks, "_SMALL", small)
    run = new_run(tmp_path)
    commit(run, [done("a")])
    digest_of = run.store.put_object("prompt", b"Summarize.")
    log = LogWriter(LocalFiles(tmp_path), "w")
    (place,) = log.append([{"kind": "answer", "call": "c", "run": "run", "key": "k", "usd_micros": 5, "text": "paid"}])
    log.close()
    vectors = VectorSpace(LocalFiles(tmp_path), "space")
    vectors.put([b"k" * 32], np.ones((1, 2), np.float32), [1])
    store = Store(str(tmp_path))
    store.files = files = FlippedOnce(tmp_path)
    again = RunStore(store, "run")
    assert again.record["kind"] == "mine" and again.table("judgments").height == 1
    assert store.get_object("prompt", digest_of) == b"Summarize."
    assert read_at(files, place)["text"] == "paid"
    assert [*VectorSpace(files, "space").get([b"k" * 32])] == [b"k" * 32]
    assert {name.partition("/")[0] for name in files.flipped} == {"runs", "objects", "log", "vectors"}
    assert any(name.endswith(".block") for name in files.flipped) and any("/commits/" in name for name in files.flipped)
