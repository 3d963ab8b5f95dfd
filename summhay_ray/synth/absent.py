"""Subjects that no document mentions, and queries about them. Imported from `summhay_ray.synth`."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from summhay_ray.text import FUNCTION_WORDS, root

SUBJECTS = "absent_subjects.txt"
_GAP, _FORM = "\0", "What do the documents report about \0?"
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject, and the roots of the words with which documents would mention it, its own included."""

    text: str
    roots: frozenset[str]


@dataclass(frozen=True, slots=True)
class Field:
    """A field that documents may be about: the roots of its usual words, and its subjects."""

    roots: frozenset[str]
    subjects: tuple[Subject, ...]


@cache
def fields() -> tuple[Field, ...]:
    """The shipped fields."""
    found: list[tuple[frozenset[str], list[Subject]]] = []
    for line in resources.files("summhay_ray.synth").joinpath(SUBJECTS).read_text(encoding="utf-8").splitlines():
        text, _, words = line.strip("[]").partition(":")
        if line.startswith("["):
            found.append((_roots(words.split()), []))
        elif line and not line.startswith("#"):
            found[-1][1].append(Subject(text, _roots(_WORD.findall(f"{text} {words}".lower()))))
    return tuple(Field(roots, tuple(subjects)) for roots, subjects in found)


def absent_subjects(texts: Iterable[str], wanted: int, topic: str = "") -> list[str]:
    """Up to `wanted` subjects whose words occur in no text. Subjects of the texts' own field come first: the texts could
    plausibly mention them.

    The texts' field is the one whose usual words they contain most. The same texts and topic give the same subjects. The words
    are English: for texts in another language the result is meaningless.
    """
    words = set[str]()
    for text in texts:
        words.update(_WORD.findall(text.lower()))
    known = _roots(words)
    nearest = sorted(fields(), key=lambda field: -len(field.roots & known) / max(1, len(field.roots)))

    def drawn(subject: Subject) -> str:
        return hashlib.sha256(f"{topic}\0{subject.text}".encode()).hexdigest()

    absent = [one for field in nearest for one in sorted(field.subjects, key=drawn) if not one.roots & known]
    return [subject.text for subject in absent[:wanted]]


def absent_subtopics(subjects: Iterable[str], asked: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The subjects as subtopics of a haystack's released JSON, each with a query and without insights.

    `asked`: the haystack's own subtopics and their queries. Each subject's query has the form of one of them, the usual forms
    first, so that no form reveals which queries have no answer.
    """
    counted = Counter(_form(text, query) for text, query in asked)
    forms = [form for form, _ in counted.most_common() if form]
    return [
        {
            "subtopic_id": hashlib.sha256(subject.encode()).hexdigest()[:12],
            "subtopic": subject,
            "query": (forms or [_FORM])[place % max(1, len(forms))].replace(_GAP, subject),
            "insights": [],
            "absent": True,
        }
        for place, subject in enumerate(subjects)
    ]


def _form(subtopic: str, query: str) -> str:
    """The query with a gap in place of its subtopic; empty if the query does not ask about it."""
    asks = rf"(.*\b(?:about|with|for|of|on|regarding|concerning)) (?:the )?{re.escape(subtopic)}\b(\W*)"
    found = re.fullmatch(asks, query, re.IGNORECASE | re.DOTALL)
    return f"{found[1]} {_GAP}{found[2]}" if found else ""


def _roots(words: Iterable[str]) -> frozenset[str]:
    return frozenset(root(word) for word in words if word not in FUNCTION_WORDS)
