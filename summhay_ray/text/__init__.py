"""The text room: tokens, sentences, words, stems and JSON objects of a text, one of each for every room.

It imports nothing of ours. What a paper fixes, or what numbers were fitted to, lies beside its metric, retriever or model.
"""

from summhay_ray.text.chunks import chunks
from summhay_ray.text.citations import citations
from summhay_ray.text.objects import whole_objects
from summhay_ray.text.punkt import punkt_sentences
from summhay_ray.text.sentences import sentences
from summhay_ray.text.stems import root
from summhay_ray.text.tokens import count_tokens, encode_tokens, first_tokens, token_pieces
from summhay_ray.text.turns import turns
from summhay_ray.text.words import FUNCTION_WORDS, MONTHS, UNSPACED, plain_words

__all__ = [
    "FUNCTION_WORDS",
    "MONTHS",
    "UNSPACED",
    "chunks",
    "citations",
    "count_tokens",
    "encode_tokens",
    "first_tokens",
    "plain_words",
    "punkt_sentences",
    "root",
    "sentences",
    "token_pieces",
    "turns",
    "whole_objects",
]
