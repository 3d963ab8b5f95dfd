"""The engine speaks of items, stages, queues and tables: no name, text or comment in it uses a benchmark's word."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

pytestmark = pytest.mark.core

ENGINE = Path(__file__).resolve().parents[2] / "summhay_ray" / "engine"

WORDS = re.compile(
    r"haystacks?|topics?|subtopics?|insights?|summari\w+|summar(y|ize)\w*|judg\w+|rejudg\w*|bullets?|cit(e|es|ed|ing|ation|ations)"
    r"|coverage|retriev\w+|rank(ing|ings|ed|er)|rerank\w*|orderings?|cells?|synth\w*|outlines?|odsum|ethic|distractors?|rubrics?"
)
"""The papers' words, matched as whole words of a name or a text, in lower case."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

KEPT = {
    # The JSON documents of `run`, `plan` and `status`, the records of runs, and their metrics use the word `cells`.
    ("metrics.py", "cells"),
    *{("contract.py", "cells"), ("history.py", "cells"), ("plan.py", "cells"), ("start.py", "cells"), ("status.py", "cells")},
    # The options of `score`, `report` and `export`, which the engine passes to the benchmark.
    *{("contract.py", "judge"), ("items.py", "judge")},
}
"""(file, word): contracts with stored data and with readers of our JSON."""


def words(source: str) -> set[str]:
    """The benchmarks' words in a module's names, texts and comments. `summhay` is allowed, as the name of command and package."""
    kinds = {tokenize.NAME, tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found = {part.lower() for token in tokens if token.type in kinds for part in _PARTS.findall(token.string)}
    return {word for word in found if WORDS.fullmatch(word)}


def test_the_engine_speaks_of_no_benchmark() -> None:
    found = {(file.name, word) for file in ENGINE.rglob("*.py") for word in words(file.read_text(encoding="utf-8"))}
    assert found == KEPT


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("haystack_id = 1", {"haystack"}),
        ("class SummaryRow: ...", {"summary"}),
        ('told = f"{n} judgments of {run}"', {"judgments"}),
        ("done = 1  # once a Retriever has ranked it", {"retriever", "ranked"}),
        ('"""Docstrings speak of cited bullets."""', {"cited", "bullets"}),
        ("TOPICS_AT_ONCE = 2", {"topics"}),
        ("from summhay_ray.outcome import Answer  # summhay excited", set()),
    ],
)
def test_a_benchmark_s_word_is_seen(line: str, seen: set[str]) -> None:
    assert words(line + "\n") == seen
