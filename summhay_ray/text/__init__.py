"""The text room: one tokenizer, sentence splitter, word list and stemmer that all rooms share. It imports nothing of ours.

A tokenization that a paper fixes, or that parameters were fitted to, lies beside its metric, retriever or model instead.
"""

from summhay_ray.text.chunks import chunks
from summhay_ray.text.hashes import text_hash
from summhay_ray.text.legal_citations import BACK, citations
from summhay_ray.text.objects import whole_objects
from summhay_ray.text.parsed_json import parsed_json
from summhay_ray.text.punkt import punkt_sentences
from summhay_ray.text.rag_answers import RagAnswer, rag_answer_json, read_rag_answer
from summhay_ray.text.scripts import Script, is_latin, sentences_of, words_of
from summhay_ray.text.sentences import sentences
from summhay_ray.text.sheets import BEGINS_FORMULA, quoted, unquoted
from summhay_ray.text.stems import root
from summhay_ray.text.tokens import count_tokens, encode_tokens, first_tokens, token_pieces
from summhay_ray.text.turns import TITLES, name_words, placed_turns, turns
from summhay_ray.text.whole_nltk import whole_nltk
from summhay_ray.text.words import FUNCTION_WORDS, MONTHS, UNSPACED, plain_words

__all__ = [
    "BACK",
    "BEGINS_FORMULA",
    "FUNCTION_WORDS",
    "MONTHS",
    "TITLES",
    "UNSPACED",
    "RagAnswer",
    "Script",
    "chunks",
    "citations",
    "count_tokens",
    "encode_tokens",
    "first_tokens",
    "is_latin",
    "name_words",
    "parsed_json",
    "placed_turns",
    "plain_words",
    "punkt_sentences",
    "quoted",
    "rag_answer_json",
    "read_rag_answer",
    "root",
    "sentences",
    "sentences_of",
    "text_hash",
    "token_pieces",
    "turns",
    "unquoted",
    "whole_nltk",
    "whole_objects",
    "words_of",
]
