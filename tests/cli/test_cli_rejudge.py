"""`summhay rejudge` and `summhay compare` on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Said
from rejudged_runs import N_INSIGHTS, N_QUERIES, source_run

pytestmark = pytest.mark.core

Cli = Callable[..., Said]

JUDGES = ("offline", "cascade(offline,replay/gpt-4o,0.5)")
N_ASKED = N_INSIGHTS // 2
TOLD = {"run", "kind", "of", "status", "cells", "calls", "usd", "left", "seconds", "executor", "stopped_models", "warnings"}
REJUDGE = TOLD | {"commonest_failure", "tried_again", "judges", "cascades", "failures"}


def test_judgments_stand_beside_the_old_ones(cli: Cli, tmp_path: Path) -> None:
    run = source_run(tmp_path)
    store = ("--store", run.store.uri)
    named = [argument for name in JUDGES for argument in ("--judge", name)]
    said = cli("rejudge", run.run_id, *named, "--executor", "inline", *store, "--json")
    assert said.code == 4, "the sample holds no released judgment: whoever the cascade asks about fails"
    found = said.document
    assert found.keys() == REJUDGE and (found["of"], found["status"]) == (run.run_id, "partial")
    assert [(one["judge"], one["n_judged"], one["n_failed"]) for one in found["judges"]] == [
        ("offline/judge", N_INSIGHTS, 0),
        (JUDGES[1], N_INSIGHTS - N_ASKED, N_ASKED),
    ]
    [choice] = found["cascades"]
    assert (choice["judge"], choice["n_asked"], choice["n"], choice["by_budget"]) == (JUDGES[1], N_ASKED, N_INSIGHTS, False)
    assert choice["uncertainty_left"] < choice["uncertainty_asked"]

    told = cli("failures", found["run"], *store, "--json").document["failures"]
    assert len(told) == N_ASKED and {one["system"] for one in told} == {"bm25_offline/lead"}
    assert cli("status", found["run"], *store, "--json").document["cells"]["total"] == N_QUERIES

    # A finished rejudge again makes no call. The free judge's own rejudge has the questions of the cascade.
    again = cli("rejudge", run.run_id, "--judge", "offline", *store)
    assert again.code == 0 and again.err == "" and "0 made" in again.out and "offline/judge" in again.out

    compared = cli("compare", run.run_id, "--judges", "offline/judge", JUDGES[1], *store, "--json")
    assert compared.code == 0 and compared.document["agreement"]["n"] == N_INSIGHTS - N_ASKED
    shown = cli("compare", run.run_id, "--judges", "offline/judge", JUDGES[1], *store)
    assert "insights scored by both" in shown.out and "Where they differ most" in shown.out


def test_errors_are_reported_before_anything_is_written(cli: Cli, tmp_path: Path) -> None:
    run = source_run(tmp_path)
    store = ("--store", run.store.uri)
    assert "no judge is named: give --judge NAME" in cli("rejudge", run.run_id, *store).refusal
    assert "did you mean 'blend'?" in cli("rejudge", run.run_id, "--judge", "blnd(openai/gpt-4o,offline)", *store).refusal
    assert (
        "has no two systems to compare among bm25_offline/lead; give a second run, or two"
        in cli("compare", run.run_id, *store).refusal
    )
    one = cli("compare", run.run_id, "--judges", "offline", *store)
    assert "'--judges': expected two names, A B; found the option --store" in one.refusal
    assert "has no run 'rzz'" in cli("rejudge", "rzz", "--judge", "offline", *store).refusal
    assert run.store.run_ids() == [run.run_id]
