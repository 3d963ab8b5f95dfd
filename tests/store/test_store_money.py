"""The money records of a run: a later session fences the earlier ones, and no kill hides an amount that may have been spent."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from answers import answer
from far_files import FarFiles
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.store import RUN, DamagedRecord, LocalFiles, LogIndex, LogWriter, Money, MoneyRecord, Superseded, scopes
from summhay_ray.store.money import MoneyRecords
from summhay_ray.store.names import StoreUnavailable

pytestmark = pytest.mark.core

PURPOSE = ("judge", "openai/gpt-mine")
STAGE, MODEL = ("stage", "judge"), ("model", "openai/gpt-mine")
AMOUNTS = st.dictionaries(st.tuples(st.sampled_from(["stage", "model"]), st.text()), st.integers(1, 10**15))


def of_all(micros: int) -> Mapping[tuple[str, str], int]:
    """The amount in every scope of `PURPOSE`."""
    return dict.fromkeys(scopes(PURPOSE), micros)


CALLS = st.dictionaries(st.text(), st.tuples(st.tuples(st.text(), st.text()), st.integers(1, 10**15)))


@given(st.builds(MoneyRecord, st.just(1), st.booleans(), AMOUNTS, AMOUNTS, AMOUNTS, CALLS, AMOUNTS))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, record: MoneyRecord) -> None:
    files = LocalFiles(tmp_path_factory.mktemp("store"))
    records = MoneyRecords(files, "run")
    assert records.newest() is None and records.take_over(1) == MoneyRecord()
    records.append(record)
    assert MoneyRecords(files, "run").newest() == record and MoneyRecords(files, "other").newest() is None


def test_a_later_session_fences_the_earlier(tmp_path: Path) -> None:
    first, second = (MoneyRecords(LocalFiles(tmp_path), "run") for _ in range(2))
    first.take_over(1)
    record = MoneyRecord(1, ended=False, spent=of_all(5), ceiling=of_all(40))
    first.append(record)
    assert second.take_over(2) == record
    for late in (MoneyRecord(1, ended=False, spent=of_all(7), ceiling=of_all(90)), MoneyRecord(1, spent=of_all(5))):
        with pytest.raises(Superseded):
            first.append(late)
    second.append(MoneyRecord(2, spent=of_all(6)))
    with pytest.raises(Superseded):
        first.take_over(1)
    newest = MoneyRecords(LocalFiles(tmp_path), "run").newest()
    assert newest is not None and (newest.session, newest.spent) == (2, of_all(6))


def test_many_records_end_with_the_last(tmp_path: Path) -> None:
    records = MoneyRecords(LocalFiles(tmp_path), "run")
    records.take_over(1)
    for micros in range(1, 40):
        records.append(MoneyRecord(1, ended=False, ceiling=of_all(micros)))
        newest = MoneyRecords(LocalFiles(tmp_path), "run").newest()
        assert newest is not None and newest.ceiling == of_all(micros)


def test_a_record_whose_reply_was_lost_is_written_once(tmp_path: Path) -> None:
    files = FarFiles(tmp_path)
    records, record = MoneyRecords(files, "run"), MoneyRecord(1, ended=False, ceiling=of_all(40))
    records.take_over(1)

    def lose(operation: str, name: str) -> None:
        if operation == "create":
            raise StoreUnavailable("nobody answers")

    files.after = lose
    with pytest.raises(StoreUnavailable):
        records.append(record)
    files.after = lambda operation, name: None
    records.append(record)
    records.append(MoneyRecord(1))
    assert len(list((tmp_path / "runs/run/money").glob("*.json"))) == 3


@pytest.mark.parametrize(
    ("record", "logged", "spent", "uncertain", "missing"),
    [
        (None, 0, 0, 0, 0),
        (None, 30, 30, 0, 0),
        # Ended: its reported amount, and the logged cost.
        (MoneyRecord(1, spent=of_all(30), ceiling=of_all(30)), 30, 30, 0, 0),
        (MoneyRecord(1, spent=of_all(30), charged={PURPOSE: 10}, uncertain=of_all(4), ceiling=of_all(34)), 20, 30, 4, 0),
        # Killed: amounts under the ceiling without an answer may have been spent.
        (MoneyRecord(1, False, spent=of_all(30), ceiling=of_all(100)), 50, 50, 50, 0),
        (MoneyRecord(1, False, spent=of_all(30), charged={PURPOSE: 10}, ceiling=of_all(100)), 60, 70, 30, 0),
        (MoneyRecord(1, False, ceiling=of_all(100)), 0, 0, 100, 0),
        # Answers that the log has lost stay spent.
        (MoneyRecord(1, spent=of_all(30), ceiling=of_all(30)), 20, 30, 0, 10),
        (MoneyRecord(1, False, spent=of_all(30), charged={PURPOSE: 10}, ceiling=of_all(100)), 0, 30, 70, 20),
    ],
)
def test_the_money_of_a_run_that_nobody_works_at(
    tmp_path: Path, record: MoneyRecord | None, logged: int, spent: int, uncertain: int, missing: int
) -> None:
    money = Money.of(record, "r", log_of(tmp_path, answer("a", logged)))
    for scope in (RUN, STAGE, MODEL):
        assert (money.spent[scope], money.uncertain[scope]) == (spent, uncertain), scope
    assert money.missing == missing


def log_of(folder: Path, *answers: dict[str, Any]) -> LogIndex:
    """A store's log with these answers, already read."""
    stage, model = PURPOSE
    with contextlib.closing(LogWriter(LocalFiles(folder), 1)) as log:
        log.append([{**answer, "stage": stage, "model": model} for answer in answers])
    index = LogIndex(LocalFiles(folder))
    index.refresh()
    return index


@pytest.mark.parametrize("ended", [False, True])
def test_an_open_call_costs_nothing_more_once_the_run_has_its_answer(tmp_path: Path, ended: bool) -> None:
    calls = dict.fromkeys("abc", (PURPOSE, 100))
    # 7 are lost forever, three calls are open, and 20 may be granted after a record that is not the last.
    record = MoneyRecord(1, ended, spent=of_all(30), uncertain=of_all(7), calls=calls, ceiling=of_all(337 + (0 if ended else 20)))
    index = log_of(tmp_path, answer("earlier", 30), answer("a", 40), answer("b", 40, run="another run"), answer("d", 1))
    money = Money.of(record, "r", index)
    for scope in (RUN, STAGE, MODEL):
        assert money.spent[scope] == 71 and money.uncertain[scope] == 207 + (0 if ended else 20)
    assert money.calls == {"b": (PURPOSE, 100), "c": (PURPOSE, 100)}


def test_a_damaged_record_shows_how_to_continue(tmp_path: Path) -> None:
    records = MoneyRecords(LocalFiles(tmp_path), "run")
    records.take_over(1)
    records.append(MoneyRecord(1, False, ceiling=of_all(7)))
    path = tmp_path / "runs/run/money/00000002.json"
    path.write_bytes(path.read_bytes().replace(b"7", b"9"))
    again = MoneyRecords(LocalFiles(tmp_path), "run")
    for use in (again.newest, lambda: again.take_over(2)):
        with pytest.raises(DamagedRecord, match=f"{path} is damaged"):
            use()
    path.unlink()
    assert again.newest() == MoneyRecord(1)


WHOLE = {"run": "run", "session": 1, "ended": True, "spent": [["", "", 7]], "charged": [], "uncertain": [], "ceiling": []}


@pytest.mark.parametrize(
    "changed",
    [
        {"spent": None},
        {"spent": [["", "", -7]]},
        {"spent": [["", "", True]]},
        {"spent": [["", "", 7.0]]},
        {"spent": [["", "", 2**63]]},
        {"spent": [["", 7]]},
        {"spent": {"": 7}},
        {"charged": [["\ud800", "m", 7]]},
        {"calls": [["key", "judge", "m", -7]]},
        {"calls": [["key", "judge", 7]]},
        {"session": "1"},
        {"ended": 1},
        {"run": "another"},
    ],
)
def test_a_record_of_another_form_or_of_another_run_is_damaged(tmp_path: Path, changed: dict[str, Any]) -> None:
    records = MoneyRecords(LocalFiles(tmp_path), "run")
    assert records.chain.append(1, WHOLE) and records.newest() == MoneyRecord(1, spent={RUN: 7})
    assert records.chain.append(2, {**WHOLE, **changed})
    with pytest.raises(DamagedRecord, match=r"00000002.json is damaged; .*; run summhay doctor"):
        records.newest()
