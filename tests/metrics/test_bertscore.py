"""BERTScore with a small model that is made here, compared with its definition."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from summhay_ray.metrics import bertscore, check_bertscore

MISSING = pytest.mark.skipif(find_spec("bert_score") is None, reason="the extra `bertscore` is not installed")
pytestmark = [pytest.mark.embed, MISSING]

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "bridge", "ferry", "opens", "in", "may", "is", "late"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    import transformers

    place = tmp_path_factory.mktemp("bert")
    (place / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    torch.manual_seed(3)
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, initializer_range=1.0, **sizes)
    transformers.BertModel(config).save_pretrained(place)
    transformers.BertTokenizer(str(place / "vocab.txt"), model_max_length=32).save_pretrained(place)
    return place


def test_it_is_the_greedy_match_of_a_layers_vectors_and_the_best_reference_counts(folder: Path) -> None:
    import torch
    import transformers

    model = transformers.BertModel.from_pretrained(folder).eval()

    def vectors(text: str) -> Any:
        ids = torch.tensor([[2, *(WORDS.index(word) for word in text.split()), 3]])
        with torch.inference_mode():
            found = model(ids, output_hidden_states=True).hidden_states[1][0]
        return torch.nn.functional.normalize(found, dim=-1)

    def defined(prediction: str, reference: str) -> float:
        alike = vectors(prediction) @ vectors(reference).T
        # The two special tokens can be matched, but are not counted.
        precision, recall = alike.max(dim=1).values[1:-1].mean(), alike.max(dim=0).values[1:-1].mean()
        return float(2 * precision * recall / (precision + recall))

    prediction, far, near = "the bridge opens in may", "the ferry is late", "the bridge opens late"
    both = bertscore(prediction, [far, near], str(folder), layer=1)
    assert both == pytest.approx(max(defined(prediction, far), defined(prediction, near)), abs=1e-5)
    assert bertscore(prediction, [prediction], str(folder), layer=1) == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(ValueError, match="at least one reference"):
        bertscore(prediction, [], str(folder), layer=1)


def test_an_unusable_model_is_refused_before_any_call(folder: Path, tmp_path: Path) -> None:
    check_bertscore(str(folder), layer=2)
    with pytest.raises(ValueError, match="the best layer of .* is not known"):
        check_bertscore(str(folder))
    with pytest.raises(ValueError, match="num_layers should be between 0 and 2"):
        check_bertscore(str(folder), layer=9)
    (tmp_path / "config.json").write_text((folder / "config.json").read_text("utf-8"), encoding="utf-8")
    with pytest.raises(ValueError, match="cannot be used"):
        check_bertscore(str(tmp_path), layer=1)
