"""Local models loaded by transformers: token vectors, classes of pairs, likelihoods."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from summhay_ray.encoders.base import Vectors
from summhay_ray.encoders.find import UNTRUSTED, find_model
from summhay_ray.encoders.local import batches, best_device, loaded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH_TOKENS = 4096
"""Default tokens per batch, including padding."""
_UNBOUNDED = 100_000
"""Tokenizers without a maximum length report a larger number."""


@dataclass(frozen=True)
class TokenEncoder:
    """Computes a contextual vector for each token of a text."""

    model: Any
    tokenizer: Any
    device: str

    def encode(
        self, texts: Sequence[str], special: bool = False, batch_tokens: int = BATCH_TOKENS, batch_size: int | None = None
    ) -> list[NDArray[np.float32]]:
        """For each text, vectors (tokens, dimensions) of length 1. `special`: include special tokens around the text."""
        import numpy as np
        import torch

        longest = _longest(self.tokenizer)
        ids = [self.tokenizer(text, truncation=longest is not None, max_length=longest)["input_ids"] for text in texts]
        found: list[NDArray[np.float32]] = [np.zeros((0, 0), dtype=np.float32)] * len(texts)
        for batch in batches([len(one) for one in ids], batch_tokens, batch_size):
            given = self.tokenizer.pad({"input_ids": [ids[place] for place in batch]}, return_tensors="pt").to(self.device)
            with torch.inference_mode():
                hidden = self.model(**given).last_hidden_state.float()
            vectors = torch.nn.functional.normalize(hidden, p=2, dim=-1).cpu().numpy()
            for row, place in zip(vectors, batch, strict=True):
                # Padding may be before or after the text, so it is removed by the mask.
                kept = given["attention_mask"][batch.index(place)].bool().cpu().numpy()
                if not special:
                    around = set(self.tokenizer.all_special_ids) - {self.tokenizer.unk_token_id}
                    kept &= np.array([int(one) not in around for one in given["input_ids"][batch.index(place)]])
                found[place] = row[kept]
        return found


@dataclass(frozen=True)
class PairClassifier:
    """Computes class probabilities for pairs of texts (premise, hypothesis)."""

    model: Any
    tokenizer: Any
    device: str
    max_tokens: int

    @property
    def labels(self) -> list[str]:
        """Names of the classes in column order, in lower case, from the model's configuration."""
        named = self.model.config.id2label
        return [str(named[number]).lower() for number in sorted(named)]

    def probabilities(
        self, pairs: Sequence[tuple[str, str]], batch_tokens: int = BATCH_TOKENS, batch_size: int | None = None
    ) -> Vectors:
        """Probabilities (pairs, classes); each row sums to 1."""
        import numpy as np
        import torch

        positions = getattr(self.model.config, "max_position_embeddings", 0)
        if not positions or not getattr(self.model.config, "position_biased_input", True):
            # Its positions are relative, so a text may be longer.
            positions = self.max_tokens
        longest = min(self.max_tokens, _longest(self.tokenizer) or self.max_tokens, positions)
        ids = [self.tokenizer(*pair, truncation=True, max_length=longest) for pair in pairs]
        found = np.zeros((len(pairs), len(self.labels)), dtype=np.float32)
        n_tokens = [len(one["input_ids"]) for one in ids]
        for batch in batches(n_tokens, batch_tokens, batch_size):
            given = self.tokenizer.pad([ids[place] for place in batch], return_tensors="pt").to(self.device)
            with torch.inference_mode():
                found[batch] = torch.softmax(self.model(**given).logits.float(), dim=-1).cpu().numpy()
        return Vectors(found, np.array(n_tokens, dtype=np.int64))


@dataclass(frozen=True)
class Likelihood:
    """Computes how likely a sequence-to-sequence model is to generate a given text."""

    model: Any
    tokenizer: Any
    device: str

    def mean_log(self, source: str, target: str) -> float | None:
        """The mean log probability of the target's tokens, given the source; None for a target without a token."""
        import torch

        longest = _longest(self.tokenizer)
        options = {"truncation": longest is not None, "max_length": longest, "return_tensors": "pt"}
        given = self.tokenizer(source, **options).to(self.device)
        labels = self.tokenizer(text_target=target, **options)["input_ids"].to(self.device)
        if not labels.numel():
            return None
        with torch.inference_mode():
            return -float(self.model(**given, labels=labels).loss)


@functools.cache
def load_token_encoder(name: str, layers: int | None = None) -> TokenEncoder:
    """A model reduced to its first `layers` (None: all), as a token encoder. Raises NoModel if it cannot be loaded."""
    kept = {} if layers is None else {"num_hidden_layers": layers}
    return TokenEncoder(*_load(name, "AutoModel", **kept))


@functools.cache
def load_pair_classifier(name: str, max_tokens: int) -> PairClassifier:
    """A classifier of pairs, such as for natural language inference. Raises NoModel if it cannot be loaded."""
    return PairClassifier(*_load(name, "AutoModelForSequenceClassification"), max_tokens)


@functools.cache
def load_likelihood(name: str) -> Likelihood:
    """A sequence-to-sequence model (BART, T5, ...). Raises NoModel if it cannot be loaded."""
    return Likelihood(*_load(name, "AutoModelForSeq2SeqLM"))


def _load(name: str, auto_class: str, **settings: Any) -> tuple[Any, Any, str]:
    """(model, tokenizer, device) of a model, loaded by a class of transformers with these settings of its configuration."""

    def load(where: str) -> tuple[Any, Any, str]:
        import transformers

        options = {"local_files_only": find_model(name).folder is not None, **UNTRUSTED}
        device = best_device()
        model = getattr(transformers, auto_class).from_pretrained(where, **options, **settings).to(device).eval()
        return model, transformers.AutoTokenizer.from_pretrained(where, **options), device

    return loaded(name, load)


def _longest(tokenizer: Any) -> int | None:
    longest = int(tokenizer.model_max_length)
    return longest if longest < _UNBOUNDED else None
