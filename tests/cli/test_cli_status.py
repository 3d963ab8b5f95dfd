"""status, failures and explain on a narrow terminal and in a pipe; Ctrl-C prints how to continue."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import Said, write_json
from inline_runs import N_QUERIES, SAMPLE
from synth_runs import run_inline, small

from summhay_ray import api, cli
from summhay_ray.benchmarks.synth import make_haystack as making
from summhay_ray.store import RunStore, Store
from summhay_ray.synth import Unverified

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
TWO = {"topics": [{"topic": f"the dispute about the {name}", "name": name} for name in ("ferry", "tram")]}
WHY = "assign_subtopic: unreadable: the answer holds no JSON object that could be read, and neither did the two others"


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A synthesis in which one of two topics failed for good."""
    real = making.synthesize

    async def one_fails(job: Any, asker: Any) -> Any:
        found = await real(job, asker)
        failed = Unverified("verification", "no_json", WHY, found.checks, key="k" * 64, attempts=3)
        return replace(failed, kind="malformed") if job.topic.name == "ferry" else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "synthesize", one_fails)
        return run_inline(small(**TWO), Store(str(tmp_path_factory.mktemp("half"))))[0]


def at_80_columns(*arguments: str) -> str:
    """The output of a command on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    with pytest.MonkeyPatch.context() as patch, os.fdopen(theirs, "w") as terminal:
        patch.setenv("TERM", "dumb")
        patch.setenv("COLUMNS", "80")
        patch.setattr(sys, "stdout", terminal)
        with pytest.raises(SystemExit):
            cli.main([*arguments])
    said = b""
    with suppress(OSError):  # Linux raises this at the end of a closed terminal; one read may return only a part.
        while part := os.read(ours, 65536):
            said += part
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


def test_failures_in_a_pipe_show_cost_and_key(cli: Cli, half: RunStore) -> None:
    title, _, what, *more = cli("failures", half.run_id, "--store", half.store.uri).out.splitlines()
    assert title == f"1 failures of {half.run_id}, 0.000000 dollars"
    assert what == "synth ferry verification malformed no_json" and max(map(len, more)) <= 100
    assert "  cost  3 attempts, 0.000000 dollars" in more and f"  key   {'k' * 64}" in more
    [found] = cli("failures", half.run_id, "--store", half.store.uri, "--json").document["failures"]
    assert (found["key"], found["usd_micros"], found["haystack"]) == ("k" * 64, 0, "ferry")


def test_failures_on_a_narrow_terminal_are_folded(half: RunStore) -> None:
    lines = at_80_columns("failures", half.run_id, "--store", half.store.uri).splitlines()
    assert all(len(line) <= 80 for line in lines), lines
    assert lines[2] == "synth ferry verification malformed no_json"
    assert lines[3:] == [
        "  why   assign_subtopic: unreadable: the answer holds no JSON object that could",
        "        be read, and neither did the two others",
        "  cost  3 attempts, 0.000000 dollars",
        f"  cell  {half.table('failures')['cell_id'][0]}",
        f"  key   {'k' * 64}",
    ]


def test_a_failed_topic_and_a_made_one_are_explained_by_name(cli: Cli, half: RunStore) -> None:
    store = ("--store", half.store.uri)
    failed = cli("explain", half.run_id, "ferry", *store)
    assert failed.code == 0 and f"key      {'k' * 64}\n" in failed.out
    assert "verification malformed no_json: assign_subtopic" in failed.out and "insight_specific" in failed.out
    made = cli("explain", half.run_id, "tram", *store)
    assert made.code == 0 and f"summhay explain {half.run_id} tram/d1" in made.out
    one = cli("explain", half.run_id, "tram/d1", *store, "--json").document
    assert one["document"]["document_id"] == "d1" and one["document"]["answers"]
    line = cli("explain", half.run_id, "mill/d1", *store).refusal
    assert line.endswith("has no cell or answer 'mill/d1', and no haystack of that name; it has: ferry, tram")


def test_status_names_topics(cli: Cli, half: RunStore) -> None:
    out = cli("status", half.run_id, "--store", half.store.uri).out
    assert "status        partial\n" in out and "topics        1 done, 1 with failures, of 2\n" in out


@pytest.mark.parametrize("command", ["synth", "run", "rejudge"])
def test_ctrl_c_prints_how_to_continue(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, command, interrupted)
    monkeypatch.setattr(sys, "argv", ["summhay"])
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "spec.yaml", "--store", str(tmp_path)])
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (130, "")
    assert said.err == "summhay: stopped; run the same command again to resume\n"


# --- the runs of a store ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """A store with two runs, the second one stopped at its budget."""
    store = str(tmp_path_factory.mktemp("two") / "store")
    price = {"input_per_mtok": 2.5, "output_per_mtok": 10.0}
    fields = {**SAMPLE, "name": "first"}
    done = api.run(fields, store, executor="inline")
    fields |= {"name": "second", "seed": 5, "summarizers": [{"model": "offline/lead", "price": price, "max_tokens": 300}]}
    stopped = api.run(fields, store, budget=0.001, executor="inline")
    assert (done.status, stopped.status) == ("done", "budget")
    return store, [done.run, stopped.run]


def test_the_runs_of_a_store_are_listed(cli: Cli, two_runs: tuple[str, list[str]]) -> None:
    store, (done, stopped) = two_runs
    found = {one["run"]: one for one in cli("runs", "--store", store, "--json").document["runs"]}
    assert found.keys() == {done, stopped}
    assert {name: found[done][name] for name in ("name", "kind", "status", "cells", "usd")} == {
        "name": "first",
        "kind": "summhay",
        "status": "done",
        "cells": {"total": N_QUERIES, "done": N_QUERIES, "failed": 0},
        "usd": {"spent": 0.0, "reserved": 0.0, "uncertain": 0.0, "left": None, "budget": None},
    }
    for run in (done, stopped):
        told = api.status(run, store)
        assert (found[run]["status"], found[run]["cells"], found[run]["usd"]) == (told.status, told.cells, told.usd)
        size = sum(path.stat().st_size for path in (Path(store) / "runs" / run).rglob("*") if path.is_file())
        assert found[run]["bytes"] == size
    said = cli("runs", "--store", store)
    assert said.code == 0 and all(f" {run} " in said.out for run in found) and " budget " in said.out


LOADED = """
import json, sys
from summhay_ray.cli import main
loaded = []
for words in map(str.split, sys.argv[1:]):
    try:
        main(words)
    except SystemExit as stop:
        assert not stop.code, words
    loaded.append([*sys.modules])
sys.stderr.write("\\n" + json.dumps(loaded))
"""


def test_to_read_a_run_loads_little_and_to_run_no_more_than_it_needs(two_runs: tuple[str, list[str]], tmp_path: Path) -> None:
    store, (done, _) = two_runs
    spec = write_json(tmp_path / "spec.yaml", SAMPLE)
    words = [f"status {done} --store {store}", f"run {spec} --store {tmp_path / 'store'} --executor inline"]
    said = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, timeout=60, check=True)
    reading, running = map(set, json.loads(said.stderr.splitlines()[-1]))
    assert {"polars", "summhay_ray.cli.record_tables"} <= reading
    heavy = {"ray", "litellm", "torch", "pandas", "nltk", "tiktoken", "rank_bm25", "scipy.stats", "matplotlib", "jinja2", "boto3"}
    assert reading & {*heavy, "aiohttp", "http.server", "summhay_ray.report.make", "summhay_ray.synth"} == set()
    heavy = {"ray", "litellm", "openai", "httpx", "torch", "pandas", "matplotlib", "boto3", "summhay_ray.synth"}
    assert running & heavy == set()


def test_an_empty_store_says_how_to_begin(cli: Cli, tmp_path: Path) -> None:
    said = cli("runs", "--store", str(tmp_path / "none"))
    assert (said.code, "summhay run SPEC" in said.out) == (0, True)
    assert not (tmp_path / "none").exists()


def test_a_damaged_run_is_listed_as_such(cli: Cli, two_runs: tuple[str, list[str]], tmp_path: Path) -> None:
    store, (done, stopped) = two_runs
    copy = shutil.copytree(store, tmp_path / "copy")
    (copy / "runs" / done / "run.json").write_text("{")
    found = {one["run"]: one for one in cli("runs", "--store", str(copy), "--json").document["runs"]}
    assert {run: one["status"] for run, one in found.items()} == {done: "damaged", stopped: "budget"}
    assert (found[done]["cells"], found[done]["usd"]) == (None, None)
    assert "damaged" in cli("runs", "--store", str(copy)).out


def test_the_beginning_of_an_id_is_enough(cli: Cli, two_runs: tuple[str, list[str]]) -> None:
    store, (done, stopped) = two_runs
    n = next(n for n in range(1, 13) if done[:n] != stopped[:n])
    assert cli("status", done[:n], "--store", store, "--json").document["run"] == done
    assert cli("score", done[:n], "--store", store, "--json").code == 0
    said = cli("status", "r", "--store", store)
    assert (said.code, f"begins the ids of {', '.join(sorted(two_runs[1]))}; write more of it" in said.err) == (2, True)
    assert f"it has: {', '.join(sorted(two_runs[1]))}" in cli("status", "x", "--store", store).err
