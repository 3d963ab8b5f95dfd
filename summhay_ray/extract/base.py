"""The contract of an extractor, and the base class of extractors that run a model. Imported from `summhay_ray.extract`.

To add an extractor, put a file into this folder, with a class that has a `name` and the method `rank`. Specs can then use the
name. For a class in your own module, write `my_package.my_module:MyExtractor` in place of the name.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from summhay_ray.encoders import Comparing, Encoding, Vectors, known_revision
from summhay_ray.extract.py_rouge import rouge_words
from summhay_ray.text import Script, count_tokens, is_latin, punkt_sentences, sentences_of

BUDGETS = (128, 256, 512, 768, 1024, 1536, 2048, 4096)
"""The paper's extract lengths, in tokens (section 3.2)."""
BATCH_TOKENS = 4096
Compute = Callable[[Sequence[str], int, int | None], Vectors]
"""(texts, maximum tokens of a batch, maximum texts of a batch) -> one row of numbers per text."""
Numbers = Callable[[Encoding | Comparing, Sequence[str], Compute], Vectors]
"""(settings of the model, texts, function that computes) -> one row of numbers per text. A caller may pass a function that
caches."""


@dataclass(frozen=True)
class Document:
    """A source and its sentences."""

    source: str
    units: tuple[str, ...] | None = None
    """Units such as a summary's bullets, which are used as the sentences; None: `source` is split into sentences."""

    script: Script = "auto"
    """auto: ICU splits a source that is not Latin into sentences and words. latin: the paper's rules are used for every
    source."""

    @functools.cached_property
    def latin(self) -> bool:
        """Whether sentences and words are split as in the paper's code."""
        return self.script == "latin" or is_latin(self.source)

    @functools.cached_property
    def sentences(self) -> tuple[str, ...]:
        """The sentences in source order. `<br />` counts as a line break."""
        return self.units if self.units is not None else tuple(self.split(self.source.replace("<br />", "\n")))

    def split(self, text: str) -> list[str]:
        """Split the source or its summary into sentences, by NLTK's English Punkt, or by ICU for a source that is not Latin."""
        return punkt_sentences(text) if self.latin else sentences_of(text)

    @functools.cached_property
    def words_by_sentence(self) -> tuple[list[str], ...]:
        return tuple(map(self.words, self.sentences))

    def words(self, text: str) -> list[str]:
        return rouge_words(text, latin=self.latin)

    @functools.cached_property
    def costs(self) -> tuple[int, ...]:
        """The cl100k tokens of each sentence with a leading space. In an extract, all sentences except the first have this
        space."""
        return tuple(count_tokens(f" {sentence}") for sentence in self.sentences)

    @functools.cached_property
    def opening_costs(self) -> tuple[int, ...]:
        """The additional tokens of each sentence if it comes first, since some words need more tokens without a space."""
        return tuple(max(0, count_tokens(sentence) - cost) for sentence, cost in zip(self.sentences, self.costs, strict=True))


@functools.lru_cache(maxsize=64)
def document_of(source: str, script: Script = "auto") -> Document:
    """Return the document of a source. It is cached, since several summaries share one source."""
    return Document(source, script=script)


@dataclass(frozen=True)
class Extract:
    """The part of a source that fits a budget."""

    index: tuple[int, ...]
    """The indices of the sentences in the source, from 0, in the order of `text`."""
    text: str
    """The sentences, joined by spaces."""

    @functools.cached_property
    def tokens(self) -> int:
        return count_tokens(self.text)


@dataclass(frozen=True, slots=True)
class AsReleased:
    """How the paper counts and orders the sentences of a method."""

    newline: bool = True
    """If true, the cost of a sentence is the tokens of the sentence with a line break. If false, it is its own tokens plus
    one."""
    source_order: bool = True
    """If true, the extract is in source order. If false, it is in the order of the ranking."""


class Extractor(Protocol):
    """Ranks the sentences of a source by how much a judge of its summary needs them."""

    name: ClassVar[str]
    takes_model: ClassVar[bool] = False
    """Whether the constructor takes a model: `MyExtractor(model)`. Such classes can derive from `WithWeights`."""
    released: ClassVar[AsReleased] = AsReleased()

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        """Yield the index of each sentence once, the most needed first. Callers may stop before the end."""
        ...


def compute_now(made_by: Encoding | Comparing, texts: Sequence[str], compute: Compute) -> Vectors:
    """Compute numbers in this process, without a cache. See `Numbers`."""
    return compute(texts, BATCH_TOKENS, None)


class WithWeights:
    """An extractor that runs a model. `model`: a folder or hub name; None: `own_model`."""

    takes_model: ClassVar[bool] = True
    released: ClassVar[AsReleased] = AsReleased()
    own_model: ClassVar[str]
    """The default model."""

    def __init__(self, model: str | None = None) -> None:
        self.model, self.layers = named_layers(model or self.own_model)
        self.rows: Numbers = compute_now

    @functools.cached_property
    def revision(self) -> str:
        """The content hash of a folder of weights; empty for a model of a hub. Raises NoModel if there is no such model."""
        return known_revision(self.model)


def named_layers(model: str) -> tuple[str, int | None]:
    """Return the name and the number of layers of a model: `NAME@18` uses 18 layers. Without a number, layers is None, and all
    are used."""
    name, _, layers = model.rpartition("@")
    return (name, int(layers)) if name and layers.isdigit() else (model, None)
