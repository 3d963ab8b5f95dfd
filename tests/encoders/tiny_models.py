"""Small models with random weights for tests: a real architecture, tokenizer and folder, without a download."""

from __future__ import annotations

from pathlib import Path

TEXT = "apples pears plums figs red green ripe rotten sold bought query passage market price of and the in a"
WORDS = TEXT.split()


def tokenizer(folder: Path) -> None:
    from transformers import BertTokenizerFast

    letters = [letter for word in ("abcdefghijklmnopqrstuvwxyz0123456789", ".,:;?!-'") for letter in word]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters, *(f"##{letter}" for letter in letters)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(vocabulary)), encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(str(folder))


def config(positions: int, labels: int = 2) -> object:
    from transformers import BertConfig

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    return BertConfig(vocab_size=200, max_position_embeddings=positions, num_labels=labels, **sizes)


def bert(folder: Path, positions: int = 512) -> Path:
    """An encoder without its own pooling."""
    import torch
    from transformers import BertModel

    torch.manual_seed(7)
    BertModel(config(positions)).eval().save_pretrained(str(folder))
    tokenizer(folder)
    return folder


def sentence_model(folder: Path, longest: int = 64) -> Path:
    """A model of sentence-transformers: mean pooling, texts cut at `longest` tokens."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    words = modules.Transformer(str(bert(folder.parent / f"{folder.name}-bert")), max_seq_length=longest)
    made = SentenceTransformer(modules=[words, modules.Pooling(words.get_embedding_dimension())], device="cpu")
    made.save(str(folder))
    return folder


def cross_encoder(folder: Path) -> Path:
    """A model that scores pairs."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(8)
    BertForSequenceClassification(config(512, labels=1)).eval().save_pretrained(str(folder))
    tokenizer(folder)
    return folder


def entailer(folder: Path, labels: tuple[str, ...] = ("ENTAILMENT", "NEUTRAL", "CONTRADICTION")) -> Path:
    """A model for natural language inference with weights large enough to give different answers."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(8)
    sized = config(512, labels=len(labels))
    sized.id2label, sized.initializer_range = dict(enumerate(labels)), 0.6  # type: ignore[attr-defined]
    BertForSequenceClassification(sized).eval().save_pretrained(str(folder))
    tokenizer(folder)
    return folder


def writer(folder: Path) -> Path:
    """A model that writes random words."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer(folder)
    known = len(AutoTokenizer.from_pretrained(str(folder)))
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    torch.manual_seed(5)
    made = LlamaConfig(vocab_size=known, max_position_embeddings=32_768, initializer_range=1.0, **sizes, **ends)
    LlamaForCausalLM(made).save_pretrained(str(folder))
    return folder
