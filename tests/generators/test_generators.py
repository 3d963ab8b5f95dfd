"""Models of transformers in this process, with small models made here: random weights, a real config and tokenizer."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from summhay_ray.encoders import NoModel
from summhay_ray.llm import Generation, Request, user
from summhay_ray.local_models import Generator, LocalModels, check_model

pytestmark = pytest.mark.embed

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<doc-sep>"]
WORDS = [
    *SPECIAL,
    "when",
    "does",
    "the",
    "bridge",
    "open",
    "in",
    "may",
    "ferry",
    "late",
    "chair",
    "clerk",
    ":",
    "?",
    ".",
    "answer",
]
PROMPT = (
    "Below are 2 documents.\n\nDocument 1:\nchair : the ferry late .\n\nDocument 2:\nclerk : the bridge open in may .\n\n"
    "\n=== End of documents ===\n\nQuestion: when does the bridge open ?\nLength of the answer: at most 30 words\n\nAnswer it."
)


def tokenizer_of(template: str = "") -> Any:
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>"}
    found = transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special)
    found.chat_template = template or None
    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import torch
    import transformers

    root = tmp_path_factory.mktemp("models")
    torch.manual_seed(7)
    small = {"vocab_size": len(WORDS), "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16}
    small |= {"decoder_ffn_dim": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "init_std": 1.0}
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None}
    bart = transformers.BartConfig(**small, **ids, max_position_embeddings=64)
    led = transformers.LEDConfig(**small, **ids, attention_window=[8], max_encoder_position_embeddings=64)
    llama = transformers.LlamaConfig(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=256, bos_token_id=0, pad_token_id=1, eos_token_id=2,
    )  # fmt: skip
    chat = "{% for message in messages %}{{ message.role }} : {{ message.content }} {% endfor %}answer :"
    # With larger weights, an answer depends on more than the prompt's end. Nothing ends it early.
    own = {"initializer_range": 0.5, "num_hidden_layers": 4, "max_position_embeddings": 4096, "eos_token_id": None}
    loud = transformers.LlamaConfig(**{**llama.to_dict(), **own})
    made = {
        "bart": (transformers.BartForConditionalGeneration(bart), tokenizer_of()),
        "led": (transformers.LEDForConditionalGeneration(led), tokenizer_of()),
        "llama": (transformers.LlamaForCausalLM(llama), tokenizer_of(chat)),
        "loud": (transformers.LlamaForCausalLM(loud), tokenizer_of()),
    }
    for name, (model, tokenizer) in made.items():
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return {name: root / name for name in made}


def answered(folder: Path, **sampling: Any) -> str:
    return LocalModels()[f"transformers/{folder}"].answer(Request(f"transformers/{folder}", [user(PROMPT)], sampling))


def generated(folder: Path, ids: list[int], skip: int = 0, **options: Any) -> str:
    """The result of transformers itself for these tokens."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    given = torch.tensor([ids])
    model = kind.from_pretrained(folder).eval()
    out = model.generate(given, attention_mask=torch.ones_like(given), do_sample=False, **options)[0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return str(tokenizer.decode(out[skip:], skip_special_tokens=True)).strip()


def ids_of(text: str) -> list[int]:
    return [WORDS.index(word) if word in WORDS else 3 for word in text.split()]


def test_bart_reads_query_documents_query_and_primera_the_head_of_each(folders: dict[str, Path]) -> None:
    import torch

    query, one, two = "when does the bridge open ?", "chair : the ferry late .", "clerk : the bridge open in may ."
    bart = [0, *ids_of(query), 2, *ids_of(one), *ids_of(two), 2, *ids_of(query), 2]
    found = answered(folders["bart"], input="bart", max_tokens=8, num_beams=2)
    assert found == generated(folders["bart"], bart, max_new_tokens=8, num_beams=2) != ""
    # 17 tokens: two special ones, and 7 for each document, including a separator.
    led = [0, *ids_of(one)[:6], 4, *ids_of(two)[:6], 4, 2]
    mask = torch.tensor([[1] + [0] * (len(led) - 1)])
    found = answered(folders["led"], input="primera", source_tokens=17, max_tokens=8)
    assert found == generated(folders["led"], led, max_new_tokens=8, num_beams=1, global_attention_mask=mask)


def test_a_chat_model_reads_its_template_and_samples_the_same_again(folders: dict[str, Path]) -> None:
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folders["llama"])
    text = tokenizer.apply_chat_template([{"role": "user", "content": PROMPT}], tokenize=False)
    ids = tokenizer.apply_chat_template([{"role": "user", "content": PROMPT}], add_generation_prompt=True, return_dict=False)
    assert text.startswith("user : Below")
    assert answered(folders["llama"], max_tokens=6) == generated(folders["llama"], ids, len(ids), max_new_tokens=6, num_beams=1)
    drawn = [answered(folders["llama"], max_tokens=12, temperature=1.0, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_what_cannot_be_used_is_one_line(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="takes no 'beams'"):
        answered(folders["bart"], beams=3)
    with pytest.raises(LookupError, match="input: expected one of prompt, bart, primera"):
        answered(folders["bart"], input="longformer")
    with pytest.raises(NoModel, match="the folder holds no model"):
        check_model(f"transformers/{tmp_path}")
    # The same folder with other weights is another model.
    one = LocalModels()[f"transformers/{folders['bart']}"].revision
    assert one.startswith("sha256:") and one != LocalModels()[f"transformers/{folders['led']}"].revision


def test_code_in_a_models_folder_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"}}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\nclass Own: pass\n", encoding="utf-8")
    monkeypatch.setattr("builtins.input", lambda _: "y")
    with pytest.raises(NoModel, match="cannot be loaded"):
        answered(tmp_path)
    assert not (tmp_path / "marker").exists()


@pytest.mark.soak
@pytest.mark.ray
def test_a_pool_of_actors_answers_what_one_process_answers(folders: dict[str, Path], tmp_path: Path) -> None:
    from summhay_ray import api

    (tmp_path / "a.txt").write_text("chair : the ferry late .", encoding="utf-8")
    (tmp_path / "b.txt").write_text("clerk : the bridge open in may .", encoding="utf-8")
    rows = [{"query_id": str(n), "text": f"when the {'bridge ' * n} open ?", "references": ["in may"]} for n in range(6)]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    led = {"max_tokens": 8, "extra": {"input": "primera", "source_tokens": 17}}
    spec = {
        "kind": "odsum",
        "corpus": str(tmp_path),
        "retrievers": ["bm25"],
        "k": [1, 2],
        "strategies": ["truncate-all", "map-reduce"],
        "summarizers": [
            {"model": f"transformers/{folders['led']}", "name": "PRIMERA", **led},
            {"model": f"transformers/{folders['llama']}", "name": "Llama", "max_tokens": 6},
        ],
        "resources": {"transformers": {"actors": 2, "cpus": 0.5}},
    }
    found = {}
    for executor in ("inline", "ray"):
        store = str(tmp_path / executor)
        result = api.run(spec, store, executor=executor)
        told = api.status(result.run, store)
        found[executor] = api.table(result.run, "odsum_summaries", store).sort("item_id")
        assert result.executor == executor and told.cells["done"] + told.cells["failed"] == 6 * 2 * 2 * 2
    assert found["ray"].equals(found["inline"]) and found["inline"].height > 0


def test_a_run_asks_it_as_any_other_model_by_a_path_from_the_specs_folder(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from summhay_ray import api

    monkeypatch.chdir(tmp_path)
    ids = set()
    for place in ("here", "there"):
        specs = tmp_path / place / "specs"
        specs.mkdir(parents=True)
        shutil.copytree(folders["bart"], tmp_path / place / "models" / "bart")
        (specs / "a.txt").write_text("chair : the ferry late .", encoding="utf-8")
        (specs / "queries.jsonl").write_text('{"query_id": "1", "text": "when ?", "references": ["the ferry"]}', encoding="utf-8")
        model = "{model: transformers/../models/bart, name: BART, max_tokens: 8, extra: {input: bart, num_beams: 2}}"
        fields = f"kind: odsum\ncorpus: .\nretrievers: [bm25]\nk: [1]\nsummarizers: [{model}]\n"
        (specs / "spec.yaml").write_text(fields, encoding="utf-8")
        result = api.run(specs / "spec.yaml", str(tmp_path / place / "store"), executor="inline")
        assert (result.status, result.calls["made"]) == ("done", 1)
        ids.add(result.run)
        assert api.run(specs / "spec.yaml", str(tmp_path / place / "store"), executor="inline").calls["made"] == 0
        assert api.score(result.run, str(tmp_path / place / "store")).details["summaries"]
    assert len(ids) == 1


TEXTS = [f"{'the ferry late . ' * (n % 5)}when does the {WORDS[8 + n % 7]} open ?" for n in range(8)]


def asked(folder: Path, **sampling: Any) -> tuple[Generator, list[Request]]:
    """A model, and eight requests, which fit into one batch."""
    return Generator(f"transformers/{folder}"), [Request(f"transformers/{folder}", [user(text)], sampling) for text in TEXTS]


def in_batches(
    model: Generator, requests: list[Request], most: int, goes_on: Callable[[int, int], bool] = lambda *_: True
) -> dict[int, str]:
    """The complete answers, by the requests' indices."""
    found: dict[int, str] = {}
    for batch in model.batches(requests, most):
        assert len(batch) <= most

        def keep(place: int, text: str, batch: Sequence[int] = batch) -> None:
            found[batch[place]] = text

        model.generate(Generation([requests[place] for place in batch], keep, goes_on))
    return found


LONGEST, EARLY = 320, 40
"""Tokens of the longest answer, and words among which some answers end."""


@pytest.fixture(scope="module")
def ending_early(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[int], set[int]]:
    """A copy of the model for which one of its words ends an answer; requests that it ends early, and that it never ends."""
    folder, to = folders["loud"], tmp_path_factory.mktemp("early") / "model"
    model, requests = asked(folder, max_tokens=LONGEST)
    said = [text.split() for _, text in sorted(in_batches(model, requests, len(requests)).items())]

    def split(word: str) -> tuple[set[int], set[int]]:
        early = {place for place, words in enumerate(said) if word in words[1:EARLY] and word != words[0]}
        return early, {place for place, words in enumerate(said) if word not in words}

    word = max(WORDS[len(SPECIAL) :], key=lambda word: min(map(len, split(word))))
    early, never = split(word)
    assert early and never
    shutil.copytree(folder, to)
    path = to / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "eos_token_id": WORDS.index(word)}), encoding="utf-8")
    return to, early, never


@pytest.mark.parametrize("name", ["loud", "bart", "led"])
def test_a_batch_gives_the_answers_of_single_prompts(folders: dict[str, Path], name: str) -> None:
    model, requests = asked(folders[name], max_tokens=20)
    found = in_batches(model, requests, 5)
    assert [found[place] for place in range(len(requests))] == [model.answer(request) for request in requests]
    assert len(set(found.values())) > 1
    # Requests that sample or use beams run alone.
    assert [len(batch) for batch in model.batches(asked(folders[name], temperature=1.0)[1], 5)] == [1] * len(requests)


def test_what_padding_would_change_is_batched_by_equal_length(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["loud"], tmp_path / "model")
    path = tmp_path / "model" / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "repetition_penalty": 1.3}), encoding="utf-8")
    model, requests = asked(tmp_path / "model", max_tokens=20)
    assert in_batches(model, requests, 8) == {place: model.answer(request) for place, request in enumerate(requests)}
    assert {len({len(requests[place].prompt.split()) for place in batch}) for batch in model.batches(requests, 8)} == {1}


def test_a_stopped_batch_gives_the_answers_that_have_ended_and_no_others(ending_early: tuple[Path, set[int], set[int]]) -> None:
    folder, early, never = ending_early
    model, requests = asked(folder, max_tokens=LONGEST)
    found = in_batches(model, requests, len(requests), lambda n_tokens, _: n_tokens < 2 * EARLY)
    assert early <= set(found) and not never & set(found)
    assert found == {place: model.answer(requests[place]) for place in found}
    model, requests = asked(folder, max_tokens=LONGEST, num_beams=2)
    assert in_batches(model, requests[:2], 2, lambda n_tokens, _: n_tokens < 4) == {}


OWN = """
from collections.abc import Iterator
from dataclasses import dataclass

from summhay_ray.benchmark import Ask, Benchmark, Item, Model, Rows, Spec, Stage, Table, user


@dataclass(frozen=True)
class Said:
    number: int
    text: str


class SaySpec(Spec):
    model: Model
    texts: list[str]


class Say(Benchmark[SaySpec]):
    stages = (Stage("say"),)
    tables = (Table("said", Said, key=("number",)),)

    def items(self) -> Iterator[Item]:
        for number, text in enumerate(self.spec.texts):
            yield Item(str(number), model=self.spec.model, data={"number": number, "text": text})

    async def answer(self, item: Item, ask: Ask) -> Rows:
        reply = await ask("say", [user(item.data["text"])])
        return {"said": [Said(item.data["number"], reply.text)]}
"""


def said_by(folder: Path, tmp_path: Path, **fields: Any) -> Path:
    """The path of a spec that asks a model about all texts."""
    (tmp_path / "own_say.py").write_text(OWN, encoding="utf-8")
    model = {"model": f"transformers/{folder}", "max_tokens": LONGEST, **fields}
    (tmp_path / "spec.yaml").write_text(json.dumps({"kind": "own_say:Say", "texts": TEXTS, "model": model}), encoding="utf-8")
    return tmp_path / "spec.yaml"


@pytest.mark.soak
def test_sigterm_keeps_the_answers_that_have_ended_and_only_these(
    ending_early: tuple[Path, set[int], set[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from summhay_ray import api

    folder, early, never = ending_early
    spec, store = said_by(folder, tmp_path), tmp_path / "store"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    command = [str(Path(sys.executable).with_name("summhay")), "run", str(spec), "--store", str(store), "--executor", "inline"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while sum(len(path.read_text().splitlines()) for path in (store / "answers").glob("*")) < len(early):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    complaint = process.communicate(timeout=60)[1]
    assert process.returncode == 143 and time.monotonic() - began < 10, complaint
    (run,) = (path.name for path in (store / "runs").iterdir())
    kept = api.table(run, "said", str(store)).sort("number")
    assert early <= set(kept["number"]) and not never & set(kept["number"])
    assert f"{kept.height} of {len(TEXTS)} items" in complaint
    result = api.run(spec, str(store), executor="inline")
    assert result.calls == {"made": len(TEXTS) - kept.height, "reused": kept.height, "failed": 0}
    assert api.table(run, "said", str(store)).filter(pl.col("number").is_in(kept["number"].implode())).sort("number").equals(kept)


def test_a_timeout_ends_a_generation_and_a_longer_one_asks_again(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from summhay_ray import api

    monkeypatch.syspath_prepend(tmp_path)
    store = str(tmp_path / "store")
    result = api.run(said_by(folders["loud"], tmp_path, timeout_s=0.1), store, executor="inline")
    assert result.status == "partial" and result.cells["failed"] == result.tried_again == len(TEXTS)
    assert set(api.table(result.run, "failures", store)["error"]) == {"timeout"}
    again = api.run(said_by(folders["loud"], tmp_path), store, executor="inline")
    assert (again.run, again.status, again.calls["made"]) == (result.run, "done", len(TEXTS))
