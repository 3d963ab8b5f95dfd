"""Porter's stemmer as first published ("An algorithm for suffix stripping", Program 14.3, 1980).

Equal to NLTK's `PorterStemmer` in the mode ORIGINAL_ALGORITHM, whose import takes seconds. Later versions of the algorithm, such
as the one behind Google's `rouge_score`, give other stems.
"""

from __future__ import annotations

from collections.abc import Mapping


def _endings(rules: str) -> Mapping[str, str]:
    """Ending -> its replacement, from `ENDING>REPLACEMENT` pairs; the first ending that a word has counts."""
    return {ending: replacement for ending, _, replacement in (rule.partition(">") for rule in rules.split())}


_STEP_2 = _endings("""
    ational>ate tional>tion enci>ence anci>ance izer>ize abli>able alli>al entli>ent eli>e ousli>ous ization>ize ation>ate
    ator>ate alism>al iveness>ive fulness>ful ousness>ous aliti>al iviti>ive biliti>ble
""")
_STEP_3 = _endings("icate>ic ative> alize>al iciti>ic ical>ic ful> ness>")
_STEP_4 = _endings("al> ance> ence> er> ic> able> ible> ant> ement> ment> ent> ion> ou> ism> ate> iti> ous> ive> ize>")


def porter_stem(word: str) -> str:
    """The stem of a lower-case word."""
    word = _participle(_plural(word))
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = f"{word[:-1]}i"
    word = _replaced(word, _STEP_2, least=1)
    word = _replaced(word, _STEP_3, least=1)
    word = _replaced(word, _STEP_4, least=2)
    if word.endswith("e") and ((m := _measure(word[:-1])) > 1 or (m == 1 and not _ends_cvc(word[:-1]))):
        word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _plural(word: str) -> str:
    """Step 1a."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _participle(word: str) -> str:
    """Step 1b."""
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


def _replaced(word: str, endings: Mapping[str, str], least: int) -> str:
    """The word with its first matching ending replaced, if the rest has a measure of at least `least`."""
    ending = next((ending for ending in endings if word.endswith(ending)), None)
    if ending is None:
        return word
    kept = word.removesuffix(ending)
    if _measure(kept) < least or (ending == "ion" and kept[-1] not in "st"):
        return word
    return kept + endings[ending]


def _shape(word: str) -> str:
    """c for each consonant, v for each vowel; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Porter's m: how often a consonant follows a vowel."""
    return _shape(word).count("vc")


def _ends_cvc(word: str) -> bool:
    """Porter's *o: consonant, vowel, consonant, and the last is not w, x or y."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"
