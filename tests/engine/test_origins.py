"""Answers keep their origin; the reuse of another endpoint's answers is reported; a `revision` separates checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inline_runs import N_INSIGHTS, N_QUERIES, SAMPLE, answered, rows
from simulated_provider import Simulated, in_thread

from summhay_ray import api
from summhay_ray.benchmark import ModelSpec
from summhay_ray.llm import FREE, Limits, ModelSettings, Request
from summhay_ray.llm.direct import body_of

pytestmark = pytest.mark.core


def fields(provider: Simulated, **more: Any) -> dict[str, Any]:
    return {"summarizers": [{"model": "openai/writer", "api_base": provider.base, "price": 0, **more}]}


def test_answers_of_another_origin_are_reused_and_told_by_run_plan_and_status(tmp_path: Path) -> None:
    with in_thread() as first, in_thread() as second:
        done, run = answered(tmp_path, **fields(first))
        assert [row["origin"] for row in rows(run, "raw_answers") if row["model"] == "openai/writer"] == [first.root] * N_QUERIES
        assert {row["origin"] for row in rows(run, "raw_answers") if row["model"] == "offline/judge"} == {""}
        assert not done.warnings and not api.status(done.run, str(tmp_path)).warnings
        told = f"openai/writer: {N_QUERIES} answers came from {first.root}, and it is reached at {second.root} now"
        spec = {**SAMPLE, **fields(second)}
        (planned,) = api.plan(spec, str(tmp_path)).warnings
        assert planned.startswith(told) and "`revision:`" in planned
        again, _ = answered(tmp_path, **fields(second))
        assert (again.run, again.calls["made"], again.warnings) == (done.run, 0, (planned,))
        assert list(api.status(done.run, str(tmp_path)).warnings) == [planned]
        # Another run of the store that uses these answers reports the same.
        noted: list[str] = []
        with_more = {**SAMPLE, **fields(second), "retrievers": ["bm25", "oracle"]}
        other = api.run(with_more, str(tmp_path), executor="inline", note=noted.append)
        assert other.calls["reused"] > 0 and planned.split(" answers")[0] in other.warnings[0]
        # Its start reports it, too, while the run can still be stopped.
        assert [line for line in noted if line.startswith(f"warning: {told}")]
        # Back at the original endpoint there is nothing to report.
        assert not answered(tmp_path, **fields(first))[0].warnings
        assert not api.status(done.run, str(tmp_path)).warnings


def test_a_revision_is_another_model_and_is_never_sent(tmp_path: Path) -> None:
    with in_thread() as provider:
        plain, _ = answered(tmp_path, **fields(provider))
        first, run = answered(tmp_path, **fields(provider, revision="step-100"))
        second, _ = answered(tmp_path, **fields(provider, revision="step-200"))
        calls = provider.calls()
    assert len({plain.run, first.run, second.run}) == 3
    # The judge is asked about the same summaries, so it is not asked again.
    assert [one.calls["made"] for one in (plain, first, second)] == [N_QUERIES + N_INSIGHTS, N_QUERIES, N_QUERIES]
    assert len(calls) == 3 * N_QUERIES and "step-" not in json.dumps(calls)
    asked = Request("openai/writer", "hi", {"revision": "step-100", "max_tokens": 5})
    assert b"step" not in body_of(asked, ModelSettings("openai/writer", FREE))


def test_without_a_revision_a_model_is_what_it_was() -> None:
    # Fields that were added later are not part of the identity if they have their default.
    assert api.load(Path(__file__).parents[2] / "jobs" / "quickstart.yaml").run_id == "r74045cb10fd1"
    entry = ModelSpec(model="openai/gpt-4o")
    assert "revision" not in entry.semantic() and "revision" not in entry.sampling()
    assert ModelSpec(model="openai/gpt-4o", revision="a").sampling()["revision"] == "a"


@pytest.mark.parametrize(
    ("model", "base", "origin"),
    [
        ("openai/gpt-4o", None, "https://api.openai.com:443"),
        ("gpt-4o", "https://api.openai.com/v1", "https://api.openai.com:443"),
        ("openai/x", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000"),
        ("openai/x", "http://[::1]:8000/v1", "http://[::1]:8000"),
        ("azure/x", None, "azure"),
        ("offline/lead", None, ""),
    ],
)
def test_where_a_model_answers(model: str, base: str | None, origin: str) -> None:
    assert (
        ModelSettings.written(model, {"api_base": base, "price": {"input_per_mtok": 0, "output_per_mtok": 0}}, Limits()).origin
        == origin
    )
