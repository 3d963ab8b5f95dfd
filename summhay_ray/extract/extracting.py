"""Extracts of one source for one summary, all budgets in one pass. Part of the extract room."""

from __future__ import annotations

import itertools
import operator
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, SupportsIndex, cast

from summhay_ray import plugins
from summhay_ray.encoders import known_revision
from summhay_ray.extract.base import AsReleased, Document, Extract, Extractor, document_of
from summhay_ray.extract.budgets import fill, joined, walk
from summhay_ray.extract.weights import Numbers, WithWeights, named_layers

COMPATS = ("default", "release")


def extract(
    source: str,
    summary: str,
    method: str,
    budgets: Sequence[int],
    compat: str = "default",
    model: Any = None,
    rows: Numbers | None = None,
) -> Mapping[int, Extract]:
    """Budget (cl100k tokens) -> the extract of `source` for a judge of `summary`.

    `method`: lead, rouge-1, rouge-2, rouge-1+2, bertscore, nli, embed, support, or module:Class. A source of which no sentence
    fits a budget has an empty extract for it. `compat="release"` is the paper's code, in which an extract depends on all
    `budgets` that are asked for together. `model`: the weights that bertscore, nli or embed take instead of their own; `rows`:
    who computes, or keeps, what these say. Raises UnknownName (a UserError) for an unknown method, ValueError for a budget that
    is no whole number above 0, a compat that is none or a text that is none, and NoModel (a UserError) where a method's weights
    are not here.
    """
    extractor = make_extractor(method, model)
    if rows is not None and isinstance(extractor, WithWeights):
        extractor.rows = rows
    return extract_by(extractor, source, summary, budgets, compat)


def extract_by(
    extractor: Extractor, source: str, summary: str, budgets: Sequence[int], compat: str = "default"
) -> Mapping[int, Extract]:
    """As `extract`, by an extractor that is there already."""
    if compat not in COMPATS:
        raise ValueError(f"compat is {compat!r}; expected default or release")
    for name, text in (("source", source), ("summary", summary)):
        if not isinstance(text, str):
            raise ValueError(f"{name} is {text!r:.40}; expected a text")
    wanted = sorted(set(map(_budget, budgets)))
    document = document_of(source)
    if not wanted:
        return {}
    ranking = extractor.rank(document, summary, compat)
    if compat == "default":
        return fill(document, ranking, wanted)
    as_released = getattr(extractor, "released", AsReleased())
    return walk(document, ranking, wanted, as_released.newline, as_released.source_order)


def planned_extract(
    source: str, summary: str, method: str, budgets: Sequence[int], compat: str = "default"
) -> Mapping[int, Extract]:
    """What planning takes for the extracts of a method whose weights are not asked yet: as long ones, of other sentences for each
    method, so that none of them is the question of another."""
    return extract_by(_Drawn(f"{method}\0{summary}"), source, summary, budgets, compat)


def _budget(budget: Any) -> int:
    # Whole numbers of NumPy are some, too.
    if isinstance(budget, bool) or not isinstance(budget, SupportsIndex) or (whole := operator.index(budget)) < 1:
        raise ValueError(f"a budget is {budget!r}; expected a whole number of tokens, at least 1")
    return whole


class _Drawn(Extractor):
    """Sentences in an order that a text decides; no spec knows it."""

    name: ClassVar[str] = ""

    def __init__(self, by: str) -> None:
        self._by = by

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        """See `Extractor`."""
        numbers = list(range(len(document.sentences)))
        random.Random(self._by).shuffle(numbers)
        return iter(numbers)


def choose_units(units: Sequence[str], question: str, method: str, tokens: int) -> tuple[int, ...]:
    """The numbers, from 0 and in order, of those of a list of texts (a summary's bullets) that whoever judges `question` needs,
    up to so many tokens together: at least the first of the ranking, and all where they fit."""
    return _needed(Document("\n".join(units), tuple(units)), question, method, tokens)


def cut_down(source: str, question: str, method: str, tokens: int) -> str:
    """Of a source the sentences that whoever judges `question` needs, up to so many tokens together: at least the first of the
    ranking."""
    document = document_of(source)
    return joined(document, _needed(document, question, method, tokens)).text


def _needed(document: Document, question: str, method: str, tokens: int) -> tuple[int, ...]:
    if sum(document.costs) <= tokens:
        return tuple(range(len(document.sentences)))
    extractor = make_extractor(method)
    found = fill(document, extractor.rank(document, question), [tokens])[tokens].index
    return found or tuple(itertools.islice(extractor.rank(document, question), 1))


def text_of(source: str, index: Sequence[int]) -> str:
    """The text of an extract whose sentences are known by their numbers."""
    return joined(document_of(source), index).text


def n_sentences(source: str) -> int:
    """How many sentences a source has."""
    return len(document_of(source).sentences)


def make_extractor(method: str, model: Any = None) -> Extractor:
    """The extractor of a method's name. Raises UnknownName where there is none, ValueError where it takes none, or needs one."""
    return cast(Extractor, plugins.made("method", method, _class_of(method), model))


def _class_of(method: str) -> Any:
    if not isinstance(method, str):
        raise ValueError(f"method is {method!r}; expected the name of an extraction method")
    if ":" in method:
        found = plugins.load(method)
        if not callable(getattr(found, "rank", None)):
            raise plugins.UnknownName(f"{method!r} has no method `rank`; expected module:Class of an extractor (extract/base.py)")
        return found
    named = _known()
    if method not in named:
        raise plugins.unknown("extraction method", method, named)
    return named[method]


def own_model(method: str) -> str:
    """The weights that a method reads where nobody names others; empty for one that reads none, or has none of its own."""
    return str(getattr(_class_of(method), "own_model", ""))


def method_identity(method: str) -> str:
    """What tells apart what a method of this name is: a person's own by its code, weights that lie in a folder by their content;
    empty where the name says it all."""
    weights = own_model(method)
    return plugins.code_identity(method) or (known_revision(named_layers(weights)[0]) if weights else "")


def _known() -> Mapping[str, type[Any]]:
    return plugins.discover(sys.modules["summhay_ray.extract"])
