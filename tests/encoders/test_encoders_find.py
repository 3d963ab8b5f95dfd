"""A folder that cannot be loaded, or has a model of the wrong kind, is found before anything is loaded or paid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from summhay_ray.encoders import Kind
from summhay_ray.encoders.find import problem_of

pytestmark = pytest.mark.core

HEADER = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
WHOLE = len(HEADER).to_bytes(8, "little") + HEADER + bytes(4)


def folder_of(tmp_path: Path, architecture: str = "BertModel", weights: bytes = WHOLE, **config: Any) -> Path:
    said = {"model_type": "bert", "architectures": [architecture], **config}
    (tmp_path / "config.json").write_text(json.dumps(said), encoding="ascii")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="ascii")
    (tmp_path / "model.safetensors").write_bytes(weights)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "architecture", "config", "said"),
    [
        ("encoder", "BertModel", {}, ""),
        ("encoder", "MPNetForMaskedLM", {"model_type": "mpnet"}, ""),
        ("encoder", "XLMRobertaModel", {"model_type": "xlm-roberta"}, ""),
        ("encoder", "BertForSequenceClassification", {}, "it is a BertForSequenceClassification, and `embed` needs"),
        ("encoder", "GPT2LMHeadModel", {"model_type": "gpt2"}, "it is a GPT2LMHeadModel, and `embed` needs"),
        ("encoder", "T5ForConditionalGeneration", {"model_type": "t5"}, "it is a T5ForConditionalGeneration, and `embed` needs"),
        ("encoder", "OwnModel", {"model_type": "no_such_type"}, "config.json: transformers knows no model_type 'no_such_type'"),
        ("cross-encoder", "BertForSequenceClassification", {"id2label": {"0": "LABEL_0"}}, ""),
        ("cross-encoder", "BertForSequenceClassification", {}, "it tells 2 classes apart, and `rerank` needs"),
        ("cross-encoder", "BertModel", {}, "it is a BertModel, and `rerank` needs a cross-encoder"),
    ],
)
def test_kinds_of_models(kind: Kind, architecture: str, config: dict[str, Any], said: str, tmp_path: Path) -> None:
    if config.get("model_type") == "no_such_type":
        pytest.importorskip("transformers")
    problem = problem_of(folder_of(tmp_path, architecture, **config), kind)
    assert problem.startswith(said) and bool(problem) == bool(said)


@pytest.mark.parametrize("spoilt", [WHOLE[:-1], WHOLE[:20], b"", b"{}", WHOLE + b"x", (9).to_bytes(8, "little") + b'{"w": []}'])
def test_weights_that_are_cut_off(spoilt: bytes, tmp_path: Path) -> None:
    problem = problem_of(folder_of(tmp_path, weights=spoilt), "encoder")
    assert problem == "model.safetensors is cut off or damaged; copy the model again"


def test_files_that_are_missing_or_damaged(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "tokenizer.json").unlink()
    assert problem_of(folder, "encoder").startswith("the folder holds no tokenizer")
    (folder / "model.safetensors").unlink()
    assert problem_of(folder, "encoder").startswith("the folder holds no weights")
    (folder / "config.json").write_text("[1]")
    assert problem_of(folder, "encoder").startswith("config.json holds no JSON object")
    (folder / "config.json").write_text("{")
    assert problem_of(folder, "encoder").startswith("config.json cannot be read")


def test_sentence_transformers_own_word_counts(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "Qwen3ForCausalLM", model_type="qwen3")
    (folder / "modules.json").write_text("[]")
    assert problem_of(folder, "encoder") == ""
    assert "it is a SentenceTransformer, and `rerank` needs" in problem_of(folder, "cross-encoder")
    (folder / "config_sentence_transformers.json").write_text('{"model_type": "CrossEncoder"}')
    assert problem_of(folder, "cross-encoder") == ""
    assert "it is a CrossEncoder, and `embed` needs" in problem_of(folder, "encoder")
