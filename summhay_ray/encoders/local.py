"""Loads and runs local models: encoders and cross-encoders of sentence-transformers, and models of transformers for tokens, pairs
and likelihoods."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, TypeVar

from summhay_ray.encoders.base import Encoding, NoModel, Scoring, Vectors
from summhay_ray.encoders.find import INSTALL, MODELS, UNTRUSTED, check_model, find_model, is_cached
from summhay_ray.loops import check_wanted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

PICKLED = "a .bin file of its weights holds more than numbers, and is not read; give a model with .safetensors"

BATCH_TOKENS = 16384
"""Default maximum tokens per batch, including padding."""
BARE_BATCH_TOKENS = 4096
"""Default maximum tokens per batch for the models of transformers."""
_UNBOUNDED = 100_000
"""Tokenizers without a maximum length report a larger number than this."""
STRETCHED, ORIGINAL = 4096, 512
"""Number of positions of a model with extended positions, and of its original (LongEmbed, Zhu et al. 2024, section 4)."""


@dataclass(frozen=True)
class Encoder:
    """A loaded embedding model that encodes texts in batches."""

    encoding: Encoding
    model: Any
    device: str

    def encode(self, texts: Sequence[str], batch_tokens: int = BATCH_TOKENS, batch_size: int | None = None) -> Vectors:
        """Return the vectors of the texts, in their order. `batch_tokens`: maximum tokens per batch, including padding;
        `batch_size`: maximum texts per batch."""
        import numpy as np

        n_tokens, n_cut = self.lengths(texts)
        values: NDArray[np.float32] | None = None
        for batch in batches(n_tokens, batch_tokens, batch_size):
            found = self._encoded([texts[place] for place in batch])
            if values is None:
                values = np.zeros((len(texts), found.shape[1]), dtype=np.float32)
            values[batch] = found
        values = np.zeros((0, 0), dtype=np.float32) if values is None else values
        return Vectors(values, np.array(n_tokens, dtype=np.int64), np.array(n_cut, dtype=np.int64))

    def lengths(self, texts: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return, for each text, the tokens that the model reads and the tokens beyond its limit, counted by its tokenizer."""
        return _lengths(self.model.tokenizer, texts, self.model.max_seq_length)

    def _encoded(self, texts: list[str]) -> NDArray[np.float32]:
        import torch

        with torch.inference_mode():
            found = self.model.encode(texts, batch_size=len(texts), convert_to_tensor=True, show_progress_bar=False)
        values: NDArray[np.float32] = found.float().cpu().numpy()
        return values


@dataclass(frozen=True)
class StretchedEncoder(Encoder):
    """A model with extended positions (LongEmbed), with mean pooling and vectors of length 1.

    With `stretched`, the positions of a text within the original length are spread over the extended range; a longer text has
    consecutive positions. With `plain`, all texts have consecutive positions.
    """

    tokenizer: Any
    longest: int
    """Maximum tokens of a text."""

    def lengths(self, texts: Sequence[str]) -> tuple[list[int], list[int]]:
        return _lengths(self.tokenizer, texts, self.longest)

    def _encoded(self, texts: list[str]) -> NDArray[np.float32]:
        import torch

        given = self.tokenizer(texts, max_length=self.longest, padding=True, truncation=True, return_tensors="pt")
        mask = given["attention_mask"]
        places = torch.arange(mask.shape[1]).expand_as(mask)
        if self.encoding.positions == "stretched":
            # Positions depend on each text alone, not on its batch. Padding is masked, so its positions do not matter.
            short = mask.sum(dim=1, keepdim=True) <= ORIGINAL
            places = torch.where(
                short, (places * (STRETCHED // ORIGINAL)).clamp(max=self.model.config.max_position_embeddings - 1), places
            )
        with torch.inference_mode():
            hidden = self.model(**given.to(self.device), position_ids=places.to(self.device)).last_hidden_state.float()
            kept = mask.to(self.device)[..., None]
            pooled = (hidden * kept).sum(dim=1) / kept.sum(dim=1)
            values: NDArray[np.float32] = torch.nn.functional.normalize(pooled, p=2, dim=1).cpu().numpy()
        return values


@dataclass(frozen=True)
class Scorer:
    """A loaded cross-encoder that scores pairs of query and text."""

    scoring: Scoring
    model: Any
    device: str

    def score(
        self, pairs: Sequence[tuple[str, str]], batch_tokens: int = BATCH_TOKENS, batch_size: int | None = None
    ) -> NDArray[np.float32]:
        """Return one score per pair, in order, as `CrossEncoder.predict` does."""
        import numpy as np

        scores = np.zeros(len(pairs), dtype=np.float32)
        for batch in batches(self.lengths(pairs)[0], batch_tokens, batch_size):
            chosen = [pairs[place] for place in batch]
            scores[batch] = np.asarray(self.model.predict(chosen, batch_size=len(batch), show_progress_bar=False)).reshape(-1)
        return scores

    def lengths(self, pairs: Sequence[tuple[str, str]]) -> tuple[list[int], list[int]]:
        """Return, for each pair, the tokens that the model reads and the tokens beyond its limit, counted by its tokenizer."""
        longest = self.model.max_seq_length or self.model.tokenizer.model_max_length
        return _lengths(self.model.tokenizer, [list(pair) for pair in pairs], longest)


@dataclass(frozen=True)
class TokenEncoder:
    """Computes a contextual vector for each token of a text."""

    model: Any
    tokenizer: Any
    device: str

    def encode(
        self, texts: Sequence[str], special: bool = False, batch_tokens: int = BARE_BATCH_TOKENS, batch_size: int | None = None
    ) -> list[NDArray[np.float32]]:
        """Return vectors (tokens, dimensions) of length 1 for each text. `special`: include special tokens around the text."""
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
                # Padding may be before or after the text, so the mask removes it.
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
        self, pairs: Sequence[tuple[str, str]], batch_tokens: int = BARE_BATCH_TOKENS, batch_size: int | None = None
    ) -> Vectors:
        """Return probabilities (pairs, classes); each row sums to 1."""
        import numpy as np
        import torch

        positions = getattr(self.model.config, "max_position_embeddings", 0)
        if not positions or not getattr(self.model.config, "position_biased_input", True):
            # A model with relative positions accepts longer texts.
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
        """Return the mean log probability of the target's tokens, given the source; None for a target without a token."""
        import torch

        longest = _longest(self.tokenizer)
        options = {"truncation": longest is not None, "max_length": longest, "return_tensors": "pt"}
        given = self.tokenizer(source, **options).to(self.device)
        labels = self.tokenizer(text_target=target, **options)["input_ids"].to(self.device)
        if not labels.numel():
            return None
        with torch.inference_mode():
            return -float(self.model(**given, labels=labels).loss)


def load_encoder(encoding: Encoding, device: str = "") -> Encoder:
    """Load the encoder on `device`, by default on `best_device()`. Raise NoModel if it cannot be loaded."""

    def load(name: str) -> Encoder:
        import torch

        place, options, dtype = device or best_device(), _options(encoding), getattr(torch, encoding.precision)
        if encoding.positions:
            from transformers import AutoModel, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(name, **options, **UNTRUSTED)
            model = AutoModel.from_pretrained(name, torch_dtype=dtype, **options, **UNTRUSTED).to(place).eval()
            longest = min(encoding.max_tokens or STRETCHED, model.config.max_position_embeddings)
            return StretchedEncoder(encoding, model, place, tokenizer, longest)
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(name, device=place, model_kwargs={"torch_dtype": dtype}, **options)
        if encoding.max_tokens is not None:
            model.max_seq_length = encoding.max_tokens
        model.eval()
        return Encoder(encoding, model, place)

    return load_or_raise(encoding.model, load, encoding.revision)


def load_scorer(scoring: Scoring, device: str = "") -> Scorer:
    """Load the cross-encoder on `device`, by default on `best_device()`. Raise NoModel if it cannot be loaded."""

    def load(name: str) -> Scorer:
        import torch
        from sentence_transformers import CrossEncoder

        place, kwargs = device or best_device(), {"torch_dtype": getattr(torch, scoring.precision)}
        model = CrossEncoder(name, device=place, max_length=scoring.max_tokens, model_kwargs=kwargs, **_options(scoring))
        model.eval()
        return Scorer(scoring, model, place)

    return load_or_raise(scoring.model, load, scoring.revision)


@functools.cache
def load_token_encoder(name: str, layers: int | None = None) -> TokenEncoder:
    """Load a model, reduced to its first `layers` (None: all), as a token encoder. Raise NoModel if it cannot be loaded."""
    kept = {} if layers is None else {"num_hidden_layers": layers}
    return TokenEncoder(*_load(name, "AutoModel", **kept))


@functools.cache
def load_pair_classifier(name: str, max_tokens: int) -> PairClassifier:
    """Load a classifier of pairs, for example for natural language inference. Raise NoModel if it cannot be loaded."""
    return PairClassifier(*_load(name, "AutoModelForSequenceClassification"), max_tokens)


@functools.cache
def load_likelihood(name: str) -> Likelihood:
    """Load a sequence-to-sequence model (BART, T5, ...). Raise NoModel if it cannot be loaded."""
    return Likelihood(*_load(name, "AutoModelForSeq2SeqLM"))


def _load(name: str, auto_class: str, **settings: Any) -> tuple[Any, Any, str]:
    """Load a model by a class of transformers, with these settings of its configuration; return (model, tokenizer, device)."""

    def load(where: str) -> tuple[Any, Any, str]:
        import transformers

        options = {"local_files_only": find_model(name).folder is not None, **UNTRUSTED}
        device = best_device()
        model = getattr(transformers, auto_class).from_pretrained(where, **options, **settings).to(device).eval()
        return model, transformers.AutoTokenizer.from_pretrained(where, **options), device

    return load_or_raise(name, load)


def _longest(tokenizer: Any) -> int | None:
    longest = int(tokenizer.model_max_length)
    return longest if longest < _UNBOUNDED else None


def _options(made_by: Encoding | Scoring) -> dict[str, Any]:
    """Return the options that find a model's files, on this machine or on the hub, in a revision. A plain folder has no
    revisions."""
    own = find_model(made_by.model).folder is not None
    revision = {"revision": made_by.revision} if made_by.revision and not own else {}
    return {"local_files_only": own or is_cached(made_by.model, made_by.revision), **revision}


def best_device() -> str:
    """Return `cuda` if this process has a GPU, else `cpu`. Raise NoModel if torch is not installed."""
    try:
        import torch
    except ImportError as error:
        raise NoModel(f"a model in this process needs torch and sentence-transformers ({error}); {INSTALL}") from error
    return "cuda" if torch.cuda.is_available() else "cpu"


def batches(lengths: Sequence[int], tokens: int, size: int | None) -> Iterator[list[int]]:
    """Yield indices of texts in batches, longest first, so that a lack of memory shows immediately. Raise Abandoned."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if batch and (lengths[batch[0]] * (len(batch) + 1) > tokens or len(batch) == size):
            check_wanted()
            yield batch
            batch = []
        batch.append(place)
    if batch:
        check_wanted()
        yield batch


def _lengths(tokenizer: Any, texts: Sequence[Any], longest: int | None) -> tuple[list[int], list[int]]:
    if not texts:
        return [], []
    found = tokenizer(list(texts), truncation=False, padding=False, return_attention_mask=False)["input_ids"]
    whole = [len(ids) for ids in found]
    kept = whole if longest is None else [min(n, longest) for n in whole]
    return kept, [n - read for n, read in zip(whole, kept, strict=True)]


def load_or_raise(name: str, load: Callable[[str], T], revision: str = "") -> T:
    """Return the result of `load`, which is called with the model's folder or hub name. Raise NoModel if it cannot be loaded."""
    found = check_model(name, revision)
    quiet()
    try:
        return load(str(found.folder or name))
    except ImportError as error:
        raise NoModel(f"model {name!r} needs torch and sentence-transformers ({error}); {INSTALL}") from error
    except UnpicklingError as error:
        raise NoModel(f"model {name!r}: {PICKLED}") from error
    # The libraries raise OSError for a missing model, RuntimeError for weights that do not fit, and the others for a model of the
    # wrong kind.
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
        said = " ".join(str(error).split())[:200]
        mend = f"give a folder, put it into ${MODELS}/{name.rpartition('/')[2]}, or run where the model hub can be reached"
        raise NoModel(f"model {name!r} cannot be loaded ({type(error).__name__}: {said}); {mend}") from error


def quiet() -> None:
    try:
        from transformers.utils import logging
    except ImportError:
        return
    logging.disable_progress_bar()
    logging.set_verbosity_error()
