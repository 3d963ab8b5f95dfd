"""Messages about the user's own mistakes: the fault, its place and the remedy, in one line."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import Said, released, write_json, write_spec

from summhay_ray import api
from summhay_ray.engine.run.inline import InlineExecution
from summhay_ray.errors import UserError

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
MINE = """\
import sys


class Lost:
    name, whole = "lost", False

    def __init__(self, argument="", seed=0):
        pass

    def rank(self, subtopic, haystack):
        raise ValueError("no index")


class Leaves:
    name = "leaves"

    async def summarize(self, task, ask):
        sys.exit("bye")


class Breaks:
    name = "breaks"

    async def judge(self, insights, bullets, settings, ask):
        raise KeyError("verdict")

"""
SMALL = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "token_budget": 1500, "executor": "inline"}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with a module of the user."""
    (tmp_path / "of_mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("of_mine", None)
    while str(tmp_path) in sys.path:
        sys.path.remove(str(tmp_path))


def test_ones_own_code_that_raises_is_reported_with_file_and_line(mine: Path, cli: Cli) -> None:
    leaving = {"model": "offline/lead", "name": "leaving", "strategy": "of_mine:Leaves"}
    own = {"retrievers": ["bm25", "of_mine:Lost"], "summarizers": ["offline/lead", leaving], "judges": ["of_mine:Breaks"]}
    spec = write_spec(mine, {**SMALL, **own})
    done = cli("run", spec, "--json")
    assert done.code == 4
    found = cli("failures", done.document["run"][:5], "--json").document
    assert found["run"] == done.document["run"]
    told = {(row["error"], row["message"]) for row in found["failures"]}
    assert told == {
        ("retriever_error", "ValueError: no index (of_mine.py:11)"),
        ("strategy_error", "SystemExit: bye (of_mine.py:18)"),
        ("judge_error", "KeyError: 'verdict' (of_mine.py:25)"),
    }
    lost = next(row for row in found["failures"] if row["error"] == "strategy_error")
    assert "SystemExit: bye (of_mine.py:18)" in cli("explain", found["run"], lost["cell_id"]).out


def test_a_plan_tries_ones_own_code_and_reports_the_result(mine: Path, cli: Cli) -> None:
    spec = write_spec(mine, {**SMALL, "retrievers": ["of_mine:Lost"], "summarizers": ["offline/lead"]})
    planned = cli("plan", spec, "--json")
    assert planned.code == 0
    assert planned.document["warnings"] == ["4 cells will fail: retriever_error: ValueError: no index (of_mine.py:11)"]
    judged = write_spec(mine, {**SMALL, "summarizers": ["offline/lead"], "judges": ["of_mine:Breaks"]})
    said = cli("plan", judged)
    assert (
        said.code == 1 and "'of_mine:Breaks', tried on a first question, raises KeyError: 'verdict' (of_mine.py:25)" in said.err
    )


def test_unknown_placeholders_are_refused_with_the_known_ones(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "p.txt").write_text("[INST] [ARTICLES] [QUERY], cite as [1][2]. [ARTICEL]")
    spec = write_spec(tmp_path, {**SMALL, "summarizers": [{"model": "offline/lead", "prompt": "p.txt"}]})
    told = cli("plan", spec).refusal
    assert told.startswith(f"{spec}: prompt 'p.txt': [ARTICEL] is not a placeholder; known: [DOCUMENTS], [ARTICLES], ")
    (tmp_path / "j.txt").write_text("[[INSIGHT]] [[BULLETS]] [[SUMMARY]]")
    judged = write_spec(
        tmp_path, {**SMALL, "summarizers": ["offline/lead"], "judges": [{"model": "openai/x", "price": 0, "prompt": "j.txt"}]}
    )
    assert (
        "[[SUMMARY]] is not a placeholder of the judge's prompt; known: [[INSIGHT]], [[BULLETS]]" in cli("plan", judged).refusal
    )


def test_the_wrong_store_names_how_another_is_given(tmp_path: Path, cli: Cli) -> None:
    assert cli("status", "r123", "--store", tmp_path).refusal.endswith("another store is given by --store or $SUMMHAY_STORE")


def test_a_full_disk_is_reported_with_its_path_and_the_remedy(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "x"))

    monkeypatch.setattr(api, "runs", full)
    said = cli("runs", "--store", tmp_path)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(
        f"summhay: {tmp_path / 'x'}: no room is left on the disk (No space left on device); make room and run"
    )


def test_a_disk_that_fills_up_in_a_run_is_reported_with_its_place(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(InlineExecution, "begin", full)
    said = cli("run", write_spec(tmp_path, {**SMALL, "summarizers": ["offline/lead"]}), "--store", tmp_path / "store")
    told = f"no room is left on the disk of {tmp_path / 'store'} (No space left on device); make room; what was answered is kept"
    assert said.code == 1 and told in said.err


def test_an_import_whose_tables_cannot_be_written_fails(tmp_path: Path, cli: Cli) -> None:
    file, store = write_json(tmp_path / "news.json", released()), tmp_path / "store"
    run = cli("import", file, "--store", store, "--json").document["run"]
    tables = store / "runs" / run / "tables"
    shutil.rmtree(tables)
    tables.write_text("a file stands where the folder is to be")
    said = cli("import", file, "--store", store)
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1) and said.err.startswith(f"summhay: {tables}")


def test_places_that_cannot_be_are_refused_in_one_line(finished: object, tmp_path: Path, cli: Cli) -> None:
    run, store = finished.run, finished.store  # type: ignore[attr-defined]
    (tmp_path / "file").write_text("x")
    for arguments in (
        ("export", run, "--store", store, "--out", "/proc/x"),
        ("export", run, "--store", store, "--out", tmp_path / "file"),
        ("export", run, "--store", store, "--tables", tmp_path / "file"),
        ("runs", "--store", tmp_path / "file" / "x"),
    ):
        assert "give" in cli(*arguments).refusal
    said = cli("run", finished.spec, "--store", tmp_path / "file" / "store")  # type: ignore[attr-defined]
    assert said.code in (1, 2) and said.err.count("\n") == 1 and str(tmp_path / "file") in said.err


def test_clean_refuses_a_store_that_is_not_there(tmp_path: Path, cli: Cli) -> None:
    refusal = cli("clean", "--store", tmp_path / "typo").refusal
    assert refusal == f"there is no store at {tmp_path / 'typo'}; another one is given by --store or $SUMMHAY_STORE"
    assert not (tmp_path / "typo").exists()


def test_options_of_the_other_kind_of_export_are_refused(finished: object, tmp_path: Path, cli: Cli) -> None:
    export = ("export", finished.run, "--store", finished.store)  # type: ignore[attr-defined]
    assert "--judge belongs to --out" in cli(*export, "--tables", tmp_path / "t", "--judge", "offline/judge").err
    assert "--format belongs to --tables" in cli(*export, "--out", tmp_path / "t", "--format", "csv").err
    assert not (tmp_path / "t").exists()


def test_what_cannot_be_read_is_not_the_targets_fault(finished: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unread(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error", "/elsewhere/block")

    monkeypatch.setattr("summhay_ray.store.write_tables", unread)
    with pytest.raises(OSError, match="Input/output error"):
        api.export_tables(finished.run, tmp_path / "out", str(finished.store))  # type: ignore[attr-defined]

    def unwritten(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error", str(tmp_path / "out" / "judgments"))

    monkeypatch.setattr("summhay_ray.store.write_tables", unwritten)
    with pytest.raises(UserError, match="no table can be written there"):
        api.export_tables(finished.run, tmp_path / "out", str(finished.store))  # type: ignore[attr-defined]


def test_every_command_prints_the_whole_id(finished: object, cli: Cli, tmp_path: Path) -> None:
    run, short, at = finished.run, finished.run[:4], ("--store", finished.store, "--json")  # type: ignore[attr-defined]
    for arguments in (("status", short), ("failures", short), ("score", short), ("export", short, "--tables", tmp_path / "t")):
        assert cli(*arguments, *at).document["run"] == run
