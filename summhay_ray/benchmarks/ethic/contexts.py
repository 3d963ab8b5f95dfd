"""Select the part of a context that a model sees: all of it, a view by a training-free method, or a truncation.

The views only imitate the methods (paper, section 4.2), because they cut the text before a model reads it. StreamingLLM itself
keeps attention sinks and a window in the model's cache at every step, and InfLLM retrieves blocks in every layer.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence

from summhay_ray.benchmarks.ethic.spec import ContextSpec
from summhay_ray.errors import SpecError
from summhay_ray.text import FUNCTION_WORDS, count_tokens, first_tokens, plain_words, token_pieces

GAP = "\n[...]\n"
"""Marks an omission."""
_STEPS = 40
_SPARE = 0.995

Count = Callable[[str], int]


def select_context(context: str, question: str, how: ContextSpec) -> str:
    """The part of the context that the strategy keeps, in order, with `GAP` at each omission."""
    if how.strategy == "full":
        return context
    pieces = token_pieces(context)
    n, blocks = len(pieces), how.block * how.top if how.strategy == "blocks" else 0
    if n <= how.sinks + how.window + blocks:
        return context
    kept = [(0, how.sinks), (n - how.window, n)]
    if how.strategy == "blocks":
        cuts = [(at, min(at + how.block, n - how.window)) for at in range(how.sinks, n - how.window, how.block)]
        near = _nearness([_text(pieces[begin:end]) for begin, end in cuts], question)
        kept += [cuts[place] for place in sorted(range(len(cuts)), key=lambda place: (-near[place], place))[: how.top]]
    # Adjacent ranges have no gap between them.
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(span for span in kept if span[0] < span[1]):
        if spans and spans[-1][1] == begin:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((begin, end))
    return GAP.join(_text(pieces[begin:end]) for begin, end in spans)


def _text(pieces: Sequence[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", errors="ignore")


def _nearness(blocks: Sequence[str], question: str) -> list[float]:
    """Return each block's nearness to the question: the sum of idf over shared words, divided by the root of the block's word
    count."""
    bags = [Counter(plain_words(block)) for block in blocks]
    frequency = Counter(word for bag in bags for word in bag)
    asked = set(plain_words(question)) - FUNCTION_WORDS
    return [
        round(
            sum(math.log(1 + len(blocks) / frequency[word]) for word in sorted(asked & bag.keys())) / math.sqrt(1 + len(bag)), 12
        )
        for bag in bags
    ]


@functools.lru_cache(maxsize=8)
def counter(tokenizer: str, path: str = "") -> Count:
    """Return a token counter made from the text of a `tokenizer.json`; without a text, cl100k. Raises SpecError, with `path`,
    if the text is invalid."""
    if not tokenizer:
        return count_tokens
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise SpecError("spec: models: tokenizer: needs the package tokenizers; pip install tokenizers") from None
    try:
        loaded = Tokenizer.from_str(tokenizer)
    # The library raises a plain Exception for an invalid text.
    except Exception as error:
        why = " ".join(str(error).split())[:100]
        raise SpecError(f"spec: models: tokenizer: {path} is not a tokenizer.json ({why}); give the model's own") from error
    return lambda text: len(loaded.encode(text, add_special_tokens=False).ids)


def without_middle(context: str, room: int, count: Count) -> str:
    """Cut a context to at most `room` tokens: equal lengths of its beginning and its end, with `GAP` between them. Empty if
    not even the gap fits."""
    if room <= count(GAP):
        return ""
    if count(context) <= room:
        return context
    kept = min(len(context), int(len(context) * room / count(context)))
    for _ in range(_STEPS):
        cut = context[: kept // 2].rstrip() + GAP + context[len(context) - kept // 2 :].lstrip()
        size = count(cut)
        if size <= room:
            return cut
        kept = int(kept * min(_SPARE, room / size))
    return first_tokens(context, max(0, room // 2))
