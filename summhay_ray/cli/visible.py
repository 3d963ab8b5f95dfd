"""Text of documents, models and files made safe for a terminal. Part of the cli room; imports nothing, so errors are quick."""

from __future__ import annotations


def visible(text: str) -> str:
    """The text with control characters made visible, lines and tabs kept: what a document says must not steer a terminal."""
    return "".join(letter if letter in "\n\t" or letter.isprintable() else _escaped(letter) for letter in text)


def one_line(text: str) -> str:
    """The text with everything made visible that is no printable character, line breaks among them."""
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return ascii(letter)[1:-1]
