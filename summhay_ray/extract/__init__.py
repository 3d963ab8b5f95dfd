"""The extract room: the sentences of a source that a judge of its summary should read, within a budget of tokens.

After "Less is More for Long Document Summary Evaluation by LLMs" (Wu, Iso et al., EACL 2024). A method ranks the sentences with
the summary in view (one file each); budgets are filled from one ranking, all in one pass. No Ray, no store, no money here.
"""

from summhay_ray.extract.base import BUDGETS, Document, Extract, Extractor
from summhay_ray.extract.extracting import choose_units, extract, make_extractor, n_sentences, text_of
from summhay_ray.extract.py_rouge import RougeScore, rouge_n

__all__ = [
    "BUDGETS",
    "Document",
    "Extract",
    "Extractor",
    "RougeScore",
    "choose_units",
    "extract",
    "make_extractor",
    "n_sentences",
    "rouge_n",
    "text_of",
]
