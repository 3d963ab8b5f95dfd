"""Selects the sentences of a source that a judge of its summary should read, within a token budget.

After "Less is More for Long Document Summary Evaluation by LLMs" (Wu, Iso et al., EACL 2024). A method ranks the source's
sentences for a given summary; one pass over the ranking fills all budgets. Each kind of method has its own file. This package
uses no Ray, no store and no money.
"""

from summhay_ray.extract.base import BUDGETS, Compute, Document, Extract, Numbers, WithWeights, named_layers
from summhay_ray.extract.extracting import (
    choose_units,
    cut_down,
    extract,
    make_extractor,
    method_identity,
    n_sentences,
    own_model,
    planned_extract,
    script_of,
    text_of,
)
from summhay_ray.extract.nli import Nli
from summhay_ray.extract.py_rouge import rouge_n

__all__ = [
    "BUDGETS",
    "Compute",
    "Document",
    "Extract",
    "Nli",
    "Numbers",
    "WithWeights",
    "choose_units",
    "cut_down",
    "extract",
    "make_extractor",
    "method_identity",
    "n_sentences",
    "named_layers",
    "own_model",
    "planned_extract",
    "rouge_n",
    "script_of",
    "text_of",
]
