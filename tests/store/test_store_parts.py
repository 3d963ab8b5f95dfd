"""Parts: plain Parquet that counts when a manifest names it; merging changes no table; every changed byte is found."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_rows import NAMES, TABLES, Watched, batches, commit, done, lost, new_run, watched_run
from s3_servers import s3_bucket, s3_server

from summhay_ray.records import Document, Judgment
from summhay_ray.store import Finished, LocalFiles, RunStore, Store, StoreError, Table, files, parts, rows
from summhay_ray.store.tables import digest

pytestmark = pytest.mark.core
__all__ = ["s3_bucket", "s3_server"]

CELLS = [f"c{number}" for number in range(12)]
TRIES = st.tuples(st.sampled_from(CELLS), st.booleans())


def documents(haystack: str, count: int, words: int = 20) -> Finished:
    texts = [" ".join(f"{haystack}{number * word:x}" for word in range(words)) for number in range(count)]
    return Finished(haystack, {"documents": [Document(haystack, f"{haystack}-{n}", n, text, ()) for n, text in enumerate(texts)]})


def files_of(run: RunStore, folder: str = "") -> list[Path]:
    return sorted((Path(run.store.uri) / "runs" / run.run_id / folder).rglob("*.parquet"))


def tables_of(run: RunStore) -> dict[str, dict[str, Any]]:
    """Each table as other tools read it."""
    folder = Path(run.store.uri) / "runs" / run.run_id / "tables"
    found = {name: pl.read_parquet(folder / name / "*.parquet") for name in NAMES}
    return {name: {"rows": frame.height, "sha256": digest(frame)} for name, frame in found.items()}


@settings(max_examples=4)
@given(tries=st.lists(TRIES, min_size=1, max_size=20), size=st.integers(1, 5), fewest=st.integers(2, 4), data=st.data())
def test_neither_commits_nor_merges_nor_ends_change_a_table(
    tmp_path_factory: pytest.TempPathFactory, tries: list[tuple[str, bool]], size: int, fewest: int, data: st.DataObject
) -> None:
    finished = [lost(cell) if failed else done(cell) for cell, failed in tries]
    plainly, merged = new_run(tmp_path_factory.mktemp("plain")), new_run(tmp_path_factory.mktemp("merged"))
    commit(plainly, finished)
    committer = merged.committer(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("summhay_ray.store.commits.FEWEST", fewest)
        patch.setattr("summhay_ray.store.commits.MOST", fewest)
        patch.setattr(rows, "TOGETHER", data.draw(st.sampled_from([1, 700, 1 << 20])))
        for batch in batches(finished, size):
            committer.add([merged.write("item", batch)])
            match data.draw(st.sampled_from(["", "merge", "end"])):
                case "merge":
                    committer.compact()
                case "end":
                    committer.finish()
        before = merged.digests()
        units = {
            unit: {name: set(frame.rows()) for name, frame in own.items()} for unit, own in merged.reader(["judgments"]).by_unit()
        }
        committer.finish()
    assert before == merged.digests() == plainly.digests() == tables_of(merged)
    assert merged.finished("item") == plainly.finished("item")
    assert units.keys() == merged.finished("item").keys()
    assert {cell: own for cell, own in units.items() if own} == {
        row[0]: {"judgments": {row}} for row in merged.table("judgments").rows()
    }


def test_many_commits_leave_few_parts_and_are_merged_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("summhay_ray.store.commits.FEWEST", 2)
    monkeypatch.setattr("summhay_ray.store.commits.MOST", 4)
    run, most, merged = new_run(tmp_path), 0, 0
    committer = run.committer(1)
    for place in range(12):
        committer.add([run.write("item", [done(f"c{place:03d}")])])
        merged += committer.compact()
        most = max(most, len(run.manifest().parts))
    assert most <= 5 and 0 < merged < 12 * 3
    assert run.table("summaries")["cell_id"].to_list() == [f"c{place:03d}" for place in range(12)]
    committer.finish()
    version = run.version()
    committer.finish()
    run.end()
    assert (run.version(), run.manifest().added, len(run.manifest().parts)) == (version, 12, 1)


def test_a_run_that_ended_and_goes_on_ends_again_and_who_reads_goes_on_reading(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.commit("haystack", [documents("h", 5)])
    run.commit("item", [done("a"), lost("b")])
    run.end()
    early, tables, kept = run.at(), tables_of(run), files_of(run, "tables/documents")
    expected = {name: early.table(name) for name in NAMES}
    assert run.digests() == tables
    run.commit("item", [done("b"), done("c")])
    assert tables_of(run) == tables != run.digests(), "until it ends again"
    assert run.table("summaries").height == 3 and run.table("failures").height == 0
    run.end()
    assert run.digests() == tables_of(run) != tables
    assert all(early.table(name).equals(expected[name]) for name in NAMES) and early.digests() == tables
    assert files_of(run, "tables/documents") == kept, "a table without new rows is not written again"
    alone = new_run(tmp_path / "alone")
    alone.commit("haystack", [documents("h", 5)])
    alone.commit("item", [done("a"), done("b"), done("c")])
    assert alone.digests() == run.digests()


@pytest.mark.parametrize("together", [1, 3000])
def test_a_table_in_pieces_is_the_whole_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    run = new_run(tmp_path)
    for place in (3, 0, 5, 1, 4, 2):
        run.commit("haystack", [documents(f"h{place}", 3 + place)])
    run.commit("haystack", [documents("h1", 2, 10)])
    whole = run.table("documents")
    monkeypatch.setattr(rows, "TOGETHER", together)
    monkeypatch.setattr(parts, "GROUP_BYTES", together)
    for _ in range(2):
        pieces = list(run.pieces("documents"))
        assert pl.concat(pieces).equals(whole) and whole.height == sum([3, 2, 5, 6, 7, 8])
        ends = [(piece["haystack_id"][0], piece["haystack_id"][-1]) for piece in pieces if piece.height]
        assert all(one[1] < other[0] for one, other in itertools.pairwise(ends)), "a haystack is in one piece"
        assert pl.concat(run.pieces("documents", ["number"])).equals(whole.select("haystack_id", "number"))
        assert (
            run.reader(["documents"])
            .table("documents", between=("h1", "h3"))
            .equals(whole.filter(pl.col("haystack_id").is_in(["h1", "h2", "h3"])))
        )
        assert together > 1 or len(pieces) >= 6
        run.end()


def test_a_large_table_is_merged_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path)
    for place in range(10):
        run.commit("haystack", [documents(f"h{place}-{number}", 30, 300) for number in range(4)])
    size = sum(one.unpacked for one in run.manifest().parts)
    monkeypatch.setattr(rows, "TOGETHER", size // 8)
    monkeypatch.setattr(parts, "GROUP_BYTES", size // 8)
    sizes: list[float] = []
    real = rows.numbered

    def numbered(columns: Any, frame: pl.DataFrame, *rest: int) -> Any:
        sizes.append(frame.estimated_size())
        return real(columns, frame, *rest)

    monkeypatch.setattr(rows, "numbered", numbered)
    run.end()
    assert len(sizes) >= 8 and max(sizes) < size / 4
    assert max(piece.estimated_size() for piece in run.pieces("documents")) < size / 3


@dataclass(frozen=True)
class Draw:
    number: int
    word: str


@pytest.mark.parametrize("together", [1, 300])
def test_a_key_that_is_a_number_is_sorted_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    draws = Table("units", Draw, ("number",))
    run = Store(str(tmp_path)).create_run("run", {"kind": "mine"}, [draws])
    for place in range(6):
        drawn = [Draw(number, f"{place}") for number in range(-7 * place, 120, 6 + place)]
        run.commit("item", [Finished(f"u{place}", {"units": drawn})])
    found = draws.records(run.table("units"))
    assert [one.number for one in found] == sorted({one.number for one in found}) and found[0].number == -35
    monkeypatch.setattr(rows, "TOGETHER", together)
    expected = {"units": {"rows": len(found), "sha256": digest(draws.frame(found))}}
    assert run.digests() == expected
    run.end()
    assert run.digests() == expected


def test_two_units_with_a_row_of_the_same_key_are_found(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.commit("item", [done("a")])
    run.commit("item", [Finished("b", {"judgments": [Judgment("a", "j", "i", 0, "k", "NO_COVERAGE", '"NA"')]}), done("c")])
    for _ in range(2):
        assert run.reader(["judgments"]).shared_row("judgments", "item") == ("a", "b", ("a", "j", 0))
        assert (
            run.reader(["summaries"]).shared_row("summaries", "item")
            is run.reader(["judgments"]).shared_row("judgments", "prepared")
            is None
        )
        run.end()
    run.commit("item", [Finished("b", {})])
    assert run.reader(["judgments"]).shared_row("judgments", "item") is None and run.table("judgments").height == 2


@pytest.mark.parametrize("ended", [False, True])
def test_every_changed_byte_is_seen_and_the_run_is_made_again(tmp_path: Path, ended: bool) -> None:
    def make() -> RunStore:
        run = new_run(tmp_path)
        commit(run, [done("a"), lost("b")])
        commit(run, [done("c")])
        if ended:
            run.end()
        return run

    run = make()
    known, named = run.digests(), [path for path in files_of(run) if not ended or "tables" in path.parts]
    assert list(run.flaws()) == [] and len(named) == (6 if ended else 9)
    for path, change in itertools.product(named, ["flip", "cut", "delete"]):
        content = path.read_bytes()
        for place in (0, len(content) // 2, len(content) - 1) if change == "flip" else (len(content) // 2,):
            flipped = bytes([*content[:place], content[place] ^ 1, *content[place + 1 :]])
            path.write_bytes(flipped if change == "flip" else content[:place])
            if change == "delete":
                path.unlink()
            [flaw] = [line for line in run.flaws() if "does not hold" not in line]
            state = "gone" if change == "delete" else "not as it was written"
            assert flaw.startswith(f"{path} is {state}; delete the folder {tmp_path}/runs/run/commits, and run or import again")
            with pytest.raises(
                StoreError, match=f"^run run is damaged .*{path.name} is {state}.*; run summhay doctor --store"
            ) as said:
                run.digests()
            assert "\n" not in str(said.value)
        path.write_bytes(content)
    for path in named:
        path.write_bytes(b"no Parquet")
    for path in (tmp_path / "runs/run/commits").iterdir():
        path.unlink()
    assert make().digests() == known and list(run.flaws()) == []
    if ended:
        assert tables_of(run) == known


KILLED = """
import itertools, sys
from run_rows import done, lost
from summhay_ray.store import Store
run = Store(sys.argv[1]).run("run")
committer = run.committer(int(sys.argv[2]))
for number in itertools.count():
    cells = [f"{sys.argv[2]}-{number}-{cell}" for cell in range(20)]
    committer.add([run.write("item", [(lost if number % 2 else done)(cell) for cell in cells])])
    print(number, flush=True)
    committer.compact()
    if number % 3 == 2:
        committer.finish()
"""


@pytest.mark.parametrize("place", ["folder", pytest.param("bucket", marks=[pytest.mark.s3, pytest.mark.soak])])
def test_a_kill_shows_whole_commits_only(tmp_path: Path, place: str, request: pytest.FixtureRequest) -> None:
    uri = str(tmp_path) if place == "folder" else request.getfixturevalue("s3_bucket").uri()
    Store(uri).create_run("run", {"kind": "mine"}, TABLES)
    code = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    heights = [0]
    for driver in range(1, 3):
        process = subprocess.Popen([sys.executable, "-c", KILLED, uri, str(driver)], env=code, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(2 * driver):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        run = Store(uri).run("run")
        units, tables = run.finished("item"), run.tables(["summaries", "judgments", "failures"])
        assert len(units) % 20 == 0 and len(units) >= heights[-1] + 20 * (2 * driver - 1)
        done_ones = sum(not again for again in units.values())
        assert (tables["summaries"].height, tables["judgments"].height) == (done_ones, done_ones)
        assert tables["failures"].height == len(units) - done_ones
        heights.append(len(units))
    before = {name: digest(frame) for name, frame in run.tables(NAMES).items()}
    run.end()
    assert {name: told["sha256"] for name, told in run.digests().items()} == before and list(run.flaws()) == []


def test_of_two_that_end_a_run_at_once_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path)
    commit(run, [done("a"), lost("b")])
    slow = Store(str(tmp_path)).run("run")
    real, after = files.LocalFiles.move, [True]

    def move(self: LocalFiles, name: str, to: str) -> None:
        # A whole run finishes while the slow one is about to publish its tables.
        if after:
            after.clear()
            commit(run, [done("b")])
            run.end()
        real(self, name, to)

    monkeypatch.setattr(LocalFiles, "move", move)
    slow.end()
    assert run.digests() == tables_of(run) and run.digests()["summaries"]["rows"] == 2
    assert len(files_of(run, "tables")) == len(NAMES) and list(run.flaws()) == []


def test_a_table_that_is_not_in_its_place_is_reported_and_restored(tmp_path: Path) -> None:
    run, _ = watched_run(tmp_path)
    commit(run, [done("a")])
    run.end()
    [path] = files_of(run, "tables/summaries")
    before = tables_of(run)
    path.rename(tmp_path / "runs/run/parts" / path.name)
    (tmp_path / "runs/run/tables/scores/old.parquet").write_bytes(b"old")
    assert sorted(line.partition(" does not hold ")[0] for line in run.flaws()) == [
        f"{tmp_path}/runs/run/tables/{name}" for name in ("scores", "summaries")
    ]
    assert run.table("summaries").height == 1
    run.end()
    assert list(run.flaws()) == [] and tables_of(run) == before


def test_an_unchanged_run_that_ends_writes_nothing(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    commit(run, [done("a")])
    run.end()
    again, watched = watched_run(tmp_path)
    assert isinstance(watched, Watched)
    watched.stop_at = 0
    again.end()
