"""Part of the synth room's writer: reads grammars from text files and makes sentences with them. For the writer alone.

A grammar file has banks (`# name`) of alternatives, one per line. In a line, `{name}` stands for an alternative of that bank, and
`{name:cap}` for one that is capitalized. To add a domain's grammar: write `grammars/DOMAIN.txt` (themes, frames, queries) and
`grammars/filler_DOMAIN.txt`, and add it to DOMAINS.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

GENERIC = "generic"
DOMAINS = ("conversation", "news", "product_reviews", "incident_reports", GENERIC)
_SLOT = re.compile(r"\{(\w+)(:cap)?\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aio]|e(?!u)|u(?!n[ai]|s[aeu])|hon|hour)")

_Part = str | tuple[str, bool]
"""Literal text, or a bank and whether its text is capitalized."""


class Grammar:
    """Banks of alternatives by name."""

    def __init__(self, banks: Mapping[str, Sequence[str]]) -> None:
        self._banks = {name: [_parts(line) for line in lines] for name, lines in banks.items()}
        self.lines = banks

    def has(self, bank: str) -> bool:
        """Whether the bank exists."""
        return bank in self._banks

    def say(self, rng: random.Random, bank: str, given: Mapping[str, str] | None = None) -> str:
        """A random alternative of `bank`. Slots are filled from `given`, or else from their banks."""
        return Voice(self, rng).say(bank, given)

    def parts(self, bank: str) -> list[tuple[_Part, ...]]:
        """The alternatives of a bank, each split into its parts."""
        return self._banks[bank]


class Voice:
    """Makes sentences with a grammar. An alternative is repeated only after all others of its bank have been used."""

    def __init__(self, grammar: Grammar, rng: random.Random) -> None:
        self._grammar, self._rng = grammar, rng
        self._left: dict[str, list[tuple[_Part, ...]]] = {}

    def say(self, bank: str, given: Mapping[str, str] | None = None) -> str:
        """A random alternative of `bank`. Slots are filled from `given`, or else from their banks."""
        words: list[str] = []
        self._expand(bank, given or {}, words)
        return articles("".join(words))

    def _expand(self, bank: str, given: Mapping[str, str], words: list[str]) -> None:
        for part in self._draw(bank):
            if isinstance(part, str):
                words.append(part)
                continue
            name, capital = part
            place = len(words)
            if name in given:
                words.append(given[name])
            else:
                self._expand(name, given, words)
            if capital and len(words) > place:
                words[place] = words[place][:1].upper() + words[place][1:]

    def _draw(self, bank: str) -> tuple[_Part, ...]:
        left = self._left.get(bank)
        if not left:
            left = self._left[bank] = list(self._grammar.parts(bank))
        place = int(self._rng.random() * len(left))
        # Swapping with the last one removes it in constant time.
        left[place], left[-1] = left[-1], left[place]
        return left.pop()


def _parts(line: str) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    end = 0
    for slot in _SLOT.finditer(line):
        parts += [line[end : slot.start()], (slot.group(1), slot.group(2) is not None)]
        end = slot.end()
    return tuple(part for part in [*parts, line[end:]] if part)


def articles(text: str) -> str:
    """The text with `an` for `a` before a vowel sound."""
    return _ARTICLE.sub(r"\1n ", text)


def known(domain: str) -> str:
    """The domain whose grammar is used for `domain`: itself, or else GENERIC."""
    return domain if domain in DOMAINS else GENERIC


_SIGNS = {
    "conversation": ("conversation", "dialog", "chat", "meeting", "interview", "podcast", "transcript", "discussion"),
    "news": ("news", "article", "press"),
    "product_reviews": ("review",),
    "incident_reports": ("incident", "postmortem", "post-mortem", "report"),
}


def outlined(name: str) -> str:
    """The domain whose outline grammar is used for `name`: itself, else the one that its name suggests, else GENERIC."""
    return name if name in DOMAINS else meant(name) or GENERIC


def meant(text: str) -> str:
    """The domain that a name or genre suggests; empty if it suggests none."""
    return next((domain for domain, signs in _SIGNS.items() if any(sign in text.lower() for sign in signs)), "")


@cache
def outline_grammar(domain: str) -> Grammar:
    """The themes, frames and queries of one of DOMAINS."""
    return Grammar(_read(f"{domain}.txt"))


@cache
def filler_grammar(domain: str) -> Grammar:
    """The headlines, openings, filler and sentence frames of one of DOMAINS."""
    return Grammar({**_read("shared.txt"), **_read(f"filler_{domain}.txt")})


@cache
def name_banks() -> Mapping[str, Sequence[str]]:
    """The parts of invented names."""
    return _read("names.txt")


def _read(name: str) -> dict[str, list[str]]:
    text = resources.files("summhay_ray.synth.writer").joinpath("grammars", name).read_text(encoding="utf-8")
    banks: dict[str, list[str]] = {}
    bank: list[str] = []
    for line in text.splitlines():
        if line.startswith("# "):
            bank = banks.setdefault(line[2:], [])
        elif line:
            bank.append(line)
    return banks
