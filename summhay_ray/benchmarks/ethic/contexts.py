"""What of a context a model is shown: all of it, the views of training-free methods, and what is left of one that is too long.

Part of the ethic folder. The views are of the text, before any model reads it: StreamingLLM keeps attention sinks and a window
in the model's cache at every step of its answer, InfLLM looks blocks up in every layer; neither is that here (paper, section
4.2).
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence

from summhay_ray.benchmark import SpecError
from summhay_ray.benchmarks.ethic.spec import ContextSpec
from summhay_ray.text import FUNCTION_WORDS, count_tokens, first_tokens, plain_words, token_pieces

GAP = "\n[...]\n"
"""Stands where something was left out."""
_STEPS = 40
_SPARE = 0.995

Count = Callable[[str], int]


def shown(context: str, question: str, how: ContextSpec) -> str:
    """The part of the context that the strategy keeps, in its order."""
    if how.strategy == "full":
        return context
    pieces = token_pieces(context)
    if how.strategy == "window":
        return context if len(pieces) <= how.sinks + how.window else GAP.join(_ends(pieces, how))
    kept = how.sinks + how.window + how.block * how.top
    return context if len(pieces) <= kept else _blocks(pieces, question, how)


def _text(pieces: Sequence[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", errors="ignore")


def _ends(pieces: Sequence[bytes], how: ContextSpec) -> list[str]:
    return [*([_text(pieces[: how.sinks])] if how.sinks else []), _text(pieces[-how.window :])]


def _blocks(pieces: Sequence[bytes], question: str, how: ContextSpec) -> str:
    middle = pieces[how.sinks : len(pieces) - how.window]
    blocks = [_text(middle[place : place + how.block]) for place in range(0, len(middle), how.block)]
    near = _nearness(blocks, question)
    best = sorted(sorted(range(len(blocks)), key=lambda place: (-near[place], place))[: how.top])
    *head, tail = _ends(pieces, how)
    return GAP.join([*head, *(blocks[place] for place in best), tail])


def _nearness(blocks: Sequence[str], question: str) -> list[float]:
    """How near each block is to the question: the summed rarity of the words that they share, over the block's length's root."""
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
    """Tokens by a `tokenizer.json`, given as its text and where it lies; empty: cl100k. Raises SpecError where it is none."""
    if not tokenizer:
        return count_tokens
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise SpecError("spec: models: tokenizer: needs the package tokenizers; pip install tokenizers") from None
    try:
        found = Tokenizer.from_str(tokenizer)
    # The library raises plain Exception for a text that it cannot read.
    except Exception as error:
        told = " ".join(str(error).split())[:100]
        raise SpecError(f"spec: models: tokenizer: {path} is no tokenizer.json ({told}); give that of the model") from error
    return lambda text: len(found.encode(text, add_special_tokens=False).ids)


def without_middle(context: str, room: int, count: Count) -> str:
    """The beginning and the end of a context, alike long, in at most so many tokens together with the mark between them.

    Empty where there is no room.
    """
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
