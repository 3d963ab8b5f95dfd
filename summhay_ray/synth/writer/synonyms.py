"""Part of the synth room's writer: a small dictionary of synonyms that fit any sentence. For the writer alone."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from importlib import resources
from random import Random

_WORD = re.compile(
    r"\"[^\"]*\"|“[^”]*”|(?:\b([Aa]n?) )?(?<![\w-])([a-z]+)(?![\w'’-]| (?:down|up|off|out|away|back)\b)(?=( (?:[a-z]+\b|\$))?)"
)
"""A word before a particle is another word ("wrote down") and is skipped. Some synonyms need a certain next word: "rose by"."""
_VOWELS = tuple("aeiou")


@cache
def _dictionary() -> dict[str, tuple[str, ...]]:
    text = resources.files("summhay_ray.synth.writer").joinpath("grammars", "synonyms.txt").read_text(encoding="utf-8")
    entries = (line.split(": ") for line in text.splitlines() if line)
    return {word: tuple(others.split(", ")) for word, others in entries}


def other_words(sentence: str, rng: Random, kept: Collection[str] = ()) -> str:
    """The sentence with a synonym for each lower-case word in the dictionary, except for quotations and the words `kept`."""
    dictionary = _dictionary()

    def instead(match: re.Match[str]) -> str:
        article, word, follower = match.groups(default="")
        others = dictionary.get(word) or dictionary.get(word + follower)
        if others is None or word in kept:
            return match.group()
        other = others[int(rng.random() * len(others))].removesuffix(follower if word not in dictionary else "")
        if not article:
            return other
        return f"{article[0]}{'n' if other.startswith(_VOWELS) else ''} {other}"

    return _WORD.sub(instead, sentence)
