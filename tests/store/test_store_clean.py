"""Cleaning deletes only unneeded files, with any readers, and may be interrupted anywhere."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from answers import answer
from far_files import FarFiles
from run_rows import NAMES, Stopped, commit, done, new_run

from summhay_ray.store import (
    RUN,
    Chain,
    LocalFiles,
    LogIndex,
    LogWriter,
    MoneyRecord,
    RunStore,
    Store,
    StoreError,
    begin_session,
    unneeded,
)
from summhay_ray.store import clean as room
from summhay_ray.store.drivers import Process

pytestmark = pytest.mark.core


def clean(files: LocalFiles, older_s: float = 0.0) -> list[str]:
    found = list(unneeded(files, older_s))
    for one in found:
        files.delete(one.name)
    return [one.what for one in found]


def merged_run(root: Path, n: int = 4) -> RunStore:
    """A run of n commits whose parts were merged at its end."""
    run = new_run(root)
    committer = run.committer(0)
    for number in range(n):
        committer.add([run.write("item", [done(f"c{number}")])])
    committer.finish()
    return run


def test_what_was_merged_goes_and_the_tables_stay(tmp_path: Path) -> None:
    run, files = merged_run(tmp_path), LocalFiles(tmp_path)
    before = run.digests()
    assert list(unneeded(files)) == [], "nothing is a day old"
    found = list(unneeded(files, 0.0))
    assert {one.what for one in found} == {"merged parts", "earlier records"}
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    clean(files)
    after = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert after == size - sum(one.size for one in found)
    assert run.digests() == before and clean(files) == []
    left = {path.relative_to(tmp_path / "runs/run").parts[0] for path in (tmp_path / "runs/run").rglob("*.parquet")}
    assert left == {"parts", "tables"} and len(list((tmp_path / "runs/run/parts").iterdir())) == 1, "the units"


def test_drivers_get_no_number_twice_after_some_were_deleted(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    for run in ("a", *"bbbb", "c"):
        begin_session(files, run, True).end("done")
    assert clean(files).count("ended drivers") > 0
    # The last drivers of the runs a, b and c.
    assert [path.stem for path in sorted((tmp_path / "drivers").glob("0*[0-9].json"))] == ["00000001", "00000005", "00000006"]
    assert begin_session(files, "b", True).number == 7


class Breaking(LocalFiles):
    """Ends before its n-th deletion."""

    def __init__(self, root: Path, n: int) -> None:
        super().__init__(root)
        self._n = n

    def delete(self, name: str) -> None:
        self._n -= 1
        if self._n < 0:
            raise Stopped
        super().delete(name)


def test_wherever_it_is_broken_off_the_run_is_whole(tmp_path: Path) -> None:
    run = merged_run(tmp_path)
    before = run.digests()
    while len(list(unneeded(LocalFiles(tmp_path), 0.0))) > 1:
        with pytest.raises(Stopped):
            clean(Breaking(tmp_path, 1))
        again = Store(str(tmp_path)).run("run")
        assert again.digests() == before and list(again.flaws()) == []
    assert len(clean(LocalFiles(tmp_path))) == 1 and run.digests() == before


def test_who_has_begun_with_old_parts_goes_on_with_them(tmp_path: Path) -> None:
    run, files = merged_run(tmp_path), LocalFiles(tmp_path)
    age(tmp_path)
    reader = run.at()
    before = reader.digests()
    commit(run, [done("later")])
    run.committer(0).finish()
    assert clean(files, room.RETENTION_S).count("merged parts") > 0, "what was merged two days ago"
    assert reader.digests() == before
    age(tmp_path)
    clean(files, room.RETENTION_S)
    assert [path.name for path in (tmp_path / "runs" / "run" / "parts").iterdir()] == [run.manifest().parts[0].units.name]


def age(folder: Path) -> None:
    """Make every file look two days older."""
    for path in folder.rglob("*"):
        then = path.stat().st_mtime - 2 * room.RETENTION_S
        os.utime(path, (then, then))


def test_readers_at_work_are_not_harmed(tmp_path: Path) -> None:
    """A writer commits, merges and deletes files older than a read takes, and each reader sees the table of one moment."""
    run, files, stop, seen, wrong, older_s = new_run(tmp_path), LocalFiles(tmp_path), threading.Event(), [], [], 0.4

    def read() -> None:
        mine = Store(str(tmp_path)).run("run")
        while not stop.is_set():
            began = time.monotonic()
            try:
                table = mine.at().table("summaries")
            except StoreError as error:
                # A reader that pauses longer may find nothing.
                wrong.extend([error] if time.monotonic() - began < older_s else [])
                continue
            seen.append(table.height)
            if table["cell_id"].to_list() != sorted(f"c{number:03d}" for number in range(table.height)):
                wrong.append(table)

    committer, number = run.committer(1), 0
    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    ends = time.monotonic() + 0.9
    while time.monotonic() < ends or not seen:
        committer.add([run.write("item", [done(f"c{number:03d}")])])
        committer.compact()
        clean(files, older_s)
        number += 1
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == [] and run.table("summaries").height == number
    assert len(list(files.names("runs/run/commits", ".json"))) < run.version()


def test_what_a_driver_at_work_has_written_is_left(tmp_path: Path) -> None:
    run, files = merged_run(tmp_path), LocalFiles(tmp_path)
    session = begin_session(files, "run", False)
    parts = run.write("item", [done("soon")])
    assert clean(files) == []
    run.committer(session.number).add([parts])
    session.end("done")
    assert "merged parts" in clean(files) and run.table("summaries").height == 5


def test_what_a_killed_process_has_half_written_goes(tmp_path: Path) -> None:
    run, files = merged_run(tmp_path), LocalFiles(tmp_path)
    clean(files)
    names = [
        "runs/run/tables/scores/.part-0.parquet.0a1b.part",
        "runs/run/commits/.00000009.json.0a1b.part",
        "drivers/.00000001.beat.0a.part",
    ]
    for name in names:
        files.path(name).parent.mkdir(parents=True, exist_ok=True)
        files.path(name).write_bytes(b"half")
    assert clean(files) == [], "it may still be written"
    for name in names:
        then = time.time() - room.UNFINISHED_S - 1
        os.utime(files.path(name), (then, then))
    assert clean(files) == ["unfinished files"] * 3 and run.table("summaries").height == 4


def test_what_is_being_imported_is_left(tmp_path: Path) -> None:
    run = RunStore(Store(str(tmp_path)), "later", declared=new_run(tmp_path, "other").declared)
    run.write("source", [done("c1")])
    assert clean(LocalFiles(tmp_path)) == []


def test_segments_that_are_merged_go_once_nobody_reads_them(tmp_path: Path) -> None:
    files = FarFiles(tmp_path)
    session = begin_session(files, "r", False)
    log = LogWriter(files, session.number)
    for number in range(65):
        log.append([answer(f"key-{number}", 7)])
    log.close()
    age(tmp_path)
    assert clean(files, room.RETENTION_S) == [], "its driver may be reading them"
    session.end("done")
    assert clean(files, room.RETENTION_S) == ["segments that are merged"] * 64
    # The merged object, and the segment written after it.
    assert len(list((tmp_path / "answers").iterdir())) == 2
    index = LogIndex(files)
    index.refresh()
    assert index.read("key-7") == answer("key-7", 7) and len(index.answers) == 65


def test_of_a_folder_no_answer_is_deleted(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    log = LogWriter(files, 1)
    log.append([answer("a")])
    log.close()
    age(tmp_path)
    assert clean(files) == []


def test_earlier_money_records_go_and_the_newest_counts(tmp_path: Path) -> None:
    run, files = new_run(tmp_path), LocalFiles(tmp_path)
    run.money.take_over(1)
    for micros in range(1, 20):
        records = run.money
        records.take_over(micros)
        records.append(MoneyRecord(micros, ended=False, ceiling={RUN: micros}))
    assert clean(files) == ["earlier records"] * 38
    newest = run.money.newest()
    assert newest is not None and newest.ceiling == {RUN: 19}
    assert run.money.take_over(20) == newest


def test_it_is_done_once_a_day(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    run = merged_run(tmp_path)
    room.clean_daily(files)
    age(tmp_path)
    before = run.digests()
    assert len(list(unneeded(files))) > 0, "a store's first day"
    room.clean_daily(files)
    assert list(unneeded(files)) == [] and run.digests() == before
    chain = Chain(files, "runs/run/commits", dict)
    assert list(files.names(chain.folder, ".json")) == [chain.name(chain.latest())]
    merged_run(tmp_path / "other")
    commit(run, [done("new")])
    age(tmp_path / "runs")
    room.clean_daily(files)
    assert len(list(unneeded(files))) > 0, "it was done today"
    assert set(run.tables(NAMES)) == set(NAMES)


def test_a_damaged_run_is_left_alone_and_reported(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    merged_run(tmp_path)
    chain = Chain(files, "runs/run/commits", dict)
    shutil.copytree(tmp_path / "runs" / "run", tmp_path / "runs" / "broken")
    (tmp_path / "runs" / "broken" / "commits" / Path(chain.name(chain.latest())).name).write_text("{")
    damaged: list[str] = []
    names = [one.name for one in unneeded(files, 0.0, damaged=damaged)]
    assert names and all(name.startswith("runs/run/") for name in names)
    assert len(damaged) == 1 and damaged[0].startswith("run broken is damaged and left as it is: ")


def test_a_damaged_record_of_a_driver_keeps_the_drivers_and_is_reported(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    merged_run(tmp_path)
    for _ in range(3):
        begin_session(files, "run", False).end("done")
    paths = [tmp_path / "drivers" / f"0000000{number}.json" for number in (1, 2)]
    for path in paths:
        path.write_bytes(path.read_bytes()[:-1])
    damaged: list[str] = []
    assert {one.what for one in unneeded(files, 0.0, damaged=damaged)} == {"merged parts", "earlier records"}
    assert len(damaged) == 1 and str(paths[0]) in damaged[0]


def test_a_driver_killed_on_another_machine_takes_no_time_from_the_cleaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFiles(tmp_path)
    merged_run(tmp_path)
    begin_session(files, "other", False, here=Process("elsewhere", "another machine", 1, "1"))
    monkeypatch.setattr(room, "WATCH_S", 30.0)
    assert {one.what for one in unneeded(files, 0.0, within_s=29.0)} == {"merged parts", "earlier records"}
