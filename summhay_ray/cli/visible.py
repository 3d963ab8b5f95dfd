"""Makes text from documents, models and files safe for a terminal. Part of the cli room; imports nothing, so errors are fast."""

from __future__ import annotations


def visible(text: str) -> str:
    """The text with control characters escaped, except line breaks and tabs: a document must not control the terminal."""
    return "".join(letter if letter in "\n\t" or letter.isprintable() else _escaped(letter) for letter in text)


def one_line(text: str) -> str:
    """The text with every unprintable character escaped, including line breaks and tabs."""
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return ascii(letter)[1:-1]
