"""Makes the extracts of one source for one summary: one pass over a ranking of its sentences fills all budgets.

`fill`, the default, fills each budget separately: an extract never exceeds its budget, and does not depend on the other budgets.
`walk` reproduces the paper's code (commit 65bc6be), which guarantees neither.
"""

import itertools
import operator
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, SupportsIndex, cast

from summhay_ray import plugins
from summhay_ray.encoders import known_revision
from summhay_ray.extract import base
from summhay_ray.text import Script, count_tokens, first_tokens

COMPATS = ("default", "release")


def extract(
    source: str,
    summary: str,
    method: str,
    budgets: Sequence[int],
    compat: str = "default",
    model: Any = None,
    rows: base.Numbers | None = None,
    script: Script = "auto",
) -> Mapping[int, base.Extract]:
    """Return budget (cl100k tokens) -> the extract of `source` for a judge of `summary`, which is empty if no sentence fits.

    `method`: lead, rouge-1, rouge-2, rouge-1+2, bertscore, nli, embed, support, or module:Class. `compat="release"` reproduces
    the paper's code, in which an extract depends on the other `budgets`, and which reads every source as Latin script. `model`:
    weights for bertscore, nli or embed in place of their defaults. `rows`: a function that computes or looks up the models'
    numbers. Raises UnknownName for an unknown method, and NoModel for missing weights. Raises ValueError for a budget that is not
    a whole number of at least 1, for an unknown compat, and for a source or summary that is not a string.
    """
    extractor = make_extractor(method, model)
    if rows is not None and isinstance(extractor, base.WithWeights):
        extractor.rows = rows
    return extract_by(extractor, source, summary, budgets, compat, script)


def extract_by(
    extractor: base.Extractor, source: str, summary: str, budgets: Sequence[int], compat: str = "default", script: Script = "auto"
) -> Mapping[int, base.Extract]:
    if compat not in COMPATS:
        raise ValueError(f"compat is {compat!r}; expected default or release")
    for name, text in (("source", source), ("summary", summary)):
        if not isinstance(text, str):
            raise ValueError(f"{name} is {text!r:.40}; expected a text")
    for budget in budgets:
        # SupportsIndex also admits NumPy integers.
        if isinstance(budget, bool) or not isinstance(budget, SupportsIndex) or operator.index(budget) < 1:
            raise ValueError(f"a budget is {budget!r}; expected a whole number of tokens, at least 1")
    wanted = sorted(set(map(operator.index, budgets)))
    document = base.document_of(source, script_of(script, compat))
    if not wanted:
        return {}
    ranking = extractor.rank(document, summary, compat)
    if compat == "default":
        return fill(document, ranking, wanted)
    as_released = getattr(extractor, "released", base.AsReleased())
    return walk(document, ranking, wanted, as_released.newline, as_released.source_order)


def script_of(script: Script, compat: str) -> Script:
    """Return the script of a source. The paper's code treats every source as Latin."""
    return "latin" if compat == "release" else script


def planned_extract(
    source: str, summary: str, method: str, budgets: Sequence[int], compat: str = "default", script: Script = "auto"
) -> Mapping[int, base.Extract]:
    """Return placeholder extracts, for planning a method whose model has not run yet.

    They are filled like real ones, with sentences in a random order. The order depends on method and summary, so that prompts of
    two methods differ.
    """
    return extract_by(_Shuffled(f"{method}\0{summary}"), source, summary, budgets, compat, script)


@dataclass
class _Shuffled(base.Extractor):
    """Ranks sentences in a random order. Specs cannot use it, since its name is empty."""

    name: ClassVar[str] = ""
    seed: str

    def rank(self, document: base.Document, summary: str, compat: str = "default") -> Iterator[int]:
        numbers = list(range(len(document.sentences)))
        random.Random(self.seed).shuffle(numbers)
        return iter(numbers)


def choose_units(units: Sequence[str], question: str, method: str, tokens: int) -> tuple[int, ...]:
    """Return the indices (from 0, ascending) of the `units`, such as a summary's bullets, that a judge of `question` needs. If
    all fit `tokens` tokens, return all. At least the first unit of the ranking is returned, whatever its length."""
    return _needed(base.Document("\n".join(units), tuple(units)), question, method, tokens)


def cut_down(source: str, question: str, method: str, tokens: int) -> str:
    """Return the joined sentences of a source that a judge of `question` needs: at most `tokens` tokens, or the whole source if
    it fits. If no sentence fits, the first one of the ranking is cut at its end."""
    document = base.document_of(source)
    text = joined(document, _needed(document, question, method, tokens)).text
    return text if count_tokens(text) <= tokens else first_tokens(text, tokens)


def _needed(document: base.Document, question: str, method: str, tokens: int) -> tuple[int, ...]:
    if sum(document.costs) + sum(document.opening_costs[:1]) <= tokens:
        return tuple(range(len(document.sentences)))
    extractor = make_extractor(method)
    found = fill(document, extractor.rank(document, question), [tokens])[tokens].index
    return found or tuple(itertools.islice(extractor.rank(document, question), 1))


def text_of(source: str, index: Sequence[int], script: Script = "auto") -> str:
    """Return the text of the extract with the sentences of these indices."""
    return joined(base.document_of(source, script), index).text


def n_sentences(source: str, script: Script = "auto") -> int:
    return len(base.document_of(source, script).sentences)


def make_extractor(method: str, model: Any = None) -> base.Extractor:
    """Return the extractor with this name. Raise UnknownName if there is none. Raise ValueError if it takes no model or lacks
    one."""
    return cast(base.Extractor, plugins.make_instance("method", method, _class_of(method), model))


def _class_of(method: str) -> Any:
    if not isinstance(method, str):
        raise ValueError(f"method is {method!r}; expected the name of an extraction method")
    return plugins.find("extraction method", method, sys.modules["summhay_ray.extract"], "rank", "an extractor (extract/base.py)")


def own_model(method: str) -> str:
    """Return the default model of a method, or an empty string if it uses none or has no default."""
    return str(getattr(_class_of(method), "own_model", ""))


def method_identity(method: str) -> str:
    """Return what identifies a method in addition to its name: the hash of user code, or of the content of a folder with its
    default weights. It is empty if the name is sufficient."""
    weights = own_model(method)
    return plugins.code_identity(method) or (known_revision(base.named_layers(weights)[0]) if weights else "")


def fill(document: base.Document, ranking: Iterable[int], budgets: Sequence[int]) -> Mapping[int, base.Extract]:
    """Return budget -> extract, in source order. It takes each ranked sentence that fits into the rest of a budget, until no more
    can fit."""
    costs, opening = document.costs, document.opening_costs
    cheapest = sorted(range(len(costs)), key=costs.__getitem__, reverse=True)
    room = {budget: budget for budget in budgets}
    first = dict.fromkeys(budgets, len(costs))
    taken: dict[int, list[int]] = {budget: [] for budget in budgets}
    seen: set[int] = set()
    for number in ranking:
        seen.add(number)
        for budget in budgets:
            if costs[number] + opening[min(first[budget], number)] <= room[budget]:
                room[budget] -= costs[number]
                first[budget] = min(first[budget], number)
                taken[budget].append(number)
        while cheapest and cheapest[-1] in seen:
            cheapest.pop()
        if not cheapest or costs[cheapest[-1]] > max(room.values()):
            break
    return {budget: joined(document, sorted(numbers)) for budget, numbers in taken.items()}


def walk(
    document: base.Document, ranking: Iterable[int], budgets: Sequence[int], newline: bool, source_order: bool
) -> Mapping[int, base.Extract]:
    """Return budget -> extract as in the paper's code.

    If a ranked sentence does not fit, the code closes the smallest open budget and then adds the sentence. It closes only one
    budget at a time. So if the sentence exceeds a second budget, too, the extract for that budget becomes too long. `newline`,
    `source_order`: see `AsReleased`.
    """
    closed: dict[int, list[int]] = {}
    left, chosen, total = sorted(set(budgets)), list[int](), 0
    for number in ranking:
        sentence = document.sentences[number]
        total += count_tokens(f"{sentence}\n") if newline else count_tokens(sentence) + 1
        if total > left[0]:
            closed[left.pop(0)] = list(chosen)
            if not left:
                break
        chosen.append(number)
    closed |= dict.fromkeys(left, chosen)
    return {budget: joined(document, sorted(numbers) if source_order else numbers) for budget, numbers in closed.items()}


def joined(document: base.Document, numbers: Sequence[int]) -> base.Extract:
    return base.Extract(tuple(numbers), " ".join(document.sentences[number] for number in numbers))
