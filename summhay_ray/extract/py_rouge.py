"""ROUGE-N by the rules of py-rouge 1.1 (D. Antognini), which the paper uses to extract and to score.

py-rouge follows ROUGE-1.5.5: words are ASCII letters and digits; a table of irregular words is applied first, then Porter's
original stemmer. Google's `rouge_score` differs in all three. `data/README.txt` gives the source of the tables. py-rouge itself
is unmaintained and needs an old setuptools, so its rules are reimplemented here and tested against its results.
"""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from summhay_ray.text import Script, is_latin, words_of

_OTHER = re.compile(r"[^A-Za-z0-9]")
_SPLIT = {"gonna": ("gon", "na"), "wanna": ("wan", "na"), "gotta": ("got", "ta"), "gimme": ("gim", "me"), "lemme": ("lem", "me")}
"""The words that NLTK's tokenizer splits. `cannot` is not among them, because py-rouge does not split it."""
_STEP_2 = """
    ational>ate tional>tion enci>ence anci>ance izer>ize abli>able alli>al entli>ent eli>e ousli>ous ization>ize ation>ate
    ator>ate alism>al iveness>ive fulness>ful ousness>ous aliti>al iviti>ive biliti>ble
"""
_STEP_3 = "icate>ic ative> alize>al iciti>ic ical>ic ful> ness>"
_STEP_4 = "al> ance> ence> er> ic> able> ible> ant> ement> ment> ent> ion> ou> ism> ate> iti> ous> ive> ize>"
_STEPS = [
    ({ending: new for ending, _, new in (rule.partition(">") for rule in rules.split())}, least)
    for rules, least in ((_STEP_2, 1), (_STEP_3, 1), (_STEP_4, 2))
]
"""Porter's steps 2 to 4, each as (ending -> replacement, minimum measure of the rest of the word). Only the first ending that a
word has counts."""
_LONG = 3
"""Maximum number of letters of a word that is not stemmed."""


@dataclass(frozen=True, slots=True)
class RougeScore:
    """Clipped n-gram overlap of a text with a reference. Each figure is 0..1."""

    precision: float
    recall: float
    f1: float


def rouge_n(text: str, reference: str, n: int, stem: bool = True, script: Script = "auto") -> RougeScore:
    """Return the ROUGE-`n` of a text against one reference; all figures are 0 if either has no n-gram. `script`: see
    `text.Script`."""
    latin = script == "latin" or is_latin(text, reference)
    found, wanted = (ngrams(rouge_words(one, stem, latin), n) for one in (text, reference))
    overlap = sum((found & wanted).values())
    precision = overlap / found.total() if found else 0.0
    recall = overlap / wanted.total() if wanted else 0.0
    # Use py-rouge's order of operations, so that the last digits are equal.
    f1 = precision * recall / (0.5 * precision + 0.5 * recall) if overlap else 0.0
    return RougeScore(precision, recall, f1)


def rouge_words(text: str, stem: bool = True, latin: bool = True) -> list[str]:
    """Return the words of a text in order, stemmed unless `stem` is false. If not `latin`, ICU finds the words, and py-rouge's
    rules apply only to ASCII words."""
    if not latin:
        return [one for word in words_of(text) for one in (rouge_words(word, stem) if word.isascii() else [word])]
    words: list[str] = []
    for word in _OTHER.sub(" ", text.lower()).split():
        words += _SPLIT.get(word, (word,))
    return [_stem(word) for word in words] if stem else words


def ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(n)), strict=False))


@functools.lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    # py-rouge hides `cannot` from the tokenizer in this way, and stems the hidden form.
    hidden = word.replace("cannot", "_cannot_")
    if len(hidden) > _LONG:
        hidden = _table().get(hidden) or porter_stem(hidden)
    return hidden.replace("_cannot_", "cannot")


@functools.cache
def _table() -> dict[str, str]:
    folder = files("summhay_ray.extract") / "data"
    names = ("wordnet_exceptions.txt", "porter_special_cases.txt")
    lines = [line for name in names for line in (folder / name).read_text(encoding="utf-8").splitlines()]
    return {word: becomes for word, _, becomes in (line.strip().partition("|") for line in lines)}


def porter_stem(word: str) -> str:
    """Return the stem of a lower-case word by Porter's algorithm as first published (1980).

    It equals that of NLTK's `PorterStemmer` in the mode ORIGINAL_ALGORITHM, but importing NLTK takes seconds. Later versions of
    the algorithm give other stems.
    """
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    word = _without_participle(word)
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = f"{word[:-1]}i"
    for endings, least in _STEPS:
        ending = next((ending for ending in endings if word.endswith(ending)), "")
        kept = word.removesuffix(ending)
        if ending and _measure(kept) >= least and not (ending == "ion" and kept[-1] not in "st"):
            word = kept + endings[ending]
    if word.endswith("e") and ((m := _measure(word[:-1])) > 1 or (m == 1 and not _ends_cvc(word[:-1]))):
        word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _without_participle(word: str) -> str:
    """Apply step 1b: remove the d of `eed`, or `ed` or `ing`."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = next((ending for ending in ("ed", "ing") if word.endswith(ending)), "")
    kept = word.removesuffix(ending)
    if not ending or "v" not in _shape(kept):
        return word
    if kept.endswith(("at", "bl", "iz")):
        return f"{kept}e"
    if kept[-1:] == kept[-2:-1] and _shape(kept)[-1] == "c":
        return kept if kept[-1] in "lsz" else kept[:-1]
    return f"{kept}e" if _measure(kept) == 1 and _ends_cvc(kept) else kept


def _shape(word: str) -> str:
    """Return c for each consonant and v for each vowel; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Return Porter's m: how often a consonant follows a vowel."""
    return _shape(word).count("vc")


def _ends_cvc(word: str) -> bool:
    """Whether the word ends as in Porter's *o: consonant, vowel, consonant, where the last is not w, x or y."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"
