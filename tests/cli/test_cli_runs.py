"""run, plan, score, status, failures and explain on one real run: the JSON contract, exit codes, and the printed tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from commands import Said

from summhay_ray import api

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
N_CELLS, N_JUDGMENTS = 2 * 4 * 2, 44 * 2
"""Two samples of four queries and two retrievers; 44 insights judged for each retriever."""

FRACTIONS = ("coverage", "citation", "citation_precision", "citation_recall", "joint")
SYSTEM = {
    **dict.fromkeys(("system", "retriever", "ordering", "model"), str),
    **dict.fromkeys((*FRACTIONS, "words_per_bullet", "bullets_per_summary"), float),
    **dict.fromkeys(("n_expected", "n_scored", "n_covered"), int),
    "ci": dict,
}
RUN = {"run": str, "status": str, "cells": dict, "calls": dict, "usd": dict, "seconds": float, "systems": list}
STAGE = {"stage": str, "model": str, "calls": int, "reused": int, "input_tokens": int, "output_tokens": int, "usd": float}


def holds(document: Mapping[str, Any], fields: Mapping[str, type]) -> None:
    """Every documented field is present, with its type."""
    for name, kind in fields.items():
        assert type(document[name]) is kind, name


def holds_systems(systems: list[dict[str, Any]]) -> None:
    assert systems
    for system in systems:
        holds(system, SYSTEM)
        assert all(0 <= system[name] <= 1 for name in FRACTIONS)
        assert set(system["ci"]) == {*FRACTIONS, "coverage_corrected", "joint_corrected"}
        for name, (low, high) in system["ci"].items():
            assert 0 <= low <= system[name] <= high <= 1
        assert 0 <= system["n_covered"] <= system["n_scored"] <= system["n_expected"]


def test_a_run_stops_at_its_budget(finished: Any) -> None:
    document = finished.stopped.document
    assert finished.stopped.code == 3
    holds(document, RUN)
    assert document["status"] == "budget"
    assert document["usd"]["budget"] == 0.02
    assert 0 < document["usd"]["spent"] <= 0.02
    assert 0 < document["cells"]["done"] < document["cells"]["total"] == N_CELLS
    assert document["cells"]["failed"] == 0
    # Cells that were not asked yet are not missing.
    assert sum(system["n_expected"] for system in document["systems"]) < N_JUDGMENTS


def test_a_resumed_run_is_done(finished: Any) -> None:
    document, stopped = finished.done.document, finished.stopped.document
    assert finished.done.code == 0
    holds(document, RUN)
    assert document["run"] == stopped["run"]
    assert document["status"] == "done"
    assert document["cells"] == {"total": N_CELLS, "done": N_CELLS, "failed": 0}
    assert set(document["calls"]) == {"made", "reused", "failed"}
    # Both retrievers may give a query the same documents: then one answer serves both.
    assert 0 < document["calls"]["made"] <= N_CELLS + N_JUDGMENTS - stopped["calls"]["made"]
    assert document["calls"]["reused"] >= stopped["calls"]["made"]
    assert document["calls"]["failed"] == 0
    assert (document["usd"]["budget"], document["usd"]["spent"] > stopped["usd"]["spent"]) == (None, True)
    holds_systems(document["systems"])
    assert [system["system"] for system in document["systems"]] == ["bm25_offline/lead", "oracle_offline/lead"]
    assert {(system["n_expected"], system["n_scored"]) for system in document["systems"]} == {(44, 44)}


def test_the_live_line_on_a_terminal(finished: Any) -> None:
    seen = finished.done.err
    assert seen.startswith("\x1b[?25l") and f"reading {finished.spec}"[:60] in seen
    assert f"━  100%  cells {N_CELLS}/{N_CELLS}  " in seen and "writing the tables" in seen
    # The first line shows the earlier progress and spending.
    done = finished.stopped.document["cells"]["done"]
    assert f"  cells {done}/{N_CELLS}  failures 0  $0.01" in seen
    # The line is rewritten in place and removed at the end, and leaves nothing on the screen.
    assert "\x1b[2K" in seen and seen.endswith("\x1b[1A\x1b[2K") and "\x1b[0m" not in seen
    assert seen.count("\n") < seen.count("\x1b[2K")


def test_no_terminal_no_control_characters(finished: Any) -> None:
    assert "\x1b" not in finished.stopped.err
    assert finished.stopped.err.count("\n") < 40
    told = [text for text in finished.stopped.err.splitlines() if text.startswith(f"{finished.run}  cells ")]
    assert "  cells 0/" in told[0]
    assert told[-1].endswith(" elapsed, ended")


def test_a_person_sees_tables(cli: Cli, finished: Any) -> None:
    said = cli("run", finished.spec, "--store", finished.store)
    everything = cli("run", finished.spec, "--store", finished.store, "--all")
    assert said.code == everything.code == 0
    verdict, rest = said.out.split("\n", 1)
    assert verdict == "Decision by joint, judged by offline/judge" and rest.startswith("No decision: ")
    board = [line for line in rest.splitlines() if line.startswith(("┏", "┃", "│"))]
    assert len(board) >= 4 and max(map(len, board)) <= 100 and rest.count("┏") == 1
    assert f"more: summhay score {finished.run} --all --store {finished.store}\n" in said.out
    for title in ("Judges and their bias", "Results, raw (bias ", "As the release computes it", "Corrected for the judge's bias"):
        assert f"\n{title}" in everything.out
    assert cli("score", finished.run, "--store", finished.store, "--all").out.startswith(everything.out.split("run  ")[0])
    joint = finished.done.document["by_query"][0]["joint"]
    assert f" {100 * joint:.1f} " in said.out
    assert f"cells     {N_CELLS} done, 0 with failures, of {N_CELLS}\n" in said.out
    assert "status    done\n" in said.out
    assert "…" not in said.out


def test_plan_before_and_after(cli: Cli, finished: Any, tmp_path: Path) -> None:
    fresh = cli("plan", finished.spec, "--store", tmp_path / "store", "--json").document
    assert set(fresh["usd"]) == {"min", "expected", "max", "spent", "reserved", "uncertain", "left", "budget"}
    assert 0 < fresh["usd"]["min"] <= fresh["usd"]["expected"] <= fresh["usd"]["max"]
    assert [(stage["stage"], stage["model"]) for stage in fresh["stages"]] == [
        ("summarize", "offline/lead"),
        ("judge", "offline/judge"),
    ]
    for stage in fresh["stages"]:
        holds(stage, STAGE)
    summarize, judge = fresh["stages"]
    assert summarize["calls"] + summarize["reused"] == N_CELLS
    assert judge["calls"] + judge["reused"] == N_JUDGMENTS
    assert not (tmp_path / "store").exists()
    after = cli("plan", finished.spec, "--store", finished.store, "--json").document
    assert {stage["calls"] for stage in after["stages"]} == {0}
    assert {stage["stage"]: stage["reused"] for stage in after["stages"]} == {"summarize": N_CELLS, "judge": N_JUDGMENTS}
    assert (after["usd"]["min"], after["usd"]["expected"], after["usd"]["max"]) == (0.0, 0.0, 0.0)
    spent = finished.done.document["usd"]["spent"]
    assert fresh["usd"]["min"] <= spent <= fresh["usd"]["max"]


def test_status(cli: Cli, finished: Any) -> None:
    document = cli("status", finished.run, "--store", finished.store, "--json").document
    assert (document["status"], document["kind"], document["name"], document["failures"]) == ("done", "summhay", "quick", {})
    assert document["cells"] == {"total": N_CELLS, "done": N_CELLS, "failed": 0}
    assert document["usd"]["spent"] == finished.done.document["usd"]["spent"]
    rows = {name: table["rows"] for name, table in document["tables"].items()}
    assert (rows["summaries"], rows["judgments"], rows["scores"], rows["failures"]) == (N_CELLS, N_JUDGMENTS, N_JUDGMENTS, 0)
    out = cli("status", finished.run, "--store", finished.store).out
    assert re.match(
        rf"run           {finished.run} \(summhay: quick\)\nstatus        done\nbegan         \d{{4}}-\d\d-\d\d \d\d:\d\d UTC\n",
        out,
    )
    assert "sha256" not in out and "\nLeaderboard by joint, judged by offline/judge\n" in out
    everything = cli("status", finished.run, "--store", finished.store, "--all").out
    assert everything.index("status  ") < everything.index("table summaries") and "sha256" in everything


def test_failures_of_a_clean_run(cli: Cli, finished: Any) -> None:
    assert cli("failures", finished.run, "--store", finished.store, "--json").document == {"run": finished.run, "failures": []}
    assert cli("failures", finished.run, "--store", finished.store).out == f"0 failures of {finished.run}\n"


def test_explain_goes_from_a_score_to_the_prompt(cli: Cli, finished: Any) -> None:
    summary = api.table(finished.run, "summaries", str(finished.store)).row(0, named=True)
    found = cli("explain", finished.run, summary["cell_id"], "--store", finished.store, "--json").document
    assert found["raw_answer"]["key"] == summary["key"]
    assert "\n".join(found["bullets"]) == found["raw_answer"]["text"]
    assert all(f"{number}:\n" in found["prompt"] for number in found["context"]["numbers"])
    for row in found["judgments"]:
        assert row["raw_answer"]["key"] == row["judgment"]["key"]
        assert json.loads(row["raw_answer"]["text"])["coverage"] == row["judgment"]["coverage"]
        assert row["insight"] in row["prompt"]
    judged = found["judgments"][0]["judgment"]
    one = cli("explain", finished.run, judged["key"], "--store", finished.store, "--json").document
    assert judged["insight_id"] in [row["judgment"]["insight_id"] for row in one["judgments"]]
    out = cli("explain", finished.run, summary["cell_id"], "--store", finished.store).out
    assert "--- prompt\n" in out
    assert f"answer of offline/lead, key {summary['key']}" in out
    assert "coverage x citation = joint" in out


def test_export_and_import_of_a_run(cli: Cli, finished: Any, tmp_path: Path) -> None:
    written = cli("export", finished.run, "--store", finished.store, "--out", tmp_path / "out", "--json").document["files"]
    assert sorted(written) == [str(tmp_path / "out" / "conversation.json"), str(tmp_path / "out" / "news.json")]
    again = cli("import", *written, "--store", tmp_path / "store", "--json").document
    assert (again["haystacks"], again["documents"], again["queries"]) == (2, 64, 8)
    assert (again["summaries"], again["judgments"], again["failures"]) == (N_CELLS, N_JUDGMENTS, 0)
    scored = cli("score", again["run"], "--store", tmp_path / "store", "--json").document["systems"]
    for mine, theirs in zip(finished.done.document["systems"], scored, strict=True):
        kept = (*FRACTIONS, "system", "retriever", "ordering", "model", "n_expected", "n_scored", "n_covered", "words_per_bullet")
        assert {name: mine[name] for name in kept} == {name: theirs[name] for name in kept}
