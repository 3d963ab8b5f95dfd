"""The index of a log far away: it follows numbers, never a listing, and learns the same whenever and however it looks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from far_files import FarFiles, answer, intent

from summhay_ray.store import LocalFiles, Location, LogIndex, LogWriter, Tally, begin, open_log, pack, seal, seal_rest, sweep
from summhay_ray.store.log_lines import intact_length, mark_of, segment_name, segment_number, writer_of
from summhay_ray.store.spool import SpoolWriter

pytestmark = pytest.mark.core


@pytest.fixture(autouse=True)
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMMHAY_SPOOL", str(tmp_path / "spool"))


@pytest.fixture
def files(tmp_path: Path) -> FarFiles:
    files = FarFiles(tmp_path / "store")
    begin(files, "r", False, {"calling": 2})
    return files


@pytest.fixture
def logs(files: FarFiles) -> Iterator[list[SpoolWriter]]:
    writers = [SpoolWriter(files, 1, seat) for seat in ("calling-0", "calling-1")]
    yield writers
    for writer in writers:
        if not writer._evicted:
            writer.close()


def put(log: SpoolWriter, *keys: str) -> Location:
    location = log.append([answer(key, 1) for key in keys])[0]
    log.flush()
    return location


def test_it_reads_what_is_new_and_nothing_twice(files: FarFiles, logs: list[SpoolWriter]) -> None:
    index = LogIndex(files)
    index.refresh()
    for number in range(5):
        put(logs[number % 2], f"k{number}")
        index.refresh()
        assert len(index.answers) == number + 1 and index.spent("r") == number + 1
    files.counts.clear()
    index.refresh()
    # The next session, the next segment of two writers, the next writer of two seats.
    assert (files.counts["read"], files.counts["exists"]) == (5, 0) and not index.is_local


def test_writers_that_are_left_out_cost_no_read_and_are_read_later(files: FarFiles, logs: list[SpoolWriter]) -> None:
    index, names = LogIndex(files), {log.writer for log in logs}
    put(logs[0], "a")
    put(logs[1], "b")
    index.refresh(but={logs[0].writer})
    assert set(index.answers) == {"b"}
    files.counts.clear()
    index.refresh(but=names)
    assert files.counts["read"] == 1
    index.refresh()
    assert set(index.answers) == {"a", "b"} and index.spent("r") == 2


def test_a_restarted_worker_is_found(files: FarFiles, logs: list[SpoolWriter]) -> None:
    index = LogIndex(files)
    put(logs[0], "a")
    again = SpoolWriter(files, 1, "calling-0")
    put(again, "b")
    index.refresh(but={again.writer})
    assert set(index.answers) == {"a"}
    again.close()
    index.refresh()
    third = SpoolWriter(files, 1, "calling-0")
    put(third, "c")
    third.close()
    index.refresh()
    assert set(index.answers) == {"a", "b", "c"}


def test_what_is_fetched_is_taken_once_in_any_order(files: FarFiles, logs: list[SpoolWriter]) -> None:
    index, dice = LogIndex(files), random.Random(3)
    fetched = []
    for number in range(12):
        put(dice.choice(logs), f"k{number}")
        fetched.append(index.fetch())
        assert index.answers == {}
        if dice.random() < 0.3:
            other = LogIndex(files)
            other.take(fetched[-1])
            assert len(other.answers) == number + 1
    dice.shuffle(fetched)
    for one in [*fetched, *fetched]:
        index.take(one)
    assert len(index.answers) == 12 and index.spent("r") == 12
    index.refresh()
    assert len(index.answers) == 12 and index.spent("r") == 12


def test_near_and_far_fetch_alike(tmp_path: Path) -> None:
    log, index = LogWriter(LocalFiles(tmp_path), "w"), LogIndex(LocalFiles(tmp_path))
    log.append([intent("a", 9), answer("a", 2)])
    first, again = index.fetch(), index.fetch(but={"w"})
    assert index.is_local and index.answers == {} and again.parts == ()
    log.append([answer("b", 5)])
    for fetched in (first, index.fetch(), first):
        index.take(fetched)
    # The second one began where the first one did: what it knows more is left to the next.
    assert set(index.answers) == {"a"} and index.spent("r") == 2
    index.refresh()
    assert set(index.answers) == {"a", "b"} and index.spent("r") == 7


def test_a_near_log_is_opened_by_its_seat_too(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    first, second = open_log(files, 7, "calling-3"), open_log(files, 7, "calling-3")
    assert (first.writer, second.writer) == ("00000007-calling-3-0", "00000007-calling-3-1")
    location = second.append([answer("a")])[0]
    second.flush()
    assert second.unshipped(location) is None
    second.close()
    index = LogIndex(files)
    index.refresh()
    assert set(index.answers) == {"a"}


def test_answers_that_were_lost_are_forgotten_after_a_seal(files: FarFiles, logs: list[SpoolWriter]) -> None:
    log, index = logs[0], LogIndex(files)
    put(log, "shipped")
    with log._changed:
        log._ended = True
        log._changed.notify_all()
    # The ledger was told of it; the machine was lost before it was shipped.
    index.answers["lost"] = Location(segment_name(log.writer, 2), 0, 50)
    index.answers["other"] = Location(segment_name(logs[1].writer, 9), 0, 50)
    index.refresh(but={logs[1].writer})
    seal(files, log.writer)
    index.refresh(but={logs[1].writer})
    index.forget_unshipped(log.writer)
    assert set(index.answers) == {"shipped", "other"}
    index.forget_unshipped("no writer of ours")


def test_a_log_lacks_no_answer_that_was_lost_with_a_machine_and_covered_by_its_allowance(files: FarFiles) -> None:
    begun, purpose = begin(files, "q", False, {"calling": 2}), ("", "m")
    logs = [SpoolWriter(files, begun.number, seat) for seat in ("calling-0", "calling-1")]
    for log in logs:
        log.append([intent(log.writer, 50, "q", model="m"), answer(log.writer, 40, run="q", model="m")])
        log.flush()
    # The ledger knew of one answer more of each when a commit told what was spent.
    spent = {log.writer: {purpose: Tally(80, 2)} for log in logs}

    def lacking() -> dict[str, Tally]:
        index = LogIndex(files)
        index.refresh()
        index.know("q", spent)
        assert all(index.spent_by("q")[log.writer][purpose] >= 80 for log in logs)
        return index.lacking("q")

    assert lacking() == {}
    logs[0].close()
    with logs[1]._changed:
        logs[1]._ended = True
        logs[1]._changed.notify_all()
    begun.end("done")
    # The second one's machine may come back until it is sealed.
    assert list(lacking()) == [logs[0].writer]
    seal_rest(files, begun.number)
    assert lacking() == {logs[0].writer: Tally(40, 1)}
    assert pack(files) == 1 and lacking() == {logs[0].writer: Tally(40, 1)}


def test_answers_that_a_sweep_saved_are_kept(files: FarFiles, logs: list[SpoolWriter]) -> None:
    log, index = logs[0], LogIndex(files)
    put(log, "shipped")
    with log._changed:
        location = log.append([answer("saved")])[0]
        log._ended = True
        log._changed.notify_all()
    log._thread.join()
    index.answers["saved"] = location
    assert sweep(files, 5.0, [log.writer]) == [log.writer]
    index.refresh()
    index.forget_unshipped(log.writer)
    assert set(index.answers) == {"shipped", "saved"} and index.read("saved") == answer("saved")


def test_a_session_that_is_over_is_looked_at_no_more(files: FarFiles, logs: list[SpoolWriter]) -> None:
    index = LogIndex(files)
    put(logs[0], "a")
    for log in logs:
        log.close()
    index.refresh()
    seal_rest(files, 1)
    index.refresh()
    files.counts.clear()
    index.refresh()
    assert dict(files.counts) == {"read": 1} and set(index.answers) == {"a"}


def test_what_comes_between_the_end_and_the_look_is_not_passed_over(files: FarFiles, logs: list[SpoolWriter]) -> None:
    for log in logs:
        log.close()
    begin(files, "q", False, {"calling": 1})
    index, last = LogIndex(files), []

    def write_late(operation: str, name: str) -> None:
        # The seat's next writer comes, writes and goes, and its driver ends, after the index found nobody there.
        if operation == "read" and name == segment_name("00000001-calling-1-1", 0) and not last:
            last.append(name)
            again = FarFiles(files.root)
            late = SpoolWriter(again, 1, "calling-0")
            put(late, "late")
            late.close()
            again.create("drivers/00000001.end.json", b'{"how": "done"}')

    files.after = lambda operation, name: None
    files.before = write_late
    index.refresh()
    index.refresh()
    index.refresh()
    assert last and set(index.answers) == {"late"} and {place[0] for place in index._position.seats} == {2}


@pytest.mark.parametrize("place", ["record", "mark"])
def test_a_flipped_byte_costs_one_record_and_no_money(files: FarFiles, logs: list[SpoolWriter], place: str) -> None:
    log = logs[0]
    log.append([intent("a", 10), intent("b", 10)])
    put(log, "a", "c")
    path = files.path(segment_name(log.writer, 1))
    content = bytearray(path.read_bytes())
    content[30 if place == "record" else -30] ^= 1
    path.write_bytes(bytes(content))
    index = LogIndex(files)
    index.refresh()
    assert index.damaged == 1 and set(index.answers) == {"a", "c"}
    # The later segment's allowance (320) stands. Without its intent, an answer costs what it says.
    assert index.spent("r") == 10 + 1 + 1 + 320


def test_lines_and_names() -> None:
    assert writer_of("log/w.jsonl") == writer_of("log/w.3.jsonl") == writer_of("log/w/00000007.jsonl") == "w"
    assert segment_number("log/w/00000007.jsonl") == 7
    assert segment_number("log/w.jsonl") is None and segment_number("log/packs/abc.jsonl") is None
    assert mark_of(b"") == (0, None) and mark_of(b"noise\n") == (6, None)
    assert intact_length(b"") == 0 and intact_length(b"noise\nmore") == 0
