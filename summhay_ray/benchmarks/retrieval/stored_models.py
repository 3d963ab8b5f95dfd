"""Local models. The store holds their vectors and scores, so that nothing is computed twice."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np

from summhay_ray import encoders
from summhay_ray.benchmark import Benchmark, Spec, Store
from summhay_ray.extract import Compute
from summhay_ray.text import semantic_hash

STAGE = "embed"
"""The stage whose `resources` in a spec hold `batch_tokens` and `batch_size`."""
BATCH_TOKENS = 16384
"""Default tokens per batch, including padding."""
TEXTS_A_BLOCK = 128
"""Number of texts that are computed and stored together. The blocks depend only on the texts requested."""
FORMAT = 1
"""Version of the computed values. A new version starts new vector spaces."""

M = TypeVar("M", encoders.Encoder, encoders.Scorer)
MadeBy = encoders.Encoding | encoders.Scoring | encoders.Comparing
_COMPUTING = threading.Lock()
"""Allows one computation at a time per process: a model uses all cores, and other threads can reuse its results."""


class NotComputed(Exception):
    """Vectors or scores are not in the store, and computing is not allowed."""


@dataclass(slots=True)
class Computed:
    """Counts and seconds of the values that this process computed instead of reading them from the store."""

    texts: int = 0
    tokens: int = 0
    load_s: float = 0.0
    compute_s: float = 0.0

    def since(self, before: Computed) -> dict[str, float]:
        """Return the differences since a copy was taken, by field."""
        return {name: value - getattr(before, name) for name, value in asdict(self).items()}


class StoredModels:
    """Vectors and scores by local models. Without a store, results are kept only in this object."""

    def __init__(self, store: Store | None, spec: Spec | None) -> None:
        """`spec`: the run's spec, whose `resources` say how to compute. With None, only stored results are read; a missing
        one raises NotComputed."""
        self._computes = spec is not None
        settings = spec.resources.get(STAGE) if spec is not None else None
        self._batches = (settings.batch_tokens, settings.batch_size) if settings is not None else (BATCH_TOKENS, None)
        self._space = functools.cache(lambda made_by: Benchmark.vector_space(store, space_name(made_by)))
        self._models: dict[encoders.Encoding | encoders.Scoring, Any] = {}
        self.computed = Computed()

    def vectors(self, encoding: encoders.Encoding, texts: Sequence[str]) -> encoders.Vectors:
        """Return one vector per text, in order. Raises NoModel."""
        return self.rows(encoding, texts, functools.partial(self._encode, encoding))

    def compute_share(self, encoding: encoders.Encoding, texts: Sequence[str], share: tuple[int, int]) -> None:
        """Compute and store a share (i, n) of what `vectors` needs: every nth block of the texts, from block i on."""
        space = self._space(encoding)
        self._compute(encoding, {space.key(text): text for text in texts}, functools.partial(self._encode, encoding), share)

    def _encode(
        self, encoding: encoders.Encoding, block: Sequence[str], batch_tokens: int, batch_size: int | None
    ) -> encoders.Vectors:
        return self._model(encoding, encoders.load_encoder).encode(block, batch_tokens, batch_size)

    def scores(self, scoring: encoders.Scoring, query: str, texts: Sequence[str]) -> encoders.Vectors:
        """Return the relevance of each text to the query, as vectors of one number. Raises NoModel."""

        def compute(block: Sequence[str], batch_tokens: int, batch_size: int | None) -> encoders.Vectors:
            model = self._model(scoring, encoders.load_scorer)
            pairs = [(query, json.loads(pair)[1]) for pair in block]
            scores = model.score(pairs, batch_tokens, batch_size)
            n_tokens, n_cut = (np.array(lengths, dtype=np.int64) for lengths in model.lengths(pairs))
            return encoders.Vectors(scores.reshape(-1, 1), n_tokens, n_cut)

        return self.rows(scoring, [json.dumps([query, text]) for text in texts], compute)

    def rows(self, made_by: MadeBy, texts: Sequence[str], compute: Compute) -> encoders.Vectors:
        """Return one row of numbers per text, in order (`extract.Numbers`). `compute` makes the rows that are not in the
        store."""
        space = self._space(made_by)
        keys = [space.key(text) for text in texts]
        found = space.get(keys)
        if len(found) < len(set(keys)):
            self._compute(made_by, dict(zip(keys, texts, strict=True)), compute)
            found = space.get(keys)
        values = np.stack([found[key].vector for key in keys]) if keys else np.zeros((0, 0), dtype=np.float32)
        n_tokens, n_cut = (
            np.array([getattr(found[key], name) for key in keys], dtype=np.int64) for name in ("n_tokens", "n_cut")
        )
        return encoders.Vectors(values, n_tokens, n_cut)

    def _compute(self, made_by: MadeBy, texts: Mapping[bytes, str], compute: Compute, share: tuple[int, int] = (0, 1)) -> None:
        """Compute and store the rows of a share of the texts (given by their keys), in blocks of texts of similar length."""
        if not self._computes:
            raise NotComputed
        space = self._space(made_by)
        # Sorted, so that equal sets of texts give equal blocks.
        ordered = sorted(texts, key=lambda key: (-len(texts[key]), key))
        starts = range(0, len(ordered), TEXTS_A_BLOCK)[share[0] :: share[1]]
        with _COMPUTING:
            for block in (ordered[start : start + TEXTS_A_BLOCK] for start in starts):
                known = space.get(block)
                missing = [key for key in block if key not in known]
                if not missing:
                    continue
                began, loading = time.monotonic(), self.computed.load_s
                found = compute([texts[key] for key in missing], *self._batches)
                n_tokens, n_cut = found.n_tokens.tolist(), () if found.n_cut is None else found.n_cut.tolist()
                space.put(missing, found.values, n_tokens, made_by.precision != "float32", n_cut)
                self.computed.texts += len(missing)
                self.computed.tokens += sum(n_tokens)
                self.computed.compute_s += time.monotonic() - began - (self.computed.load_s - loading)

    def _model(self, made_by: Any, load: Callable[[Any], M]) -> M:
        if made_by not in self._models:
            began = time.monotonic()
            self._models[made_by] = load(made_by)
            self.computed.load_s += time.monotonic() - began
        found: M = self._models[made_by]
        return found


def space_name(made_by: MadeBy) -> str:
    """Return the name of the space of numbers that are computed in the same way. A model in a folder is identified by its
    content."""
    described = asdict(made_by)
    if made_by.revision.startswith(encoders.FOLDER_REVISION):
        described["model"] = ""
    return semantic_hash({**described, "kind": type(made_by).__name__, "format": FORMAT})


@dataclass(slots=True)
class Cut:
    """Number of texts that a model was given, number that it cut, and number of tokens that it did not read."""

    texts: int = 0
    cut: int = 0
    tokens: int = 0

    def add(self, beyond: Sequence[int]) -> None:
        """Add texts. `beyond`: for each text, its tokens beyond the limit."""
        self.texts += len(beyond)
        self.cut += sum(n > 0 for n in beyond)
        self.tokens += sum(beyond)


@dataclass
class NotedModels:
    """See `retrieve.Models`. Uses the stored models, and counts what they cut in one ranking."""

    stored: Callable[[], StoredModels]
    cuts: defaultdict[str, Cut] = field(default_factory=lambda: defaultdict(Cut))
    """Model -> the texts that it did not fully read."""

    async def embed(self, encoding: encoders.Encoding, texts: Sequence[str]) -> encoders.Vectors:
        found = self.stored().vectors(encoding, texts)
        self.cuts[encoding.model].add([] if found.n_cut is None else found.n_cut.tolist())
        return found

    async def score(self, scoring: encoders.Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        found = self.stored().scores(scoring, query, texts)
        self.cuts[scoring.model].add([] if found.n_cut is None else found.n_cut.tolist())
        scores: list[float] = found.values[:, 0].tolist() if texts else []
        return scores


@dataclass(frozen=True, slots=True)
class RequestedTexts:
    """See `retrieve.Models`. Only records which texts a retriever needs embedded; it computes nothing, so rankings are
    meaningless."""

    texts: list[tuple[encoders.Encoding, Sequence[str]]] = field(default_factory=list)

    async def embed(self, encoding: encoders.Encoding, texts: Sequence[str]) -> encoders.Vectors:
        self.texts.append((encoding, texts))
        return encoders.Vectors(np.zeros((len(texts), 1), dtype=np.float32), np.zeros(len(texts), dtype=np.int64))

    async def score(self, scoring: encoders.Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        return [0.0] * len(texts)
