"""One tokenizer, sentence splitter, word list, stemmer and reader of models' answers for all packages.

It imports no other module of this package.

A tokenization that a paper fixes, or that parameters were fitted to, is kept with its metric, retriever or model instead.
"""

from summhay_ray.text.answers import (
    UnusableAnswer,
    final_text,
    json_objects,
    json_value,
    read_label,
    read_number,
    whole_number,
    without_fences,
    without_thinking,
)
from summhay_ray.text.contradictions import find_contradictions
from summhay_ray.text.facts import TENS, UNITS_OF_TEN, Fact, plain_numeral, read_statement, values_of
from summhay_ray.text.hashes import canonical_json, encoded, parsed_json, semantic_hash, text_hash
from summhay_ray.text.material import (
    BEGINS_FORMULA,
    END_MARK,
    NAMES,
    NOTE,
    Block,
    Material,
    enclosed,
    fill,
    headed,
    inline,
    json_line,
    length_before,
    neutral,
    quoted,
    unquoted,
)
from summhay_ray.text.names import BACK, TITLES, citations, name_words, placed_turns, turns
from summhay_ray.text.pages import page_text
from summhay_ray.text.prose import LeftOut, ProseStatement, boilerplate, read_prose
from summhay_ray.text.punkt import punkt_sentences
from summhay_ray.text.rag_answers import RagAnswer, rag_answer_json, read_rag_answer
from summhay_ray.text.tokens import count_tokens, encode_tokens, first_tokens, token_pieces
from summhay_ray.text.words import (
    FUNCTION_WORDS,
    MONTHS,
    UNSPACED,
    Script,
    chunks,
    is_latin,
    plain_words,
    root,
    sentences,
    sentences_of,
    whole_nltk,
    words_of,
)

__all__ = [
    "BACK",
    "BEGINS_FORMULA",
    "END_MARK",
    "FUNCTION_WORDS",
    "MONTHS",
    "NAMES",
    "NOTE",
    "TENS",
    "TITLES",
    "UNITS_OF_TEN",
    "UNSPACED",
    "Block",
    "Fact",
    "LeftOut",
    "Material",
    "ProseStatement",
    "RagAnswer",
    "Script",
    "UnusableAnswer",
    "boilerplate",
    "canonical_json",
    "chunks",
    "citations",
    "count_tokens",
    "enclosed",
    "encode_tokens",
    "encoded",
    "fill",
    "final_text",
    "find_contradictions",
    "first_tokens",
    "headed",
    "inline",
    "is_latin",
    "json_line",
    "json_objects",
    "json_value",
    "length_before",
    "name_words",
    "neutral",
    "page_text",
    "parsed_json",
    "placed_turns",
    "plain_numeral",
    "plain_words",
    "punkt_sentences",
    "quoted",
    "rag_answer_json",
    "read_label",
    "read_number",
    "read_prose",
    "read_rag_answer",
    "read_statement",
    "root",
    "semantic_hash",
    "sentences",
    "sentences_of",
    "text_hash",
    "token_pieces",
    "turns",
    "unquoted",
    "values_of",
    "whole_nltk",
    "whole_number",
    "without_fences",
    "without_thinking",
    "words_of",
]
