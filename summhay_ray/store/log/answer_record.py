"""The schema of an answer's record in the log, and of the index of a merged object. Part of the store room; no I/O.

A record has a head, which an index reads, and a body with the texts; see `summhay_ray.store.log.log_lines`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from operator import add
from typing import Annotated, Literal, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from summhay_ray.store.files.checked_json import Amount, Count, Total

ANSWER = "answer"
"""The kind of a record that holds an answer. There is room for others, which earlier versions refuse to read."""
INDEX = "index"
"""The kind of the first line of a merged object."""


@with_config(ConfigDict(strict=True, extra="allow"))
class AnswerHead(TypedDict):
    """What an index needs of an answer: its key, and what it cost which run."""

    kind: Literal["answer"]
    key: str
    run: str
    stage: str
    model: str
    usd_micros: Count
    input_tokens: Count
    cached_tokens: Count
    output_tokens: Count
    saved_micros: NotRequired[Count]
    claimed_tokens: NotRequired[Count]
    """The usage that the provider claims, where it exceeds what was reserved for the call."""
    claimed_micros: NotRequired[Count]
    claimed_margin: NotRequired[Amount]


@with_config(ConfigDict(strict=True, extra="allow"))
class AnswerBody(TypedDict):
    """The rest of an answer. Further fields, such as the provider's own `raw`, may hold anything."""

    text: str
    finish_reason: str
    attempts: Count
    cache_write_tokens: NotRequired[Count]
    reasoning_tokens: NotRequired[Count]
    zero_vectors: NotRequired[Count]
    further_texts: NotRequired[list[str]]
    logprobs: NotRequired[str]
    origin: NotRequired[str]
    flaw: NotRequired[str]


class AnyHead(TypedDict):
    """What all kinds of records have."""

    kind: Annotated[str, Field(pattern="^[a-z_]{1,40}$")]


class Totals(TypedDict):
    """The totals of a run's answers, for one stage and model."""

    run: str
    stage: str
    model: str
    answers: Total
    usd_micros: Total
    input_tokens: Total
    cached_tokens: Total
    output_tokens: Total
    saved_micros: Total


class Heads(TypedDict):
    """What an index needs of the records in a stretch of a file."""

    damaged: Count
    """The number of damaged records."""
    answers: dict[str, tuple[list[str], list[Count], list[Count], list[Count]]]
    """Run -> the keys, offsets in the stretch, lengths and micro-dollars of its answers."""
    totals: list[Totals]
    excesses: list[AnswerHead]
    """The heads of answers that claim more usage than was reserved."""


HEAD_FIELDS = tuple(AnswerHead.__annotations__)
OPTIONAL = ("saved_micros", "claimed_tokens", "claimed_micros", "claimed_margin")
"""The fields of a head that are left out when they are 0."""

_BLANK_COLON = re.compile(rb"\s:")
_PAIRS = json.JSONDecoder(object_pairs_hook=list)

# At a start this is called 100,000 times and more.
_HEAD, _BODY, _HEADS, _KIND = (TypeAdapter(kind).validator for kind in (AnswerHead, AnswerBody, Heads, AnyHead))


def read_head(text: bytes) -> AnswerHead | None:
    """The head in a JSON text; None if it does not fit."""
    try:
        head: AnswerHead = _HEAD.validate_json(text)
    except ValidationError:
        return None
    return head if text.count(b":") == len(head) or _has_no_repeats(text, len(head)) else None


def _has_no_repeats(text: bytes, n: int) -> bool:
    """Whether an object with `n` different fields has each of them once. Of several, pydantic takes one."""
    # Each field has a colon. The quicker ways to count them find some in texts as well, but never too few.
    return (text.count(b'":') == n and not _BLANK_COLON.search(text)) or len(_PAIRS.decode(text.decode("utf-8"))) == n


def read_body(text: bytes) -> AnswerBody | None:
    """The body in a JSON text; None if it does not fit."""
    try:
        body: AnswerBody = _BODY.validate_json(text)
    except ValidationError:
        return None
    return body


def read_kind(text: bytes) -> str:
    """The kind of a record that is not an answer's, by its head; empty if this is damaged."""
    try:
        kind: str = _KIND.validate_json(text, strict=True)["kind"]
    except ValidationError:
        return ""
    return kind


def read_index(text: bytes, size: int) -> Heads | None:
    """The heads of the records in `size` bytes, in a JSON text; None if this does not fit, or contradicts itself."""
    try:
        heads: Heads = _HEADS.validate_json(text, strict=True)
    except ValidationError:
        return None
    costs = Counter[str](), Counter[str]()
    for run, (keys, offsets, lengths, micros) in heads["answers"].items():
        if not len(keys) == len(offsets) == len(lengths) == len(micros) or max(map(add, offsets, lengths), default=0) > size:
            return None
        costs[0][run], costs[1][run] = len(keys), sum(micros)
    for total in heads["totals"]:
        costs[0][total["run"]] -= total["answers"]
        costs[1][total["run"]] -= total["usd_micros"]
    return None if any(map(any, (cost.values() for cost in costs))) else heads
