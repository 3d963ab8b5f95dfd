"""A run that was judged again keeps the figures of its own judge, until `--judge` names another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Said, released, write_json

import summhay_ray
from summhay_ray.errors import UserError

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
PAIR = ("--systems", "*", "*")
OWN, FREE = "released", "offline/judge"


@pytest.fixture(scope="module")
def judged_again(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """(run, store) of a released file, judged again by a judge that precedes `released` in the alphabet."""
    folder = tmp_path_factory.mktemp("judged")
    run = summhay_ray.import_released([write_json(folder / "small.json", released())], str(folder / "store")).run
    assert summhay_ray.rejudge(run, "offline", str(folder / "store"), executor="inline").status == "done"
    return run, folder / "store"


def joints(document: dict[str, Any]) -> dict[tuple[str, str], float]:
    return {(one["judge"], one["system"]): one["joint"] for one in document["systems"]}


def test_score_begins_with_the_runs_own_judge(cli: Cli, judged_again: tuple[str, Path]) -> None:
    run, store = judged_again
    document = cli("score", run, "--store", store, "--json").document
    assert document["judge"] == document["systems"][0]["judge"] == OWN
    assert [one["judge"] for one in document["systems"]] == [OWN, OWN, FREE, FREE]
    assert f"judged by {OWN}" in cli("score", run, "--store", store).out
    shown = cli("score", run, "--all", "--store", store).out
    assert 0 <= shown.index(f"judged by {OWN}") < shown.index(f"judged by {FREE}")

    # Named as for `rejudge`, it is the only judge, with the same figures.
    alone = cli("score", run, "--judge", "offline", "--store", store, "--json").document
    assert alone["judge"] == FREE and {one["judge"] for one in alone["systems"]} == {FREE}
    assert joints(alone).items() <= joints(document).items()
    assert OWN not in cli("score", run, "--judge", FREE, "--store", store).out
    line = cli("score", run, "--judge", "nobody", "--store", store).refusal
    assert line.startswith(f"{run} has no judgments by 'nobody'; it has those by {OWN}, {FREE}")


def test_compare_is_by_the_runs_own_judge(cli: Cli, judged_again: tuple[str, Path]) -> None:
    run, store = judged_again
    for options, judge in (((), OWN), (("--judge", "offline"), FREE)):
        document = cli("compare", run, *PAIR, *options, "--store", store, "--json").document
        assert document["judge"] == judge
        assert {side["judge"] for pair in document["pairs"] for side in (pair["a"], pair["b"])} == {judge}
        assert all(judge in pair["verdict"] for pair in document["pairs"])
        shown = cli("compare", run, *PAIR, *options, "--store", store).out
        other = OWN if judge == FREE else FREE
        assert f"joint, judged by {judge}" in shown and f"judged by {other}" not in shown
    # With a judge and no systems: every pair.
    assert cli("compare", run, "--judge", FREE, "--store", store, "--json").document["judge"] == FREE
    found = summhay_ray.compare_systems(run, store=str(store), judge=FREE)
    assert found.judge == FREE and summhay_ray.compare_systems(run, store=str(store)).judge == OWN
    # Two judges on one run, as before; and two runs, each with its own judge.
    assert cli("compare", run, "--judges", OWN, "offline", "--store", store, "--json").document["judges"] == [OWN, FREE]
    both = cli("compare", run, run, "--judges", OWN, FREE, "--store", store, "--json").document
    assert both["judge"] == f"{OWN} and {FREE}"


def test_runs_of_different_judges_are_compared_by_one_that_both_have(cli: Cli, judged_again: tuple[str, Path]) -> None:
    run, store = judged_again
    spec = write_json(
        store.parent / "spec.yaml",
        {
            "haystacks": [str(store.parent / "small.json")],
            "retrievers": ["full"],
            "summarizers": ["replay/gpt-4o"],
            "judges": [FREE],
        },
    )
    mine = cli("run", spec, "--executor", "inline", "--store", store, "--json").document["run"]
    said = cli("compare", run, mine, "--systems", "*", "*", "--store", store, "--json")
    assert said.document["judge"] == FREE
    assert said.document["warnings"][-1].startswith(f"judged by {FREE}, as both runs are; their own judges differ ({run}: {OWN}")


def test_the_report_is_by_the_runs_own_judge(cli: Cli, judged_again: tuple[str, Path], tmp_path: Path) -> None:
    run, store = judged_again
    for options, judge, other in (((), OWN, FREE), (("--judge", FREE), FREE, OWN)):
        out = tmp_path / f"by-{judge.replace('/', '-')}"
        cli("report", run, "--out", out, "--format", "json", *options, "--store", store)
        results = json.loads((out / "results.json").read_text())
        assert results["judge"] == judge
        titles = {section["name"]: section["title"] for section in results["sections"]}
        assert titles["results"].startswith("Results, raw (bias ") and titles["results"].endswith(f"judged by {judge}")
        # The other judge's results follow under its name; everything else is by the judge of record.
        assert [title[:8] for title in titles.values() if f"judged by {other}" in title] == ["Results,"]
        assert all(titles[name].endswith(f"judged by {judge}") for name in ("release", "forest", "subtopics", "citations"))
    report = summhay_ray.make_report(run, store=str(store), judge=FREE)
    assert report.section("results").title.endswith(f"judged by {FREE}")


def test_explain_and_export_know_the_judge_of_record(cli: Cli, judged_again: tuple[str, Path], tmp_path: Path) -> None:
    run, store = judged_again
    cell = summhay_ray.table(run, "summaries", str(store))["cell_id"][0]
    assert cli("explain", run, cell, "--store", store, "--json").document["judge"] == OWN
    cli("export", run, "--out", tmp_path / "out", "--store", store)
    assert json.loads((tmp_path / "out" / "small.json").read_text()) == released()


def test_the_first_judge_of_a_spec_is_its_own(cli: Cli, tmp_path: Path) -> None:
    judges = [{"model": FREE, "name": "zeta"}, {"model": FREE, "name": "alpha", "strategy": "per_insight"}]
    spec = write_json(
        tmp_path / "spec.yaml",
        {
            "haystacks": [str(write_json(tmp_path / "small.json", released()))],
            "retrievers": ["bm25", "full"],
            "summarizers": ["replay/gpt-4o"],
            "judges": judges,
        },
    )
    done = cli("run", spec, "--executor", "inline", "--store", tmp_path / "store", "--json").document
    assert done["judge"] == "zeta" and [one["judge"] for one in done["systems"]] == ["zeta", "zeta", "alpha", "alpha"]
    found = cli("compare", done["run"], *PAIR, "--store", tmp_path / "store", "--json").document
    assert found["judge"] == "zeta"


def test_a_judge_is_no_option_of_runs_without_any(cli: Cli, judged_again: tuple[str, Path]) -> None:
    run, store = judged_again
    again = next(one["run"] for one in cli("runs", "--store", store, "--json").document["runs"] if one["kind"] == "rejudge")
    for command in (("score", again), ("compare", again), ("report", again, "--out", store.parent / "x")):
        assert (
            f"holds judgments of the summaries of {run}; give that run"
            in cli(*command, "--judge", FREE, "--store", store).refusal
        )
    with pytest.raises(UserError, match="judges, one for each run"):
        summhay_ray.compare_systems(run, judges=(OWN, FREE), judge=OWN, store=str(store))
