"""Files are created once, completely, and never overwritten; readers see all or nothing."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from summhay_ray.store import LocalFiles, Store, StoreError, open_files
from summhay_ray.store import files as files_room

pytestmark = pytest.mark.core

SIZE = 200_000


def content_of(racer: int) -> bytes:
    return bytes([racer]) * SIZE


def race(root: str, first: int, results: str) -> None:
    files = LocalFiles(Path(root))
    start = threading.Barrier(8)

    def one(racer: int) -> bool:
        start.wait()
        return files.create("deep/er/prize", content_of(racer))

    with ThreadPoolExecutor(8) as pool:
        won = [racer for racer, won in zip(range(first, first + 8), pool.map(one, range(first, first + 8)), strict=True) if won]
    (Path(results) / str(first)).write_text(",".join(map(str, won)))


def test_of_32_racers_in_4_processes_one_wins_and_its_content_is_whole(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    spawn = multiprocessing.get_context("fork")
    racers = [spawn.Process(target=race, args=(str(tmp_path / "store"), first, str(results))) for first in (0, 8, 16, 24)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    winners = [int(name) for file in results.iterdir() for name in file.read_text().split(",") if name]
    assert len(winners) == 1
    assert (tmp_path / "store" / "deep/er/prize").read_bytes() == content_of(winners[0])
    assert os.listdir(tmp_path / "store" / "deep/er") == ["prize"]


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    files, seen, ended = LocalFiles(tmp_path), set[int](), threading.Event()

    def read() -> None:
        while not ended.is_set():
            seen.update(len(files.read(name)) for name in files.names("parts"))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(30):
        assert files.create(f"parts/{number}", b"x" * SIZE)
    ended.set()
    reader.join()
    assert seen <= {SIZE}


@pytest.mark.parametrize("failing", ["fsync", "link"])
def test_a_failed_creation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    files = LocalFiles(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files_room.os, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        files.create("folder/a", b"content")
    monkeypatch.undo()
    assert os.listdir(tmp_path / "folder") == []
    assert files.create("folder/a", b"content") is True


def test_what_a_killed_writer_left_is_not_seen(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.create("parts/whole", b"x")
    (tmp_path / "parts" / ".whole.0123456789ab.part").write_bytes(b"tor")
    assert list(files.names("parts")) == ["parts/whole"]


@pytest.mark.parametrize("uri", ["gs://bucket", "http://user:secret@host/store", "S3://bucket", "s3:/bucket/runs"])
def test_other_places_are_refused_in_one_line(uri: str) -> None:
    with pytest.raises(StoreError, match="not supported") as refused:
        open_files(uri)
    assert uri.partition(":")[0] in str(refused.value) and "\n" not in str(refused.value) and "secret" not in str(refused.value)


def test_a_file_is_no_store(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(StoreError, match="is a file; give a folder"):
        open_files(str(file))


def test_a_file_uri_and_a_home_folder_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_files(f"file://{tmp_path}/s").folder == tmp_path / "s"
    assert open_files("~/s").folder == tmp_path / "s"


def test_opening_a_store_creates_nothing(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    assert store.run_ids() == [] and not (tmp_path / "store").exists()


def test_a_check_makes_the_folder_and_leaves_nothing_in_it(tmp_path: Path) -> None:
    files = open_files(str(tmp_path / "new" / "store"))
    files.check()
    files.check()
    assert os.listdir(tmp_path / "new" / "store") == []


FAILURES = [
    ("link", errno.EPERM, "cannot be written (Operation not permitted); give yourself the right to write there", 2),
    ("link", errno.EOPNOTSUPP, "its file system has no hard links (Operation not supported), by which files are created once", 2),
    ("fsync", errno.ENOSPC, "no room is left on its disk (No space left on device); make room, then run again", 1),
    ("fsync", errno.EDQUOT, "no room is left on its disk", 1),
    ("fsync", errno.EIO, "cannot be used (Input/output error); choose another folder", 2),
]


@pytest.mark.parametrize(("failing", "number", "said", "exit_code"), FAILURES)
def test_a_check_reports_obstacles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, number: int, said: str, exit_code: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files_room.os, failing, fail)
    with pytest.raises(StoreError) as problem:
        open_files(str(tmp_path / "store")).check()
    monkeypatch.undo()
    assert str(problem.value).startswith(f"store '{tmp_path / 'store'}': {said}") and "\n" not in str(problem.value)
    assert problem.value.exit_code == exit_code and os.listdir(tmp_path / "store") == []


def test_a_file_system_on_which_a_second_link_replaces_the_first_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_room.os, "link", lambda source, target: shutil.copy(source, target))
    with pytest.raises(StoreError, match="lets one file overwrite another"):
        open_files(str(tmp_path / "store")).check()
    assert os.listdir(tmp_path / "store") == []


def test_a_folder_below_a_file_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="file is a file"):
        open_files(str(tmp_path / "file" / "store"))
