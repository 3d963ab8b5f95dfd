"""Local models that embed texts, or score texts for a query.

The extra `embed` (torch, sentence-transformers) is required. No other package of ours loads such models.
"""

from summhay_ray.encoders.base import Comparing, Encoding, NoModel, Precision, Scoring, Vectors
from summhay_ray.encoders.find import (
    FOLDER_REVISION,
    UNTRUSTED,
    Kind,
    check_model,
    find_model,
    find_reachable,
    folder_revision,
    known_revision,
    resolve_name,
    why_unreachable,
)
from summhay_ray.encoders.local import (
    PICKLED,
    Encoder,
    Scorer,
    batches,
    best_device,
    load_encoder,
    load_likelihood,
    load_pair_classifier,
    load_scorer,
    load_token_encoder,
    quiet,
)

__all__ = [
    "FOLDER_REVISION",
    "PICKLED",
    "UNTRUSTED",
    "Comparing",
    "Encoder",
    "Encoding",
    "Kind",
    "NoModel",
    "Precision",
    "Scorer",
    "Scoring",
    "Vectors",
    "batches",
    "best_device",
    "check_model",
    "find_model",
    "find_reachable",
    "folder_revision",
    "known_revision",
    "load_encoder",
    "load_likelihood",
    "load_pair_classifier",
    "load_scorer",
    "load_token_encoder",
    "quiet",
    "resolve_name",
    "why_unreachable",
]
