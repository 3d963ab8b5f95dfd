"""The writer of a store far away: what it acknowledges is on disk here, soon there, and never costs more than was told."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from far_files import FarFiles, Gate, answer, intent

from summhay_ray.store import Evicted, Location, LogIndex, StoreError, begin, open_log, read_at, seal, sweep
from summhay_ray.store import spool as room
from summhay_ray.store.log_lines import mark_of, segment_name
from summhay_ray.store.spool_folder import begin as begin_folder
from summhay_ray.store.spool_folder import spool_of

pytestmark = pytest.mark.core

SEATS = {"calling": 2}


@pytest.fixture(autouse=True)
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUMMHAY_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setattr(room, "PAUSE_S", 0.02)
    # What is shipped is shipped for another reason than its age, however slow the machine.
    monkeypatch.setattr(room, "AGE_S", 600.0)
    return tmp_path / "spool"


@pytest.fixture
def files(tmp_path: Path) -> FarFiles:
    files = FarFiles(tmp_path / "store")
    begin(files, "r", False, SEATS)
    return files


@pytest.fixture
def log(files: FarFiles) -> Iterator[room.SpoolWriter]:
    writer = room.SpoolWriter(files, 1, "calling-0")
    yield writer
    die(writer)


def die(writer: room.SpoolWriter) -> None:
    """As if the process were killed: nothing more is shipped, and the lock is free."""
    with writer._changed:
        writer._ended = True
        writer._changed.notify_all()
    writer._thread.join()


def segments(files: FarFiles, writer: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((files.root / "log" / writer).glob("*.jsonl"))]


def index_of(files: FarFiles) -> LogIndex:
    index = LogIndex(files)
    index.refresh()
    return index


def wait_for(done: Any, timeout_s: float = 60.0) -> None:
    ends = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < ends, "it did not come"
        time.sleep(0.005)


def test_sixty_four_records_are_shipped_at_once(files: FarFiles, log: room.SpoolWriter) -> None:
    log.append([answer(f"a{n}") for n in range(63)])
    time.sleep(0.2)
    assert len(segments(files, log.writer)) == 1
    log.append([answer("last")])
    wait_for(lambda: len(segments(files, log.writer)) == 2)
    assert len(index_of(files).answers) == 64


def test_what_is_old_is_shipped_in_time(files: FarFiles, log: room.SpoolWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "AGE_S", 5.0)
    began = time.monotonic()
    log.append([answer("a")])
    time.sleep(4.0)
    log.append([answer("b")])
    wait_for(lambda: len(segments(files, log.writer)) == 2)
    # So long after the oldest, not after the newest.
    assert 4.9 < time.monotonic() - began < 9.0
    assert set(index_of(files).answers) == {"a", "b"}


def test_flush_and_close_bring_all_to_the_store_and_clean_up(files: FarFiles, log: room.SpoolWriter) -> None:
    log.append([answer("a")])
    log.flush()
    assert set(index_of(files).answers) == {"a"}
    log.append([answer("b")])
    log.close()
    log.close()
    log.flush()
    assert set(index_of(files).answers) == {"a", "b"}
    assert not list(spool_of(files).iterdir()) and not log._thread.is_alive()
    assert mark_of(segments(files, log.writer)[-1])[1].end  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="is closed"):
        log.append([answer("c")])


def test_a_flush_beside_a_close_returns_with_it(files: FarFiles, log: room.SpoolWriter) -> None:
    log.append([answer("a")])
    closing = threading.Thread(target=log.close)
    closing.start()
    log.flush()
    assert set(index_of(files).answers) == {"a"}
    closing.join()


def test_a_writer_that_wrote_nothing_ends_too(files: FarFiles) -> None:
    writer = open_log(files, 1, "calling-1")
    writer.flush()
    writer.close()
    assert sweep(files) == [] and index_of(files)._position.seats[1, "calling-1"].going == {}


def test_every_opening_of_a_seat_is_another_writer(files: FarFiles) -> None:
    writers = [open_log(files, 1, "calling-0") for _ in range(3)]
    assert [writer.writer for writer in writers] == [f"00000001-calling-0-{n}" for n in range(3)]
    for writer in writers:
        writer.append([answer(writer.writer)])
        writer.close()
    assert len(index_of(files).answers) == 3


def test_unshipped_records_are_read_from_here(files: FarFiles, log: room.SpoolWriter) -> None:
    first, second = log.append([answer("a"), answer("b", text="x")])
    assert log.unshipped(second) == answer("b", text="x")
    with pytest.raises(StoreError, match="is gone"):
        read_at(files, second)
    assert log.unshipped(Location(second.name, 10**6, 5)) is None
    log.flush()
    assert log.unshipped(second) is None and read_at(files, second) == answer("b", text="x")
    assert read_at(files, first) == answer("a")


def test_the_first_intent_is_in_the_store_before_its_call_is_sent(files: FarFiles, log: room.SpoolWriter) -> None:
    log.append([intent("a", 100)])
    # The intent, and 32 calls ahead.
    assert index_of(files).spent("r") == 100 + 32 * 100
    log.append([intent(f"b{n}", 100) for n in range(16)])
    assert len(segments(files, log.writer)) == 2


def test_intents_beyond_the_allowance_are_shipped_first(files: FarFiles, log: room.SpoolWriter) -> None:
    log.append([intent("a", 100)])
    log.append([intent(f"b{n}", 100) for n in range(33)])
    assert index_of(files).spent("r") == 34 * 100 + 32 * 100
    log.append([intent("dear", 1_000)])
    assert index_of(files).spent("r") >= 34 * 100 + 1_000


def test_half_of_the_allowance_ships_in_the_background(files: FarFiles, log: room.SpoolWriter) -> None:
    log.append([intent("a", 100)])
    log.append([intent(f"b{n}", 100) for n in range(17)])
    wait_for(lambda: len(segments(files, log.writer)) == 3)
    assert index_of(files).spent("r") == 18 * 100 + 32 * 100


def test_each_purpose_has_its_own_allowance(files: FarFiles, log: room.SpoolWriter) -> None:
    log.append([intent("a", 10, stage="judge", model="m")])
    log.append([intent("b", 1_000, stage="summarize", model="m")])
    assert index_of(files).spent_by("r") == {log.writer: {("judge", "m"): 10 + 320, ("summarize", "m"): 1_000 + 32_000}}
    log.append([answer("a", 4, stage="judge", model="m"), answer("b", 400, stage="summarize", model="m")])
    log.close()
    assert index_of(files).spent_by("r") == {log.writer: {("judge", "m"): 4, ("summarize", "m"): 400}}


def test_intents_wait_while_the_store_is_away_and_answers_do_not(files: FarFiles, log: room.SpoolWriter) -> None:
    gate = Gate()
    log.append([intent("a", 100)])
    files.before, gate.down = gate, True
    log.append([answer("a", 50), *(intent(f"b{n}", 100) for n in range(32))])
    told = threading.Event()

    def send() -> None:
        log.append([intent("c", 100)])
        told.set()

    thread = threading.Thread(target=send)
    thread.start()
    assert not told.wait(0.3)
    with pytest.raises(StoreError, match="nobody answers"):
        log.flush()
    gate.down = False
    assert told.wait(60.0)
    thread.join()
    log.flush()
    assert index_of(files).unanswered(log.writer) == {"c", *(f"b{n}" for n in range(32))}


def test_answers_are_kept_while_the_store_is_away(files: FarFiles, log: room.SpoolWriter) -> None:
    gate = Gate()
    files.before, gate.down = gate, True
    for n in range(300):
        log.append([answer(f"a{n}")])
    with pytest.raises(StoreError, match="nobody answers"):
        log.close()
    assert len(index_of(files).answers) == 0
    gate.down = False
    assert sweep(files) == [log.writer]
    assert len(index_of(files).answers) == 300


def test_an_intent_gives_up_at_last(files: FarFiles, log: room.SpoolWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    files.before, gate.down = gate, True
    monkeypatch.setattr(room, "PATIENCE_S", 0.1)
    with pytest.raises(StoreError, match="nobody answers"):
        log.append([intent("a", 100)])
    gate.down = False
    log.close()
    assert index_of(files).spent("r") == 100


@pytest.mark.parametrize("room_left", [0, 1, 60, 150, 230])
def test_a_full_disk_costs_what_was_not_acknowledged(
    files: FarFiles, log: room.SpoolWriter, monkeypatch: pytest.MonkeyPatch, room_left: int
) -> None:
    real, left = os.write, [room_left]

    def write(descriptor: int, block: Any) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        fits = min(len(block), left[0])
        left[0] -= fits
        return real(descriptor, bytes(block[:fits]))

    log.append([answer("before")])
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(OSError, match="No space left"):
            log.append([answer("torn-1"), answer("torn-2", text="x" * 200)])
    location = log.append([answer("after")])[0]
    log.close()
    assert set(index_of(files).answers) == {"before", "after"} and index_of(files).damaged == 0
    assert read_at(files, location) == answer("after")


def test_a_disk_that_is_full_from_the_start_takes_no_number(
    files: FarFiles, log: room.SpoolWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                log.append([answer("torn")])
    assert log.append([answer("a")])[0].name == segment_name(log.writer, 1)
    log.close()
    assert set(index_of(files).answers) == {"a"}


def test_a_zombie_cannot_write_after_a_seal(files: FarFiles, log: room.SpoolWriter) -> None:
    log.append([intent("a", 100)])
    seal(files, log.writer)
    seal(files, log.writer)
    before = index_of(files).spent("r")
    assert before == 100 + 3200
    with pytest.raises(Evicted, match="was ended by another"):
        log.append([intent(f"b{n}", 100) for n in range(40)])
    for act in (log.flush, lambda: log.append([answer("a")])):
        with pytest.raises(Evicted):
            act()
    assert index_of(files).spent("r") == before and not index_of(files).answers
    with pytest.raises(Evicted):
        log.close()
    # What a sweep finds of it now counts for nobody, and is cleared away.
    assert sweep(files) == [] and not list(spool_of(files).iterdir())
    assert index_of(files).spent("r") == before and not index_of(files).answers


def test_a_write_whose_answer_was_lost_is_our_own(files: FarFiles, log: room.SpoolWriter) -> None:
    lost: list[str] = []

    def lose(operation: str, name: str) -> None:
        if operation == "create" and len(lost) < 2:
            lost.append(name)
            raise TimeoutError("no answer")

    files.after = lose
    log.append([intent("a", 7)])
    log.append([answer("a", 3)])
    log.close()
    assert len(lost) == 2 and index_of(files).spent("r") == 3


def test_a_spool_that_cannot_be_written_is_one_line(tmp_path: Path, files: FarFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SUMMHAY_SPOOL", str(tmp_path / "file" / "spool"))
    with pytest.raises(StoreError, match="set SUMMHAY_SPOOL to a folder on a disk of this machine"):
        open_log(files, 1, "calling-0")


def test_where_the_spool_lies(files: FarFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    name = spool_of(files).name
    assert spool_of(files, {"SUMMHAY_SPOOL": "/x/y"}) == Path("/x/y") / name
    assert spool_of(files, {"XDG_STATE_HOME": "/x"}) == Path("/x/summhay/spool") / name
    assert spool_of(files, {}) == Path("~/.local/state/summhay/spool").expanduser() / name
    held = begin_folder(files, "w")
    assert oct(held.folder.stat().st_mode & 0o777) == "0o700"
    held.remove()
