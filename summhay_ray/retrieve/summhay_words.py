"""The tokenization of SummHay's release, equal to `nltk.word_tokenize`. Nothing is downloaded or unpickled.

`nltk.word_tokenize` applies the Punkt sentence splitter for English (here `text/punkt.py`), then a tokenizer after the Penn
Treebank's script. Its rules are reimplemented here, since importing NLTK takes seconds. The stop words are in `data/`;
data/README.txt names their source.
"""

import functools
import re
from importlib.resources import files

from summhay_ray.text import punkt_sentences

_APART = r"?!;@#$%&*()\[\]{}<>’\u2012-\u2015"
_PLAIN = re.compile(
    rf"(?:[A-Za-z0-9 \n°{_APART}]++|[,:](?=[ 0-9])|-(?!-)|\.(?= ?[A-Za-z0-9])|(?<=[A-Za-z])'(?=[smdt]\b|[A-Za-z][A-Za-z]))*+\.?"
)
_CONTRACTED = ("cannot", "gimme", "gonna", "gotta", "lemme", "wanna", "d'ye", "more'n")
_MARK = re.compile(rf"[{_APART}]|[,:](?= )")
_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # Opening quotation marks: `` stands for quotation marks whose sign does not show whether they open.
        (r"[«“‘„]|`+", r" \g<0> "),
        (r'^"', "``"),
        (r"``", " `` "),
        (r"([ (\[{<])(?:\"|'')", r"\1 `` "),
        (r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", "' "),
        # Punctuation. A full stop is a separate token only at the end of the sentence.
        (r"([^.])(\.)([\])}>\"'»”’ ]*+)\s*$", r"\1 \2 \3 "),
        (r"([:,])(\D)", r" \1 \2"),
        (r"[:,]$", r" \g<0> "),
        (r"\.{2,}|[;@#$%&\u2012-\u2015]", r" \g<0> "),
        (r"([^.])(\.)([\])}>\"']*)\s*$", r"\1 \2\3 "),
        (r"[?!]", r" \g<0> "),
        (r"([^'])' ", r"\1 ' "),
        (r"[*\][(){}<>]|--", r" \g<0> "),
        (r"^|$", " "),
        # Closing quotation marks, and endings such as 's and n't.
        (r"[»”’]", r" \g<0> "),
        (r"''|\"", " '' "),
        (r"\s+", " "),
        (r"([^' ])('[sSmMdD]|') ", r"\1 \2 "),
        (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
    )
)
"""Patterns with their replacements, applied to a text in this order; it is then split at blanks."""
_CONTRACTION = re.compile(
    r"(?i)\b(?:(can)(not)|(d)('ye)|(gim)(me)|(gon)(na)|(got)(ta)|(lem)(me)|(more)('n))\b|\b(wan)(na)(?=\s)",
)
_T_IS = re.compile(r"(?i) ('t)(is|was)\b")
_ENDING = re.compile(r"(?<=[^' ])(?:'[sSmMdD]|'ll|'LL|'re|'RE|'ve|'VE|n't|N'T)(?=\s|$)")


def word_tokens(text: str) -> list[str]:
    """The lower-case tokens of `text`, including punctuation, as in the release."""
    return [token.lower() for sentence in punkt_sentences(text) for token in tokens_of(sentence)]


def tokens_of(sentence: str) -> list[str]:
    """The tokens of a sentence by NLTK's word tokenizer; a plain sentence skips most of its patterns."""
    lowered = sentence.lower()
    if _PLAIN.fullmatch(sentence) and not any(word in lowered for word in _CONTRACTED):
        body, end = (sentence[:-1], ".") if sentence.endswith(".") else (sentence, "")
        apart = _MARK.sub(r" \g<0> ", body)
        return [*(_ENDING.sub(r" \g<0>", apart) if "'" in apart else apart).split(), *end]
    for pattern, replacement in _RULES:
        sentence = pattern.sub(replacement, sentence)
    sentence = _CONTRACTION.sub(lambda match: f" {' '.join(filter(None, match.groups()))} ", sentence)
    return _T_IS.sub(r" \1 \2 ", sentence).split()


@functools.cache
def stop_words() -> frozenset[str]:
    """NLTK's English stop words, in lower case."""
    file = files("summhay_ray.retrieve") / "data" / "stopwords_english.txt"
    return frozenset(filter(None, file.read_text(encoding="utf-8").split("\n")))
