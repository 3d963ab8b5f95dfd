"""`schemas/` and the readers accept the same specs, so that an editor with a schema marks no line that a run accepts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from summhay_ray.benchmarks import kind_of
from summhay_ray.engine import Spec, SpecError, find, spec_class_of
from summhay_ray.yaml_text import load

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[2]
JOBS = sorted((ROOT / "jobs").glob("*.yaml"))
KINDS = {"spec": "summhay", "synth_spec": "synth"}
RUN: Mapping[str, Any] = {"haystacks": ["sample/news"], "retrievers": ["full"], "summarizers": ["offline/lead"]}
TOPICS: Mapping[str, Any] = {"topics": ["a ferry"]}
FULL = {"model": "openai/gpt-4o", "max_tokens": 4000, "temperature": None, "price": {"input_per_mtok": 1, "output_per_mtok": 2.5}}


def spec_class(name: str) -> type[Spec]:
    return spec_class_of(find(KINDS[name]))


def read(name: str, fields: Mapping[str, Any]) -> Spec:
    return spec_class(name).parse({**fields, "kind": KINDS[name]}, "spec", ())


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def flaws(name: str, fields: Any) -> list[str]:
    """The errors that the stored schema finds in a spec."""
    return [error.message for error in jsonschema.Draft202012Validator(schema(name)).iter_errors(fields)]


@pytest.mark.parametrize("name", sorted(file.stem for file in (ROOT / "schemas").glob("*spec.json")))
def test_a_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("file", JOBS, ids=lambda file: file.name)
def test_every_spec_that_is_shipped_is_valid(file: Path) -> None:
    fields = load(file.read_text(encoding="utf-8"))
    kind = fields.get("kind") or kind_of(fields)
    assert flaws("spec" if kind == "summhay" else f"{kind}_spec", fields) == []


def test_both_kinds_are_shipped() -> None:
    assert {kind_of(load(file.read_text(encoding="utf-8"))) for file in JOBS} == {"summhay", "synth"}


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("synth_spec", {"topics": {"made_up": 3}}),
        ("synth_spec", {"topics": {"topic": "a ferry", "name": "ferry"}}),
        (
            "synth_spec",
            {"topics": ["a tram", {"topic": "a ferry", "participants": ["Ann"], "context": ["a.txt"]}, {"made_up": 2}]},
        ),
        ("synth_spec", {**TOPICS, "models": {"outline": "openai/gpt-4o", "write": FULL, "check": "openai/gpt-4o"}}),
        ("synth_spec", {**TOPICS, "models": {"write": {**FULL, "price": 0}, "check": None}}),
        ("synth_spec", {**TOPICS, "words": None, "budget_usd": 1, "stage_budgets_usd": {"write": 5, "check": None}}),
        ("synth_spec", {**TOPICS, "limits": {"offline/writer": {"rpm": 60}}, "model_budgets_usd": {"offline/writer": 0}}),
        ("spec", RUN),
        ("spec", {**RUN, "summarizers": [FULL, "offline/lead"], "judges": [{"model": "openai/gpt-4o", "strategy": "few_shot"}]}),
        ("spec", {**RUN, "judges": ["offline", "openai/gpt-4o", "blend(openai/gpt-4o,offline)"]}),
        ("spec", {**RUN, "summarizers": [{"model": "openai/mine", "price": 0.0}]}),
    ],
)
def test_what_a_reader_takes_is_valid_as_it_is_written_and_as_it_is_sent(name: str, fields: dict[str, Any]) -> None:
    assert flaws(name, fields) == [] and flaws(name, read(name, fields).model_dump(mode="json")) == []


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("synth_spec", {"topics": []}),
        ("synth_spec", {"topics": "a ferry"}),
        ("synth_spec", {"topics": [" "]}),
        ("synth_spec", {"topics": [3]}),
        ("synth_spec", {"topics": {"made_up": 100_001}}),
        ("synth_spec", {"topics": [{"topic": "a ferry", "nmae": "ferry"}]}),
        ("synth_spec", {**TOPICS, "models": {"write": ""}}),
        ("synth_spec", {**TOPICS, "models": {"write": None}}),
        ("synth_spec", {**TOPICS, "models": {"write": {**FULL, "prompt": "p.txt"}}}),
        ("synth_spec", {**TOPICS, "models": {"write": {**FULL, "prompt": None}}}),
        ("synth_spec", {**TOPICS, "models": {"write": {**FULL, "price": 1}}}),
        ("spec", {**RUN, "summarizers": "offline/lead"}),
        ("spec", {**RUN, "summarizers": [""]}),
        ("spec", {**RUN, "judges": [{"strategy": "few_shot"}]}),
        ("spec", {**RUN, "summarizers": [{"model": "openai/mine", "price": False}]}),
    ],
)
def test_what_a_reader_refuses_is_not_valid(name: str, fields: dict[str, Any]) -> None:
    assert flaws(name, fields) != []
    with pytest.raises(SpecError):
        read(name, fields)


@pytest.mark.parametrize("name", KINDS)
def test_a_schema_names_the_fields_that_can_be_written(name: str) -> None:
    assert set(schema(name)["properties"]) == set(spec_class(name).model_fields)


def test_no_field_is_offered_that_is_always_refused() -> None:
    model = schema("synth_spec")["$defs"]["StageModel"]["properties"]
    assert set(model) == set(schema("spec")["$defs"]["CitingSpec"]["properties"]) - {
        "recite",
        "prompt",
        "strategy",
        "answers",
        "reduce",
    }
