"""Models in this process, compared with their own libraries, on small models that are made here."""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny_models import WORDS, bert, cross_encoder, sentence_model

from summhay_ray import api, retrieve
from summhay_ray.encoders import Encoding, NoModel, Scoring, find_model, load_encoder, load_scorer, load_token_encoder
from summhay_ray.encoders.find import why_unreachable
from summhay_ray.encoders.local import batches
from summhay_ray.errors import SpecError
from summhay_ray.retrieve import Chunks, Corpus, Dense, Embed, Longe, Query, Rerank

pytestmark = [pytest.mark.embed, pytest.mark.core]


def texts(n: int, longest: int = 40, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(n)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Path:
    return sentence_model(folder / "small")


@pytest.mark.parametrize(("tokens", "size"), [(1, None), (16384, 16), pytest.param(200, None, marks=pytest.mark.soak)])
def test_vectors_are_the_librarys_whatever_the_batches(embedder: Path, tokens: int, size: int | None) -> None:
    from sentence_transformers import SentenceTransformer

    given = ["", *texts(20), "apples " * 300]
    found = load_encoder(Encoding(str(embedder)), "cpu").encode(given, tokens, size)
    model = SentenceTransformer(str(embedder), device="cpu")
    assert np.abs(found.values - np.stack([model.encode([text])[0] for text in given])).max() < 1e-5
    assert found.n_tokens[0] == 2 and found.n_tokens[-1] == 64


def test_batches_hold_texts_of_like_length() -> None:
    assert list(batches([3, 9, 1, 8], 18, None)) == [[1, 3], [0, 2]]
    assert list(batches([3, 9, 1, 8], 1, None)) == [[1], [3], [0], [2]]
    assert list(batches([1, 1, 1], 100, 2)) == [[0, 1], [2]]
    assert list(batches([], 100, 2)) == []


def test_a_text_is_cut_where_the_entry_says_and_rounded_as_it_says(embedder: Path) -> None:
    whole = load_encoder(Encoding(str(embedder)), "cpu").encode(["apples pears plums"])
    cut = load_encoder(Encoding(str(embedder), max_tokens=3), "cpu").encode(["apples pears plums"])
    assert (whole.n_tokens[0], cut.n_tokens[0]) == (5, 3)
    assert np.abs(cut.values - load_encoder(Encoding(str(embedder)), "cpu").encode(["apples"]).values).max() < 1e-6
    half = load_encoder(Encoding(str(embedder), precision="bfloat16"), "cpu").encode(["apples pears plums"])
    assert 0 < np.abs(half.values - whole.values).max() < 0.05


def test_longe_stretches_positions_and_pools_as_the_release(folder: Path) -> None:
    """Each document with the query, encoded as in the release: one pair at a time, by transformers itself."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    name = str(bert(folder / "long", positions=4096))
    documents = [*texts(4), "ripe apples and pears " * 200, "plums"]
    corpus = Corpus("c", tuple("abcdef"), tuple(documents), (Query("q1", "red figs"), Query("q2", "green " * 600)))
    found = retrieve.rankings(Longe(encoding=Encoding(name)), corpus)
    model, cut = AutoModel.from_pretrained(name).eval(), AutoTokenizer.from_pretrained(name)
    for query, ranking in zip(corpus.queries, found, strict=True):
        scores = {one.number: one.score for one in ranking}
        for number, document in enumerate(documents, start=1):
            pair = cut([f"passage: {document}", f"query: {query.text}"], max_length=4096, padding=True, return_tensors="pt")
            length = pair["input_ids"].shape[1]
            places = torch.arange(length) * (8 if length <= 512 else 1)
            with torch.no_grad():
                hidden = model(**pair, position_ids=places[None].expand(2, -1)).last_hidden_state
            mask = pair["attention_mask"][..., None]
            pooled = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)
            assert scores[number] == pytest.approx(100 * float(pooled[0] @ pooled[1]), abs=1e-3)


def test_a_reranker_gives_what_predict_gives(folder: Path) -> None:
    from sentence_transformers import CrossEncoder

    name = str(cross_encoder(folder / "cross"))
    documents = texts(12)
    corpus = Corpus("c", tuple(map(str, range(12))), tuple(documents), (Query("q", "ripe apples"),))
    (ranking,) = retrieve.rankings(Rerank(Scoring(name), retrieve.make("random", 3), 8), corpus)
    theirs = CrossEncoder(name, device="cpu").predict([("ripe apples", text) for text in documents])
    first = {one.number for one in retrieve.rankings(retrieve.make("random", 3), corpus)[0][:8]}
    assert {one.number for one in ranking[:8]} == first
    assert [one.score for one in ranking[:8]] == pytest.approx(
        sorted((float(theirs[n - 1]) for n in first), reverse=True), abs=1e-5
    )
    # The others follow in their former order.
    assert [one.number for one in ranking[8:]] == [
        one.number for one in retrieve.rankings(retrieve.make("random", 3), corpus)[0][8:]
    ]
    assert len(load_scorer(Scoring(name), "cpu").score([])) == 0


@pytest.mark.parametrize("similarity", ["cosine", pytest.param("dot", marks=pytest.mark.soak)])
@pytest.mark.parametrize("combine", ["max", "mean", "weighted"])
def test_chunks_are_combined_as_the_entry_says(embedder: Path, combine: str, similarity: str) -> None:
    documents = ("apples pears plums figs red", "green ripe rotten", "")
    corpus = Corpus("c", tuple("abc"), documents, (Query("q", "ripe plums"),))
    dense = Dense(Encoding(str(embedder)), "query ", "passage ", Chunks(2, 1, combine), similarity)  # type: ignore[arg-type]
    (ranking,) = retrieve.rankings(Embed(dense), corpus)
    model = load_encoder(Encoding(str(embedder)), "cpu")
    asked = model.encode(["query ripe plums"]).values[0].astype(float)
    for number, document in enumerate(documents, start=1):
        pieces = Chunks(2, 1).split(document)
        held = np.stack([model.encode([f"passage {piece}"]).values[0] for piece, _ in pieces]).astype(float)
        weights = np.array([n if combine == "weighted" else 1 for _, n in pieces], dtype=float)
        each = held if combine == "max" else [(held * weights[:, None]).sum(0) / weights.sum()]
        lengths = [math.sqrt(one @ one) * math.sqrt(asked @ asked) if similarity == "cosine" else 1.0 for one in each]
        expected = max(float(one @ asked) / length for one, length in zip(each, lengths, strict=True))
        assert next(one.score for one in ranking if one.number == number) == pytest.approx(expected, abs=1e-5)


def test_pieces_overlap_and_lose_no_letter() -> None:
    text = "one two three four five 🍐🍎 six"
    pieces = [piece for piece, _ in Chunks(4, 2).split(text)]
    assert len(pieces) > 3 and pieces[0].startswith("one two") and pieces[-1].endswith("six")
    assert "".join(piece for piece, _ in Chunks(3).split(text)) == text
    assert Chunks(3).split("") == [("", 1)]


@pytest.mark.parametrize("name", ["no-such/model-at-all", "sentence-transformers/all-mpnet-base-v3"])
def test_a_model_that_is_nowhere_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr("summhay_ray.encoders.find.why_unreachable", why_unreachable.__wrapped__)
    with pytest.raises(NoModel, match=f"model '{name}' cannot be loaded") as caught:
        load_encoder(Encoding(name), "cpu")
    assert "\n" not in str(caught.value) and "SUMMHAY_MODELS" in str(caught.value)


def test_a_model_of_a_wrong_kind_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no such type"}')
    with pytest.raises(NoModel, match="cannot be loaded") as caught:
        load_encoder(Encoding(str(tmp_path)), "cpu")
    assert "\n" not in str(caught.value)
    with pytest.raises(NoModel, match="the folder holds no model"):
        find_model(str(tmp_path.parent))


def test_models_are_looked_for_in_a_folder_of_ones_own(embedder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMMHAY_MODELS", str(embedder.parent))
    assert find_model("some-org/small").folder == embedder
    monkeypatch.delenv("SUMMHAY_MODELS")
    assert find_model("some-org/small").source == "hub"
    assert find_model("all-MiniLM-L6-v2").source in ("package", "hub")


class Written:
    """Makes a folder when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._marker),)


@pytest.mark.parametrize("own", ["modules.json", "modules.json of an installed module", "config.json", "pickle", "pickled layer"])
def test_nothing_in_a_models_folder_is_run(own: str, embedder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, marker = tmp_path / "model", tmp_path / "marker"
    shutil.copytree(embedder, folder)
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "own.py").write_text(f"open({str(marker)!r}, 'w')\nclass Own: pass\nOwnConfig = OwnModel = Own\n")
    if own == "modules.json":
        modules[1]["type"] = "own.Own"
    elif own == "modules.json of an installed module":
        monkeypatch.syspath_prepend(str(folder))
        modules[1]["type"] = "own.Own"
    elif own == "config.json":
        classes = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
        said = {**json.loads((folder / "config.json").read_text()), "model_type": "own", "auto_map": classes}
        (folder / "config.json").write_text(json.dumps(said))
    elif own == "pickle":
        (folder / "model.safetensors").unlink()
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Written(marker), 2))
    else:
        (folder / "2_Dense").mkdir()
        (folder / "2_Dense" / "config.json").write_text('{"in_features": 32, "out_features": 4}')
        (folder / "2_Dense" / "pytorch_model.bin").write_bytes(pickle.dumps(Written(marker), 2))
        modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    monkeypatch.setattr("builtins.input", lambda _: "y")
    for load in (lambda: load_encoder(Encoding(str(folder)), "cpu"), lambda: load_token_encoder(str(folder))):
        if own != "pickled layer" or "Encoding" in load.__code__.co_names:
            with pytest.raises(NoModel, match=str(folder)) as caught:
                load()
            assert "\n" not in str(caught.value)
    if "json" in own:
        with pytest.raises(SpecError, match=r"retrievers\[0\]: model .*json"):
            api.load({"haystacks": ["sample/news"], "retrievers": [{"embed": str(folder)}], "k": [5], "kind": "retrieval"})
    assert not marker.exists()
