"""Missing or damaged files in a store: `status` names each file and reports the rest, in a folder and in a bucket."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from inline_runs import SAMPLE
from s3_servers import Bucket, s3_bucket, s3_server

from summhay_ray import api
from summhay_ray.cli.read import status_facts
from summhay_ray.engine import RunResult, StatusResult, status
from summhay_ray.store import RunStore, Store, StoreError

__all__ = ["s3_bucket", "s3_server"]

PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10.0}
LEAD = {"model": "offline/lead", "price": PRICE}


@dataclass
class Place:
    """A store, and functions that damage it."""

    store: Store
    write: Callable[[str, bytes], object]
    delete: Callable[[str], object]
    copied: bool = False
    """Whether the store is a copy of the finished run's store."""

    def names(self, folder: str) -> list[str]:
        """The files below a folder."""
        files = self.store.files
        here = list(files.names(folder))
        return sorted([*here, *(name for one in files.folders(folder) for name in self.names(f"{folder}/{one}"))])

    def damage(self, name: str, how: str) -> None:
        """`delete`, `flip` a byte in the middle, or `cut` the file there."""
        if how == "delete":
            self.delete(name)
            return
        content = self.store.files.read(name)
        half = len(content) // 2
        self.write(name, content[:half] + (b"" if how == "cut" else bytes([content[half] ^ 1]) + content[half + 1 :]))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "store"
    answer_twice(Store(str(folder)))
    return folder


@pytest.fixture(params=["folder", pytest.param("s3", marks=[pytest.mark.s3, pytest.mark.soak])])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        root = tmp_path / "store"
        shutil.copytree(request.getfixturevalue("finished"), root)
        return Place(
            Store(str(root)), lambda name, text: (root / name).write_bytes(text), lambda name: (root / name).unlink(), True
        )
    bucket: Bucket = request.getfixturevalue("s3_bucket")
    known: Any = {"Bucket": bucket.name}
    client = bucket.server.client()
    return Place(
        Store(bucket.uri()),
        lambda name, text: client.put_object(**known, Key=f"store/{name}", Body=text),
        lambda name: client.delete_object(**known, Key=f"store/{name}"),
    )


def paid(place: Place) -> RunStore:
    """The run of `answer_twice` in this place."""
    if not place.copied:
        return answer_twice(place.store)
    (run_id,) = place.store.run_ids()
    return place.store.run(run_id)


def largest_log(place: Place) -> str:
    """The largest file of the log without a merged copy of its records."""
    for name in place.names("answers"):
        if name.endswith(".merged"):
            place.delete(name)
    return max(place.names("answers"), key=lambda one: len(place.store.files.read(one)))


FIELDS = {**SAMPLE, "summarizers": [LEAD], "judges": [{"model": "offline/judge", "strategy": "per_insight", "price": PRICE}]}


def answer_twice(store: Store) -> RunStore:
    """A finished run, paid for by two starts: the first log has its summaries, the second log the judgments."""
    first = api.run({**FIELDS, "stage_budgets_usd": {"judge": 0.0}}, store.files.uri, budget=5.0, executor="inline")
    done = api.run(FIELDS, store.files.uri, budget=5.0, executor="inline")
    assert (first.status, done.status, first.run) == ("budget", "done", done.run)
    return store.run(done.run)


def run_again(place: Place) -> RunResult:
    """The result of the same command again."""
    return api.run(FIELDS, place.store.files.uri, budget=5.0, executor="inline")


def named(told: StatusResult, *names: str) -> bool:
    """True if each of these files has one problem, in one line, and no other file has any."""
    lines = list(told.problems)
    shown = [value for name, value in status_facts(told) if name == "problem"]
    assert shown == lines and not any("\n" in line for line in lines)
    return len(lines) == len(names) and all(any(name in line for line in lines) for name in names)


def of_log(place: Place) -> list[str]:
    """The doctor's report about the log."""
    return [one.message for one in api.doctor(store=place.store.files.uri) if one.name == "log"]


def test_a_whole_store_has_no_problem(place: Place) -> None:
    run = paid(place)
    told, tallies = status(run), run.log().totals(run.run_id).values()
    assert (list(told.problems), list(told.warnings), told.status, of_log(place)) == ([], [], "done", [])
    assert told.usd["spent"] == sum(tally.usd_micros for tally in tallies) / 1e6 > 0 == told.usd["uncertain"]


def test_a_deleted_log_is_made_up_for_by_the_money_records(place: Place) -> None:
    run = paid(place)
    before = status(run)
    for name in place.names("answers"):
        place.delete(name)
    told = status(run)
    assert (told.usd, told.cells, told.tables, told.status) == (before.usd, before.cells, before.tables, "done")
    assert len(told.warnings) == 1 and f"cost {before.usd['spent']:.6f} dollars less" in told.warnings[0]


@pytest.mark.parametrize("how", ["delete", "cut"])
def test_what_one_file_of_the_log_lacks_stays_spent(place: Place, how: str) -> None:
    run = paid(place)
    before = status(run)
    place.damage(largest_log(place), how)
    told = status(run)
    assert (told.usd, told.tables) == (before.usd, before.tables)
    assert len(told.warnings) == 1 and "dollars less than the run's money records" in told.warnings[0]


def test_a_record_that_is_garbled_is_counted_and_its_file_named_by_the_doctor(place: Place) -> None:
    run = paid(place)
    before = status(run)
    place.damage(name := largest_log(place), "flip")
    told = status(run)
    assert (told.damaged, told.usd, told.tables) == (1, before.usd, before.tables)
    assert len(told.problems) == 1 and "1 records of the answers' log are damaged" in told.problems[0]
    [line] = of_log(place)
    assert place.store.files.where(name) in line and "1 record damaged" in line


@pytest.mark.parametrize(("kind", "how"), [("haystack", "delete"), ("outlines", "flip")])
def test_a_missing_source_is_named(place: Place, kind: str, how: str) -> None:
    run = paid(place)
    before = status(run)
    [name] = place.names(f"objects/{kind}")
    place.damage(name, how)
    told = status(run)
    assert named(told, name) and (told.tables, told.usd, told.cells) == (before.tables, before.usd, before.cells)


def doctored(place: Place) -> list[str]:
    """The problems that the doctor reports for the store's runs."""
    checks = [one for one in api.doctor(store=place.store.files.uri) if one.name.startswith("run ")]
    assert len({one.name for one in checks}) == 1
    return [one.message for one in checks if not one.ok]


@pytest.mark.parametrize("how", ["delete", "flip"])
def test_a_damaged_table_is_said_in_a_line_and_the_doctor_names_it_and_the_way_to_mend_it(
    place: Place, how: str, tmp_path: Path
) -> None:
    run = paid(place)
    before = status(run)
    assert doctored(place) == []
    [name] = place.names(f"runs/{run.run_id}/tables/judgments")
    place.damage(name, how)
    commands: list[Callable[[], object]] = [
        lambda: status(run),
        lambda: api.score(run.run_id, place.store.files.uri),
        lambda: api.make_report(run.run_id, place.store.files.uri),
        lambda: api.export_tables(run.run_id, str(tmp_path / "tables"), store=place.store.files.uri),
    ]
    for command in commands:
        with pytest.raises(StoreError, match=rf"^run {run.run_id} is damaged \(.*; run summhay doctor --store ") as said:
            command()
        assert "\n" not in str(said.value)
    commits = f"runs/{run.run_id}/commits"
    [line] = [line for line in doctored(place) if "does not hold" not in line]
    assert place.store.files.where(name) in line and f"delete the folder {place.store.files.where(commits)}, and run" in line
    for one in place.names(commits):
        place.delete(one)
    assert run_again(place).calls["made"] == 0
    assert doctored(place) == [] and status(run).tables == before.tables


def test_a_run_that_has_lost_its_commits_is_not_taken_for_an_empty_one(place: Place, tmp_path: Path) -> None:
    run = paid(place)
    rows, parts = run.digests(), place.names(f"runs/{run.run_id}/tables")
    for name in place.names(f"runs/{run.run_id}/commits"):
        place.delete(name)
    [line] = doctored(place)
    assert re.search(f"{run.run_id}/commits.* is gone", line)
    lost = rf"{run.run_id}/commits.* is gone\); run summhay doctor"
    with pytest.raises(StoreError, match=lost):
        api.export_tables(run.run_id, str(tmp_path / "tables"), store=place.store.files.uri)
    for command in (api.score, api.status):
        with pytest.raises(StoreError, match=lost):
            command(run.run_id, place.store.files.uri)
    cleaned = api.clean(place.store.files.uri, older_s=0)
    assert place.names(f"runs/{run.run_id}/tables") == parts and "is gone" in cleaned.warnings[0]
    assert run_again(place).calls["made"] == 0
    assert run.digests() == rows and doctored(place) == []


def test_a_damaged_newest_manifest_is_mended_as_the_doctor_says(place: Place) -> None:
    run = paid(place)
    before, newest = status(run), f"runs/{run.run_id}/commits/{run.version():08d}.json"
    place.damage(newest, "flip")
    with pytest.raises(StoreError, match=rf"^run {run.run_id} is damaged \(.*; run summhay doctor --store "):
        status(run)
    [line] = doctored(place)
    assert f"{place.store.files.where(newest)} is damaged; delete it and run or import again" in line
    place.delete(newest)
    assert any("run or import again" in line for line in doctored(place))
    assert run_again(place).calls["made"] == 0
    assert status(run).tables == before.tables and doctored(place) == []


def test_one_changed_letter_of_a_record_is_reported(place: Place) -> None:
    run = paid(place)
    for record, old, new in (("run.json", b"raw_answers", b"raw_answerz"), ("plan.json", b'"model"', b'"modem"')):
        name = f"runs/{run.run_id}/{record}"
        whole = place.store.files.read(name)
        place.write(name, whole.replace(old, new, 1))
        assert any(re.search(f"{record}.* is damaged: it is not as it was written; ", line) for line in doctored(place))
        # Records had no hashes before: a plan with missing fields is reported, too.
        if record == "plan.json":
            place.write(name, re.sub(rb'"sha256": "[0-9a-f]*"', b'"further": 1', whole.replace(old, new, 1)))
            assert any(re.search(f"{record}.* is damaged: it is not as it was written; ", line) for line in doctored(place))
        place.write(name, whole)
    assert doctored(place) == []


def test_the_doctor_goes_on_after_a_run_that_cannot_be_read(place: Place) -> None:
    run = paid(place)
    place.write(f"runs/{run.run_id}/run.json", b"{")
    (line,) = doctored(place)
    assert "run.json" in line and "is damaged: it is not as it was written" in line
    place.delete(f"runs/{run.run_id}/run.json")
    (line,) = doctored(place)
    assert "run.json" in line and line.endswith(" is gone; put it back from a copy, or run or import again")
    assert run_again(place).calls["made"] == 0 and doctored(place) == []


def test_damaged_records_that_nothing_depends_on_hide_nothing(place: Place) -> None:
    run = paid(place)
    usage, names = status(run).usage, ("plan.json", "starts/00000002.json", "stops/00000001.json")
    for name in names:
        place.write(f"runs/{run.run_id}/{name}", b"")
    assert named(told := status(run), *names) and [row["real"] for row in told.usage] == [row["real"] for row in usage]
    assert (told.store_format, dict(status_facts(told))["store format"]) == (3, "3")
    assert run_again(place).calls["made"] == 0


def test_the_doctor_reads_all_files_and_reports_a_missing_format(place: Place) -> None:
    paid(place)
    digest = place.store.put_object("collection", b"documents that no run reads yet")
    checks = api.doctor(store=place.store.files.uri)
    assert all(check.ok for check in checks if check.name in ("objects", "format"))
    place.damage(f"objects/collection/{digest}", "flip")
    place.delete("format.json")
    found = {check.name: check.message for check in api.doctor(store=place.store.files.uri) if not check.ok}
    assert digest in found["objects"] and found["format"].endswith(" is gone; the next run writes it")
    run_again(place)
    assert place.store.files.exists("format.json")
