"""The contract of an extractor. `extract/__init__.py` is the door for other rooms.

To add one: put one file into this folder with a class that has a `name` and the method `rank` below; a spec then knows the name.
A class of your own module works without a file here: write `my_package.my_module:MyExtractor` where a method is named.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

from summhay_ray.text import count_tokens, punkt_sentences

BUDGETS = (128, 256, 512, 768, 1024, 1536, 2048, 4096)
"""Tokens that the paper's extracts may have (section 3.2)."""


@dataclass(frozen=True)
class Document:
    """A source and its sentences."""

    source: str
    units: tuple[str, ...] | None = None
    """What stands for its sentences, where it is a list already (the bullets of a summary)."""

    @functools.cached_property
    def sentences(self) -> tuple[str, ...]:
        """In source order, as NLTK's Punkt finds them for English, `<br />` taken for a line break."""
        return self.units if self.units is not None else tuple(punkt_sentences(self.source.replace("<br />", "\n")))

    @functools.cached_property
    def costs(self) -> tuple[int, ...]:
        """cl100k tokens that each sentence takes behind another one and a space: together exactly those of the joined text,
        or one more for the space that its first sentence does not have."""
        return tuple(count_tokens(f" {sentence}") for sentence in self.sentences)


@functools.lru_cache(maxsize=64)
def document_of(source: str) -> Document:
    """The document of a source; several summaries of one source share it."""
    return Document(source)


@dataclass(frozen=True)
class Extract:
    """The part of a source that fits a budget."""

    index: tuple[int, ...]
    """The sentences' numbers in the source, from 0, in the order in which they stand in `text`."""
    text: str
    """The sentences, joined by one space each."""

    @functools.cached_property
    def tokens(self) -> int:
        """cl100k tokens of the text."""
        return count_tokens(self.text)


@dataclass(frozen=True, slots=True)
class AsReleased:
    """How the paper's code counts and orders a method's sentences."""

    newline: bool = True
    """A sentence costs the tokens of itself and a line break, else its own tokens and one."""
    source_order: bool = True
    """The text stands in source order, else in the order in which sentences were taken."""


class Extractor(Protocol):
    """A source and its summary in, the source's sentences out, those first that a judge of the summary needs most."""

    name: ClassVar[str]
    takes_model: ClassVar[bool] = False
    """Whether it is made with weights (`MyExtractor(model)`). `weights.py` has what ours share that are."""
    released: ClassVar[AsReleased] = AsReleased()

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        """The numbers of the sentences, each once, the first to take first; asked for one by one, and not always to the end."""
        ...
