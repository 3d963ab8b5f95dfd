"""A system has one key and one label in every command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from commands import Said, write_spec

from summhay_ray import api

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
SPEC = {
    "haystacks": ["sample/news"],
    "retrievers": ["bm25", "full"],
    "orderings": ["given", "top"],
    "token_budget": 1500,
    "summarizers": ["offline/lead"],
    "executor": "inline",
}
SYSTEMS = {
    "bm25_offline/lead": "bm25 + offline/lead",
    "offline/lead": "full + offline/lead",
    "fl-ctxt-sort_offline/lead": "full top + offline/lead",
}
NAMES = ("system", "label", "model", "retriever", "ordering")
TOP = dict(zip(NAMES, ("fl-ctxt-sort_offline/lead", "full top + offline/lead", "offline/lead", "full", "top"), strict=True))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """(run, store) of the spec."""
    store = tmp_path_factory.mktemp("names") / "store"
    result = api.run(SPEC, str(store))
    assert dict(result.table.select("system", "label").iter_rows()) == SYSTEMS
    return result.run, store


def test_every_command_calls_a_system_by_one_key_and_one_label(cli: Cli, ran: tuple[str, Path], tmp_path: Path) -> None:
    run, store = ran[0], ("--store", ran[1])
    scored = cli("score", run, *store, "--json").document
    assert {one["system"]: one["label"] for one in scored["systems"]} == SYSTEMS
    assert all(label in cli("score", run, "--all", *store).out for label in SYSTEMS.values())
    compared = cli("compare", run, "--systems", "*", "*", *store, "--json").document
    assert {row[side]["system"]: row[side]["label"] for row in compared["pairs"] for side in ("a", "b")} == SYSTEMS
    shown = cli("compare", run, "--systems", "*", "*", *store).out
    assert all(label in shown for label in SYSTEMS.values()) and "fl-ctxt" not in shown and "bm25_" not in shown
    cli("export", run, "--out", tmp_path / "out", *store)
    (made,) = (tmp_path / "out").glob("*.json")
    exported = json.loads(made.read_text())["subtopics"][0]["summaries"]
    assert {name.removeprefix("summary_subtopic_") for name in exported} == SYSTEMS.keys()
    # A cell's place, by key and by label, and its id.
    place = cli("explain", run, "news/news-damage/fl-ctxt-sort_offline/lead", *store, "--json").document
    assert {name: place[name] for name in NAMES} == TOP
    for key in (place["cell_id"], "news/news-damage/full top + offline/lead"):
        assert cli("explain", run, key, *store, "--json").document == place
    assert "such as news/news-" in cli("explain", run, "news/news-damage/offline/leed", *store).refusal
    one = cli("compare", run, "--systems", "full top + offline/lead", "offline/lead", *store, "--json").document["pairs"][0]
    assert [one[side]["system"] for side in ("a", "b")] == ["fl-ctxt-sort_offline/lead", "offline/lead"]


def test_every_table_of_a_system_has_its_names(cli: Cli, ran: tuple[str, Path]) -> None:
    run, folder = ran
    store = ("--store", folder)
    judged = cli("support", run, *store, "--json").document["run"]
    recited = cli("recite", run, *store, "--json").document["run"]
    tables = [
        (run, "summaries"),
        (run, "scores"),
        (judged, "supports"),
        (recited, "summaries"),
        (recited, "scores"),
        (recited, "supports"),
    ]
    for of, name in tables:
        stored = pl.concat([pl.read_parquet(file) for file in (folder / "runs" / of / "tables" / name).glob("*.parquet")])
        assert dict(stored.select("system", "label").unique().iter_rows()) == SYSTEMS
        assert stored.filter(pl.col("system") == TOP["system"]).select(NAMES).unique().to_dicts() == [TOP]
        assert dict(api.table(of, name, str(folder)).select("system", "label").unique().iter_rows()) == SYSTEMS
    assert set(api.table(run, "judgments", str(folder))["label"]) == {*SYSTEMS.values()}
    shown = (
        cli("support", run, *store).out
        + cli("recite", run, *store).out
        + cli("compare", judged, "--systems", "*", "*", *store).out
    )
    assert all(label in shown for label in SYSTEMS.values()) and "fl-ctxt" not in shown and "bm25_" not in shown


def test_the_commands_that_messages_suggest_work(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMMHAY_STORE", str(tmp_path / "store"))
    done = cli("run", write_spec(tmp_path, {**SPEC, "retrievers": ["bm25"], "orderings": ["given"]})).out
    # The default store is not named.
    (explained,) = [line.split("summhay ")[1] for line in done.splitlines() if line.startswith("next") and " explain " in line]
    assert "--store" not in done and cli(*explained.split()).code == 0


def test_a_missing_key_leaves_no_run(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    spec = write_spec(tmp_path, {**SPEC, "summarizers": [{"model": "openai/gpt-4o", "max_tokens": 100}]})
    assert "OPENAI_API_KEY" in cli("run", spec, "--store", tmp_path / "store").refusal
    assert cli("runs", "--store", tmp_path / "store", "--json").document == {"runs": []}


def test_a_plan_reports_missing_keys_of_the_run(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    spec = write_spec(tmp_path, {**SPEC, "summarizers": [{"model": "openai/gpt-4o", "max_tokens": 100}]})
    told = cli("plan", spec, "--store", tmp_path / "store", "--budget", "0.001", "--json").document["warnings"]
    assert [line.partition(" is ")[0] for line in told] == ["budget_usd", "openai/gpt-4o: OPENAI_API_KEY"]
    (tmp_path / "texts").mkdir()
    folder = write_spec(tmp_path, {**SPEC, "haystacks": ["texts"]})
    assert "haystacks: texts is a folder; name the JSON files in it" in cli("plan", folder).refusal
