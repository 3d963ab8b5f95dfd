"""Damaged packs in a bucket: no good copy is deleted, the doctor says what is lost, and its remedy keeps what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from far_files import answer
from s3_servers import Bucket, s3_bucket, s3_server

from summhay_ray import api
from summhay_ray.store import Chain, LogIndex, Store, StoreError, begin, open_log, pack
from summhay_ray.store import packs as room

pytestmark = pytest.mark.s3
__all__ = ["s3_bucket", "s3_server"]

MEND = "put it back from a copy; or delete the folder log/packs"
CLEANED = "answers whose segments were cleaned are then lost"
NO_COST = "delete the folder log/packs: nothing is lost, since segments hold every answer"


@dataclass
class Place:
    """A store in a bucket, and what happens to its objects."""

    store: Store
    put: Callable[[str, bytes], object]
    delete: Callable[[str], object]

    def session(self, *answers: tuple[str, int]) -> None:
        """A session of run `r` with these answers (key, micro-dollars), packed at its end."""
        files = self.store.files
        session = begin(files, "r", False, {"calling": 1})
        log = open_log(files, session.number, "calling-0")
        log.append([answer(key, micros, text=key * 9) for key, micros in answers])
        log.close()
        session.end("done")
        assert pack(files) == 1

    def packs(self) -> list[dict[str, Any]]:
        """The entries of the current packs."""
        newest = Chain(self.store.files, "log/packs").newest()
        assert newest is not None
        found: list[dict[str, Any]] = newest[1]["packs"]
        return found

    def damage(self, name: str, how: str) -> None:
        """`delete` an object, `zero` it, or `flip` a byte in the middle."""
        content = self.store.files.read(name)
        half = len(content) // 2
        if how == "delete":
            self.delete(name)
        else:
            self.put(name, bytes(len(content)) if how == "zero" else flipped(content, half))

    def garble(self, *keys: str) -> None:
        """Flip a byte in the line of each of these answers of the only pack."""
        (entry,) = self.packs()
        content = self.store.files.read(entry["data"])
        for key in keys:
            content = flipped(content, content.index(key.encode() * 9))
        self.put(entry["data"], content)

    def delete_packs(self) -> None:
        """What the message advises."""
        for name in [*self.store.files.names("log/packs")]:
            self.delete(name)

    def answers(self) -> dict[str, Any]:
        """Every answer that a reader finds."""
        index = LogIndex(self.store.files)
        index.refresh()
        return {key: index.read(key) for key in index.answers}

    def doctored(self) -> list[str]:
        """What the doctor says of the log."""
        return [check.message for check in api.doctor(store=self.store.files.uri) if check.name == "log" and not check.ok]


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.fixture
def place(s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("SUMMHAY_SPOOL", str(tmp_path / "spool"))
    client, known = s3_bucket.server.client(), {"Bucket": s3_bucket.name}
    return Place(
        Store(s3_bucket.uri()),
        lambda name, content: client.put_object(**known, Key=f"store/{name}", Body=content),
        lambda name: client.delete_object(**known, Key=f"store/{name}"),
    )


@pytest.mark.parametrize(
    ("kind", "how"), [("data", "flip"), ("data", "zero"), ("data", "delete"), ("index", "flip"), ("index", "delete")]
)
def test_nothing_of_the_log_is_deleted_if_a_pack_is_damaged(place: Place, s3_bucket: Bucket, kind: str, how: str) -> None:
    place.session(("a", 1))
    place.session(("b", 2))
    place.session(("c", 3))
    expected = place.answers()
    (entry,) = place.packs()
    place.damage(entry[kind], how)
    before = s3_bucket.keys()
    told = api.clean(place.store.files.uri, 0.0)
    assert told.files == 0 and s3_bucket.keys() == before, "older packs and drivers' records lead to the answers as well"
    (line,) = told.warnings
    assert line.startswith("the log is left as it is: ") and entry[kind] in line
    assert [run.status for run in api.runs(place.store.files.uri)] == []
    place.delete_packs()
    assert place.answers() == expected and len(expected) == 3


def test_what_is_packed_after_the_packs_were_deleted_covers_the_sessions_that_were_cleaned(place: Place) -> None:
    for key in "abc":
        place.session((key, 1))
    api.clean(place.store.files.uri, 0.0)
    place.delete_packs()
    session = begin(place.store.files, "r", False, {"calling": 1})
    session.end("done")
    assert pack(place.store.files) == 2, "the run's last driver's record is kept"
    newest = Chain(place.store.files, "log/packs").newest()
    assert newest is not None and (newest[1]["through"], newest[1]["others"]) == (session.number, [])


def test_answers_that_went_with_the_packs_after_a_cleaning_are_counted(place: Place) -> None:
    place.session(("a", 1), ("b", 2))
    place.session(("c", 3))
    index = LogIndex(place.store.files)
    index.refresh()
    spent = index.spent_of("r")
    api.clean(place.store.files.uri, 0.0)
    place.delete_packs()
    later = LogIndex(place.store.files)
    later.know("r", spent)
    later.refresh()
    # Of the first session nothing is left, not even its record; of the second, the run's last one, the record.
    assert {writer: (lacks.answers, lacks.usd_micros) for writer, lacks in later.lacking("r").items()} == {
        "00000001-calling-0-0": (2, 3),
        "00000002-calling-0-0": (1, 3),
    }


def test_of_a_damaged_pack_whose_segments_are_there_the_doctor_says_that_it_costs_nothing(place: Place) -> None:
    place.session(("a", 1), ("b", 2))
    expected = place.answers()
    place.garble("b")
    (line,) = place.doctored()
    assert f"is damaged: 1 of its 2 answers cannot be read, segments still hold all of them; {NO_COST}" in line
    place.delete_packs()
    assert place.answers() == expected and place.doctored() == []


def test_of_a_damaged_pack_whose_segments_were_cleaned_the_doctor_says_what_it_had_cost(place: Place) -> None:
    place.session(("a", 10), ("b", 200), ("c", 3000))
    api.clean(place.store.files.uri, 0.0)
    place.garble("b", "c")
    (line,) = place.doctored()
    # 210 of 3,210 micro-dollars are in the line that is whole.
    dollars = (10 + 200 + 3000 - 10) / 1e6
    told = f"2 of its 3 answers cannot be read, segments still hold 0 of them, the others had cost at most {dollars:.6f} dollars"
    assert (
        f"{told}; {MEND}: answers whose segments were cleaned (3) are then lost, and a run that needs them pays for them again"
        in line
    )


def test_answers_that_are_still_in_segments_are_counted_apart(place: Place) -> None:
    place.session(("a", 10), ("b", 200))
    api.clean(place.store.files.uri, 0.0)
    place.session(("c", 3000))
    (entry,) = place.packs()
    place.damage(entry["data"], "delete")
    (line,) = place.doctored()
    told = (
        f"3 of its 3 answers cannot be read, segments still hold 1 of them, the others had cost at most {210 / 1e6:.6f} dollars"
    )
    assert "is gone: " in line and f"{told}; {MEND}: answers whose segments were cleaned (2)" in line
    place.delete_packs()
    assert [*place.answers()] == ["c"]


def test_without_data_and_index_it_is_not_known_what_is_lost(place: Place) -> None:
    place.session(("a", 10))
    (entry,) = place.packs()
    place.damage(entry["data"], "zero")
    place.damage(entry["index"], "flip")
    (line,) = place.doctored()
    flaws = ("is damaged and ", "is damaged, without which no run goes on: ")
    assert all(flaw in line for flaw in flaws) and entry["index"] in line
    assert f"how many answers are lost, and what they had cost, is not known; {MEND}: {CLEANED}" in line


def test_a_damaged_index_is_told_with_the_prices_in_the_data(place: Place) -> None:
    place.session(("a", 10), ("b", 200))
    api.clean(place.store.files.uri, 0.0)
    (entry,) = place.packs()
    place.damage(entry["index"], "delete")
    (line,) = place.doctored()
    told = (
        f"2 of its 2 answers cannot be read, segments still hold 0 of them, the others had cost at most {210 / 1e6:.6f} dollars"
    )
    assert f"is gone, without which no run goes on: {told}; {MEND}: answers whose segments were cleaned (2)" in line


def test_a_pack_that_is_counted_by_a_later_one_is_told_with_at_most_what_they_had_cost(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "SIZE", 150)
    place.session(("a", 10), ("b", 200), ("c", 3000))
    api.clean(place.store.files.uri, 0.0)
    first, *rest = place.packs()
    assert len(rest) == 2
    place.damage(first["data"], "zero")
    (line,) = place.doctored()
    assert (
        f"1 of its 1 answers cannot be read, segments still hold 0 of them, the others had cost at most {3210 / 1e6:.6f}" in line
    )
    assert f"{MEND}: answers whose segments were cleaned (3)" in line


@pytest.mark.parametrize(("how", "told"), [("zero", ": the record at byte 0 is damaged; "), ("delete", " is gone; ")])
def test_who_reads_an_answer_of_a_damaged_pack_is_told_the_same_remedy(place: Place, how: str, told: str) -> None:
    place.session(("a", 1))
    (entry,) = place.packs()
    place.damage(entry["data"], how)
    with pytest.raises(StoreError) as raised:
        place.answers()
    assert str(raised.value).startswith(f"{place.store.files.where(entry['data'])}{told}{MEND}: {CLEANED}")


def test_a_damaged_record_of_a_segment_in_a_bucket_is_not_told_to_be_edited(place: Place) -> None:
    files = place.store.files
    log = open_log(files, begin(files, "r", False, {"calling": 1}).number, "calling-0")
    (location,) = log.append([answer("a", 1)])
    log.close()
    index = LogIndex(files)
    index.refresh()
    place.damage(location.name, "zero")
    with pytest.raises(StoreError, match=r"the record at byte 0 is damaged; run again to ask again$"):
        index.read("a")
