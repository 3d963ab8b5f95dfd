"""Local models of retrievers. Their vectors and scores are kept in the store, so that nothing is computed twice."""

from __future__ import annotations

import functools
import json
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from summhay_ray.benchmark import Benchmark, Spec, Store
from summhay_ray.encoders import (
    FOLDER_REVISION,
    Comparing,
    Encoder,
    Encoding,
    Scorer,
    Scoring,
    Vectors,
    load_encoder,
    load_scorer,
)
from summhay_ray.extract import Compute
from summhay_ray.text import semantic_hash

STAGE = "embed"
"""The stage's name in a spec's `resources`."""
TEXTS_A_BLOCK = 128
"""Texts computed and stored together. The blocks depend only on the texts requested."""
FORMAT = 1
"""Version of the computed values; a new one starts new vector spaces."""

M = TypeVar("M", Encoder, Scorer)
MadeBy = Encoding | Scoring | Comparing
_COMPUTING = threading.Lock()
"""Allows one computation at a time per process: a model uses all cores, and other threads can reuse its results."""


@dataclass(frozen=True, slots=True)
class Computing:
    """How local models are run. None of it affects their identity."""

    batch_tokens: int = 16384
    batch_size: int | None = None

    @classmethod
    def of(cls, spec: Spec) -> Computing:
        """The settings in a spec's `resources` of stage `embed`."""
        said = spec.resources.get(STAGE)
        return cls() if said is None else cls(said.batch_tokens, said.batch_size)


@dataclass(slots=True)
class Computed:
    """Counts and seconds of what this process computed instead of reading it from the store."""

    texts: int = 0
    tokens: int = 0
    load_s: float = 0.0
    compute_s: float = 0.0

    def since(self, before: Computed) -> dict[str, float]:
        """The differences since a copy was taken, by field."""
        return {name: value - getattr(before, name) for name, value in asdict(self).items()}


class StoredModels:
    """See `retrieve.Models`. Without a store, results live in this object only."""

    def __init__(self, store: Store | None, computing: Computing | None = Computing()) -> None:
        """`computing`: None to only read stored results, and raise NotComputed for others."""
        self._computing = computing
        said = computing or Computing()
        self._batches = (said.batch_tokens, said.batch_size)
        self._space_named = functools.cache(lambda name: Benchmark.vector_space(store, name))
        self._models: OrderedDict[Encoding | Scoring, Any] = OrderedDict()
        self.computed = Computed()

    async def embed(self, encoding: Encoding, texts: Sequence[str]) -> Vectors:
        """See `retrieve.Models`. Raises NoModel."""
        return self.rows(encoding, texts, self._encoded(encoding))

    def embed_share(self, encoding: Encoding, texts: Sequence[str], share: tuple[int, int]) -> None:
        """Compute and store a share (i, n) of what `embed` needs: every nth block of the texts, from index i on."""
        space = self._space_named(_space_of(encoding))
        by_key = {space.key(text): text for text in texts}
        self._compute(encoding, list(_blocks(by_key))[share[0] :: share[1]], by_key, self._encoded(encoding))

    def _encoded(self, encoding: Encoding) -> Compute:
        def compute(block: Sequence[str], batch_tokens: int, batch_size: int | None) -> Vectors:
            return self._model(encoding, load_encoder).encode(block, batch_tokens, batch_size)

        return compute

    async def score(self, scoring: Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        """See `retrieve.Models`. Raises NoModel."""
        scores: list[float] = self.scored(scoring, query, texts).values[:, 0].tolist() if texts else []
        return scores

    def scored(self, scoring: Scoring, query: str, texts: Sequence[str]) -> Vectors:
        """Like `score`, with the known data of each pair. Raises NoModel."""
        import numpy as np

        def compute(block: Sequence[str], batch_tokens: int, batch_size: int | None) -> Vectors:
            model = self._model(scoring, load_scorer)
            pairs = [(query, json.loads(pair)[1]) for pair in block]
            scores = model.score(pairs, batch_tokens, batch_size)
            n_tokens, n_cut = (np.array(lengths, dtype=np.int64) for lengths in model.lengths(pairs))
            return Vectors(scores.reshape(-1, 1), n_tokens, n_cut)

        return self.rows(scoring, [json.dumps([query, text]) for text in texts], compute)

    def rows(self, made_by: MadeBy, texts: Sequence[str], compute: Compute) -> Vectors:
        """One row of numbers per text, in order (`extract.Numbers`); rows not in the store are computed by `compute`."""
        import numpy as np

        space = self._space_named(_space_of(made_by))
        keys = [space.key(text) for text in texts]
        found = space.get(keys)
        if len(found) < len(set(keys)):
            if self._computing is None:
                raise NotComputed
            by_key = dict(zip(keys, texts, strict=True))
            self._compute(made_by, _blocks(by_key), by_key, compute)
            found = space.get(keys)
        values = np.stack([found[key].vector for key in keys]) if keys else np.zeros((0, 0), dtype=np.float32)
        n_tokens, n_cut = (
            np.array([getattr(found[key], name) for key in keys], dtype=np.int64) for name in ("n_tokens", "n_cut")
        )
        return Vectors(values, n_tokens, n_cut)

    def _compute(self, made_by: MadeBy, blocks: Iterable[Sequence[bytes]], texts: Mapping[bytes, str], compute: Compute) -> None:
        with _COMPUTING:
            for block in blocks:
                self._compute_block(made_by, block, texts, compute)

    def _compute_block(self, made_by: MadeBy, block: Sequence[bytes], texts: Mapping[bytes, str], compute: Compute) -> None:
        import time

        space = self._space_named(_space_of(made_by))
        known = space.get(block)
        missing = [key for key in block if key not in known]
        if not missing:
            return
        began = time.monotonic()
        loading = self.computed.load_s
        found = compute([texts[key] for key in missing], *self._batches)
        n_tokens = found.n_tokens.tolist()
        space.put(
            missing, found.values, n_tokens, made_by.precision != "float32", () if found.n_cut is None else found.n_cut.tolist()
        )
        self.computed.texts += len(missing)
        self.computed.tokens += sum(n_tokens)
        self.computed.compute_s += time.monotonic() - began - (self.computed.load_s - loading)

    def _model(self, made_by: Any, load: Callable[[Any], M]) -> M:
        import time

        if made_by not in self._models:
            began = time.monotonic()
            self._models[made_by] = load(made_by)
            self.computed.load_s += time.monotonic() - began
        found: M = self._models[made_by]
        return found


def _space_of(made_by: MadeBy) -> str:
    """The name of the space of numbers that are computed in one way. A folder's model is identified by its content."""
    described = asdict(made_by)
    if made_by.revision.startswith(FOLDER_REVISION):
        described["model"] = ""
    return semantic_hash({**described, "kind": type(made_by).__name__, "format": FORMAT})


@dataclass(slots=True)
class Cut:
    """Number of texts that a model was given, number that it cut, and tokens that it did not read."""

    texts: int = 0
    cut: int = 0
    tokens: int = 0

    def add(self, beyond: Sequence[int]) -> None:
        """Add texts, given their tokens beyond the limit."""
        self.texts += len(beyond)
        self.cut += sum(n > 0 for n in beyond)
        self.tokens += sum(beyond)


class Noting:
    """See `retrieve.Models`. The stored models, and `cuts`: model -> what it cut since this object was made."""

    def __init__(self, models: StoredModels) -> None:
        self._models = models
        self.cuts: defaultdict[str, Cut] = defaultdict(Cut)

    async def embed(self, encoding: Encoding, texts: Sequence[str]) -> Vectors:
        """See `retrieve.Models`. Raises NoModel."""
        return self._noted(encoding.model, await self._models.embed(encoding, texts))

    async def score(self, scoring: Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        """See `retrieve.Models`. Raises NoModel."""
        found = self._noted(scoring.model, self._models.scored(scoring, query, texts))
        scores: list[float] = found.values[:, 0].tolist() if texts else []
        return scores

    def _noted(self, model: str, found: Vectors) -> Vectors:
        self.cuts[model].add([] if found.n_cut is None else found.n_cut.tolist())
        return found


class NotComputed(Exception):
    """Vectors or scores are not in the store, and computing is not allowed."""


class RequestedTexts:
    """See `retrieve.Models`. Computes nothing and records which texts a retriever needs embedded; its rankings are
    meaningless."""

    def __init__(self) -> None:
        self.texts: list[tuple[Encoding, Sequence[str]]] = []

    async def embed(self, encoding: Encoding, texts: Sequence[str]) -> Vectors:
        import numpy as np

        self.texts.append((encoding, texts))
        return Vectors(np.zeros((len(texts), 1), dtype=np.float32), np.zeros(len(texts), dtype=np.int64))

    async def score(self, scoring: Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        return [0.0] * len(texts)


def _blocks(texts: Mapping[bytes, str]) -> Iterator[Sequence[bytes]]:
    """The texts' keys in blocks of texts of similar length. Equal sets of texts give equal blocks."""
    in_order = sorted(texts, key=lambda key: (-len(texts[key]), key))
    for start in range(0, len(in_order), TEXTS_A_BLOCK):
        yield in_order[start : start + TEXTS_A_BLOCK]
