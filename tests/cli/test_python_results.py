"""Results in Python: named arguments, figures with intervals, rows with names, and results that a notebook shows."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import summhay_ray
from summhay_ray import api

pytestmark = pytest.mark.core


def test_every_function_names_its_arguments_with_their_types() -> None:
    for name in summhay_ray.__all__:
        signature = inspect.signature(getattr(api, name))
        kinds = {parameter.kind for parameter in signature.parameters.values()}
        assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}, name
        assert all(parameter.annotation is not inspect.Parameter.empty for parameter in signature.parameters.values()), name
    assert set(summhay_ray.__all__) <= set(dir(summhay_ray))


def test_results_carry_their_intervals_and_all_that_json_has(finished: Any) -> None:
    scores = api.score(finished.run, str(finished.store))
    told = {one["system"]: one for one in finished.done.document["by_query"]}
    release = {one["system"]: one for one in finished.done.document["systems"]}
    for row in scores.table.iter_rows(named=True):
        one = told[row["system"]]
        for name, interval in one["ci"].items():
            assert [row[f"{name}_low"], row[f"{name}_high"]] == (interval or [None, None])
        assert row["release_joint"] == release[row["system"]]["joint"]
        assert row["bias_mean"] == pytest.approx(one["bias"]["mean"])
        plain = {name: value for name, value in one.items() if name not in ("ci", "ci_reasons", "bias", "nuggets")}
        assert {name: row[name] for name in plain} == plain


def test_scores_and_judgments_name_their_systems(finished: Any) -> None:
    store = str(finished.store)
    summaries = api.table(finished.run, "summaries", store)
    for name in ("scores", "judgments"):
        frame = api.table(finished.run, name, store)
        assert frame.columns[:9] == [
            "cell_id",
            "system",
            "label",
            "retriever",
            "ordering",
            "model",
            "haystack_id",
            "subtopic_id",
            "repeat",
        ]
        assert frame.height == 88 and not frame["system"].has_nulls()
        joined = frame.select("cell_id", "system").unique().join(summaries.select("cell_id", "system"), on=["cell_id", "system"])
        assert joined.height == summaries.height
    means = api.table(finished.run, "scores", store).group_by("retriever").agg(pl.col("coverage").mean())
    told = {one.retriever: one.coverage for one in api.score(finished.run, store).systems}
    assert dict(means.iter_rows()) == {name: pytest.approx(value) for name, value in told.items()}


def test_a_notebook_shows_results(finished: Any, tmp_path: Path) -> None:
    spec = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "summarizers": [{"model": "offline/lead", "name": "<b>&"}]}
    result = api.run({**spec, "token_budget": 1500}, str(tmp_path), executor="inline")
    shown = result._repr_html_()
    assert f"<td>{result.run} (summhay)</td>" in shown and "joint (%)" in shown
    assert "<b>&<" not in shown and "&lt;b&gt;&amp;" in shown
    assert "<td>done</td>" in api.status(finished.run, str(finished.store))._repr_html_()
    planned = api.plan({**spec, "token_budget": 1500}, str(tmp_path))
    assert "expected" in planned._repr_html_() and planned.table.height == len(planned.stages) == 2


def test_the_results_of_any_run_are_there_without_a_call(finished: Any) -> None:
    found = api.results(finished.run[:5], str(finished.store))
    assert [one.system for one in found.scores.systems] == ["bm25_offline/lead", "oracle_offline/lead"]


def test_a_function_with_the_name_of_a_room_stays_a_function() -> None:
    import summhay_ray.mine
    import summhay_ray.synth

    for name in ("run", "synth", "mine", "synth"):
        assert inspect.isfunction(getattr(summhay_ray, name)), name
