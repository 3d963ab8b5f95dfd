"""Haystacks from a data set of the Hub."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from local_hub import local_hub

import summhay_ray
from summhay_ray.encoders import why_unreachable
from summhay_ray.errors import SpecError, UserError
from summhay_ray.haystack import load_sample

pytestmark = pytest.mark.core

huggingface_hub = pytest.importorskip("huggingface_hub")
REPO, COMMIT = "Salesforce/summary-of-a-haystack", "0123456789abcdef0123456789abcdef01234567"
SPEC = {"retrievers": ["bm25"], "summarizers": ["offline/lead"], "judges": ["offline/judge"], "executor": "inline", "name": "hub"}
SAMPLES = ("conversation", "news")


def as_json() -> dict[str, bytes]:
    """A file for each haystack, and one that is no haystack."""
    return {**{f"data/{name}.json": json.dumps(load_sample(name)).encode() for name in SAMPLES}, "dataset_infos.json": b"{}"}


def as_lines() -> dict[str, bytes]:
    return {"train.jsonl": "".join(json.dumps(load_sample(name)) + "\n" for name in SAMPLES).encode()}


def as_parquet() -> dict[str, bytes]:
    """The Parquet form to which the Hub converts data sets: a column for each field, with nulls if a haystack lacks a field."""
    stream = io.BytesIO()
    pl.DataFrame([load_sample(name) for name in SAMPLES], infer_schema_length=None).write_parquet(stream)
    return {"data/train-00000-of-00001.parquet": stream.getvalue()}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("files", [as_json, as_lines, as_parquet])
def test_a_data_set_of_the_hub_is_the_same_haystacks(files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with local_hub(REPO, COMMIT, files()) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.base)
        found = summhay_ray.run({**SPEC, "haystacks": [f"hub:{REPO}"]}, store=str(tmp_path / "store"))
    local = summhay_ray.run({**SPEC, "haystacks": [f"sample/{name}" for name in SAMPLES]}, store=str(tmp_path / "local"))
    assert found.run == local.run


def test_a_cached_data_set_needs_no_hub_and_its_revision_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {**SPEC, "haystacks": [f"hub:{REPO}/data/news.json"]}
    with local_hub(REPO, COMMIT, as_json()) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.base)
        first = summhay_ray.run(spec, store=str(tmp_path / "store"))
        assert summhay_ray.import_released([f"hub:{REPO}"], store=str(tmp_path / "store")).haystacks == len(SAMPLES)
    # Another process asks the server again whether the data set is there.
    why_unreachable.cache_clear()
    again = summhay_ray.run(spec, store=str(tmp_path / "other"))
    assert again.run == first.run
    report = summhay_ray.make_report(again.run, str(tmp_path / "other"))
    assert f"hub:{REPO}@{COMMIT}/data/news.json" in str(report.section("made").listing)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (f"hub:{REPO}", "cannot be fetched"),
        ("hub:nobody", "names no data set of the Hub"),
        ("hub:nobody/nothing@main/x.json", "cannot be fetched"),
    ],
)
def test_without_the_hub_one_line_says_how_to_get_it(
    entry: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SpecError, match=said) as refusal:
        summhay_ray.plan({**SPEC, "haystacks": [entry]}, store=str(tmp_path / "store"))
    assert "\n" not in str(refusal.value)
    with pytest.raises(UserError, match=said):
        summhay_ray.import_released([entry], store=str(tmp_path / "store"))
