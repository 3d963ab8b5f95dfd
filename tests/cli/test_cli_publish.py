"""`summhay export` for other tools: evaluation logs, a dataset for the Hub, and trackers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from commands import Said

pytestmark = pytest.mark.core
Cli = Callable[..., Said]
TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
MODEL = {"type": "object", "required": ["name", "id", "additional_details"], "properties": {"additional_details": TEXTS}}
RESULT = {
    "required": ["evaluation_name", "source_data", "metric_config", "score_details"],
    "properties": {
        "source_data": {"required": ["dataset_name", "source_type"], "properties": {"additional_details": TEXTS}},
        "metric_config": {"required": ["lower_is_better", "score_type", "min_score", "max_score"]},
        "score_details": {
            "required": ["score"],
            "properties": {
                "score": {"type": "number", "minimum": 0, "maximum": 1},
                "details": TEXTS,
                "uncertainty": {
                    "properties": {"confidence_interval": {"required": ["lower", "upper"]}},
                },
            },
        },
        "generation_config": {"properties": {"additional_details": TEXTS}},
    },
}
LOG = {
    "required": [
        *("schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata"),
        *("model_info", "eval_library", "evaluation_results"),
    ],
    "properties": {
        "schema_version": {"const": "0.3.0"},
        "retrieved_timestamp": TEXT,
        "source_metadata": {"required": ["source_type", "source_organization_name", "evaluator_relationship"]},
        "eval_library": {"required": ["name", "version"]},
        "model_info": MODEL,
        "evaluation_results": {"type": "array", "minItems": 1, "items": RESULT},
    },
}
"""What version 0.3.0 of Every Eval Ever's schema requires."""


def export(cli: Cli, finished: Any, *options: object) -> Said:
    return cli("export", finished.run, "--store", finished.store, *map(str, options), "--json")


def test_evaluation_logs_have_what_the_schema_requires(cli: Cli, finished: Any, tmp_path: Path) -> None:
    (file,) = export(cli, finished, "--out", tmp_path / "out", "--format", "every-eval-ever").document["files"]
    assert Path(file).relative_to(tmp_path / "out").parts[:4] == ("data", "summhay", "offline", "lead")
    log = json.loads(Path(file).read_text())
    jsonschema.Draft7Validator(LOG).validate(log)
    scored = cli("score", finished.run, "--store", finished.store, "--json").document["by_query"]
    joints = {one["retriever"]: one["joint"] for one in scored}
    exported = {
        one["generation_config"]["additional_details"]["retriever"]: one["score_details"]["score"]
        for one in log["evaluation_results"]
        if one["metric_config"]["metric_name"] == "joint"
    }
    assert exported == pytest.approx(joints)
    (again,) = export(cli, finished, "--out", tmp_path / "again", "--format", "every-eval-ever").document["files"]
    assert Path(again).name == Path(file).name


def test_lm_eval_results_are_those_of_the_report(cli: Cli, finished: Any, tmp_path: Path) -> None:
    (file,) = export(cli, finished, "--out", tmp_path / "out", "--format", "lm-eval").document["files"]
    cli("report", finished.run, "--store", finished.store, "--out", tmp_path / "report", "--format", "json")
    exported, reported = (json.loads(one.read_text()) for one in (Path(file), tmp_path / "report" / "results.json"))
    assert exported.keys() == reported.keys() and exported["results"].keys() == reported["results"].keys()
    # The order of a sum may differ, and so may the last digit.
    for task, figures in exported["results"].items():
        assert figures["joint,none"] == pytest.approx(reported["results"][task]["joint,none"])


@pytest.mark.parametrize("texts", [False, True])
def test_a_dataset_for_the_hub_loads_and_has_texts_only_if_asked(
    texts: bool, cli: Cli, finished: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    card = pytest.importorskip("huggingface_hub").DatasetCard
    folder = tmp_path / "hub"
    files = export(cli, finished, "--hub", folder, *(["--with-texts"] if texts else [])).document["files"]
    assert files[0] == str(folder / "README.md")
    header = card.load(folder / "README.md").data.to_dict()
    names = [one["config_name"] for one in header["configs"]]
    assert names[0] == "leaderboard" and header["configs"][0]["default"] and "license" not in header
    loaded = {name: datasets.load_dataset(str(folder), name, split="train", cache_dir=str(tmp_path / "cache")) for name in names}
    assert {"documents", "summaries", "judgments", "raw_answers"} <= loaded.keys()
    assert all(len(rows) for rows in loaded.values())
    assert ("text" in loaded["documents"].column_names) == texts
    assert ("text" in loaded["raw_answers"].column_names) == texts
    assert "bullets" in loaded["summaries"].column_names
    assert export(cli, finished, "--hub", folder).code == 2


def test_a_card_does_not_contain_the_addresses_of_models(cli: Cli, finished: Any, tmp_path: Path) -> None:
    from summhay_ray.publish.figures import public_spec

    spec = {"haystacks": ["/home/me/a.json", "sample/news"], "models": [{"model": "m", "api_base": "http://inner:8000/v1"}]}
    assert public_spec(spec) == {"haystacks": ["a.json", "sample/news"], "models": [{"model": "m"}]}
    export(cli, finished, "--hub", tmp_path / "hub")
    listing = (tmp_path / "hub" / "README.md").read_text().partition("## How it was made")[2]
    assert "seed: 7" in listing and yaml.safe_load(listing.split("\n\n    ", 1)[1])["kind"] == "summhay"


@pytest.mark.parametrize("tracker", ["wandb", "mlflow"])
def test_a_missing_tracker_is_one_line(tracker: str, cli: Cli, finished: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, tracker, None)
    said = cli("export", finished.run, "--store", finished.store, "--to", tracker)
    assert said.code == 2 and f"pip install 'summhay-ray[{tracker}]'" in said.refusal


def test_a_run_without_figures_of_models_is_refused(cli: Cli, tmp_path: Path) -> None:
    run = cli("synth", Path(__file__).parents[2] / "summhay_ray/cli/starters/synth.yaml", "--store", tmp_path / "s", "--json")
    said = cli("export", run.document["run"], "--store", tmp_path / "s", "--out", tmp_path / "x", "--format", "every-eval-ever")
    assert said.code == 2 and "has no figures of models" in said.refusal and not (tmp_path / "x").exists()
