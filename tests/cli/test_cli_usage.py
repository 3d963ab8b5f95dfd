"""Bad usage: one line with the place, the fault and the remedy, exit code 2, and nothing is written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import SUMMHAY, Said, released, write_json, write_spec

pytestmark = pytest.mark.core
OTHER = "another store is given by --store or $SUMMHAY_STORE"

Cli = Callable[..., Said]
SMALL = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "summarizers": ["offline/lead"]}


@pytest.mark.parametrize(
    ("arguments", "said", "where"),
    [
        ([], "Missing command", "summhay"),
        (["pla"], "'plan'", "summhay"),
        (["run"], "Missing argument 'SPEC'", "summhay run"),
        (["explain", "r1"], "Missing argument 'KEY'", "summhay explain"),
        (["import"], "Missing argument 'FILE.json...'", "summhay import"),
        (["export", "r1"], "give one of --out FOLDER", "summhay export"),
        (["plan", "a", "b"], "extra argument", "summhay plan"),
        (["run", "x", "--stor", "y"], "No such option: --stor", "summhay run"),
        (["run", "x", "--store"], "'--store' requires an argument", "summhay"),
        (["score", "x", "--compat", "relase"], "'relase' is not one of 'default', 'release'", "summhay score"),
    ],
)
def test_usage(cli: Cli, arguments: list[str], said: str, where: str) -> None:
    line = cli(*arguments).refusal
    assert said in line
    assert line.endswith(f" (see {where} --help)")


@pytest.mark.parametrize("budget", ["-1", "nan", "inf", "much"])
def test_a_budget_is_a_number_of_dollars(cli: Cli, tmp_path: Path, budget: str) -> None:
    store = tmp_path / "store"
    said = cli("run", write_spec(tmp_path, SMALL), "--budget", budget, "--store", store)
    assert "budget" in said.refusal
    assert not store.exists()


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("gs://bucket/x", "store gs:...: not supported; give a folder such as ./summhay-store, or s3://BUCKET/PREFIX"),
        ("s3:///x", "give s3://BUCKET/PREFIX, or s3://BUCKET/PREFIX?endpoint_url=https://HOST:PORT&region=REGION"),
        ("a-file", "is a file; give a folder"),
    ],
)
def test_a_store_is_a_folder_or_in_a_bucket(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("")
    for arguments in (
        ["status", "r1"],
        ["plan", write_spec(tmp_path, SMALL)],
        ["import", write_json(Path("x.json"), released())],
    ):
        assert cli(*arguments, "--store", where).refusal.endswith(line)


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["failures"],
        pytest.param(["score"], marks=pytest.mark.soak),
        pytest.param(["explain", "", "abcdef"], marks=pytest.mark.soak),
        pytest.param(["export", "", "--out", "out"], marks=pytest.mark.soak),
    ],
)
def test_an_unknown_run_names_the_runs_there_are(cli: Cli, tmp_path: Path, arguments: list[str]) -> None:
    store = tmp_path / "store"
    name, *rest = [argument for argument in arguments if argument]
    line = cli(name, "r0", *rest, "--store", store).refusal
    assert line == f"store {str(store)!r} has no run 'r0'; it has: none; {OTHER}"
    assert not store.exists()
    run = cli("import", write_json(tmp_path / "x.json", released()), "--store", store, "--json").document["run"]
    assert (
        cli(name, "../../etc", *rest, "--store", store).refusal
        == f"store {str(store)!r} has no run '../../etc'; it has: {run}; {OTHER}"
    )


def test_the_store_is_the_options_else_the_variables_else_here(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_json(tmp_path / "x.json", released())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUMMHAY_STORE", raising=False)
    assert cli("import", file).code == 0
    assert (tmp_path / "summhay-store" / "runs").is_dir()
    monkeypatch.setenv("SUMMHAY_STORE", str(tmp_path / "named"))
    assert cli("import", file).code == 0
    assert (tmp_path / "named" / "runs").is_dir()
    assert cli("import", file, "--store", tmp_path / "given").code == 0
    assert (tmp_path / "given" / "runs").is_dir()


def test_a_store_below_a_file_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = cli("import", write_json(tmp_path / "x.json", released()), "--store", tmp_path / "file" / "store")
    assert said.refusal.endswith(f"{tmp_path / 'file'} is a file; give a folder")


def test_a_reader_that_has_enough_is_no_error_message(tmp_path: Path) -> None:
    line = f"{sys.executable} {SUMMHAY} runs | true"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
