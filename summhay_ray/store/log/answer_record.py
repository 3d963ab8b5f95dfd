"""The schema of an answer's record in the log, and of the index of a merged object.

A record has a head, which an index reads, and a body with the texts; see `summhay_ray.store.log.log_lines`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from operator import add
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from summhay_ray.store.files.checked_json import Amount, Count, Total

ANSWER = "answer"
"""The kind of a record that holds an answer. New kinds may be added; earlier versions refuse to read them."""
INDEX = "index"
"""The kind of the first line of a merged object."""


@with_config(ConfigDict(strict=True, extra="allow"))
class AnswerHead(TypedDict):
    """The part of an answer that the index reads: its key, its cost and its run."""

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
    """The usage that the provider reports, if it exceeds the call's reservation."""
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
    """The fields of every kind of record."""

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
    """The parts of the records in a stretch of a file that the index reads."""

    damaged: Count
    """The number of damaged records."""
    answers: dict[str, tuple[list[str], list[Count], list[Count], list[Count]]]
    """Run -> the keys, offsets in the stretch, lengths and micro-dollars of its answers."""
    totals: list[Totals]
    excesses: list[AnswerHead]
    """The heads of answers with more reported usage than was reserved."""


HEAD_FIELDS = tuple(AnswerHead.__annotations__)
OPTIONAL = ("saved_micros", "claimed_tokens", "claimed_micros", "claimed_margin")
"""The fields of a head that are left out when they are 0."""

_BLANK_COLON = re.compile(rb"\s:")
_PAIRS = json.JSONDecoder(object_pairs_hook=list)

# This is called 100,000 times or more when a run starts.
_HEAD, _BODY, _HEADS, _KIND = (TypeAdapter(kind).validator for kind in (AnswerHead, AnswerBody, Heads, AnyHead))


def read_head(text: bytes) -> AnswerHead | None:
    """The head in a JSON text; None if it does not fit."""
    try:
        head: AnswerHead = _HEAD.validate_json(text)
    except ValidationError:
        return None
    # pydantic accepts a repeated field. So the colons are counted, one per field: this quick count may be too high, but never too
    # low.
    n = len(head)
    if text.count(b":") == n or (text.count(b'":') == n and not _BLANK_COLON.search(text)):
        return head
    return head if len(_PAIRS.decode(text.decode("utf-8"))) == n else None


def read_body(text: bytes) -> AnswerBody | None:
    """The body in a JSON text; None if it does not fit."""
    try:
        body: AnswerBody = _BODY.validate_json(text)
    except ValidationError:
        return None
    return body


def read_kind(text: bytes) -> str:
    """The kind in the head of a record other than an answer; empty if the head is damaged."""
    try:
        kind: str = _KIND.validate_json(text, strict=True)["kind"]
    except ValidationError:
        return ""
    return kind


def read_index(text: bytes, size: int) -> Heads | None:
    """The heads of the records in `size` bytes, from a JSON text; None if the text does not fit the schema or contradicts
    itself."""
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


Purpose = tuple[str, str]
"""(stage, model): the purpose of spent money. Stages are summarize, judge, ..."""


class Excess(NamedTuple):
    """A reported usage above the call's reservation: the reported amounts, and the charged ones."""

    model: str
    claimed_tokens: int
    charged_tokens: int
    claimed_micros: int
    charged_micros: int
    token_margin: float
    """The `token_margin` of the model that would have reserved enough."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Excess | None:
        """The excess in an answer record or in its head; None if its usage was within the reservation."""
        if not record.get("claimed_margin"):
            return None
        # Zero values are left out, such as the price of a free model.
        tokens, micros = record.get("claimed_tokens", 0), record.get("claimed_micros", 0)
        charged_tokens = record["input_tokens"] + record["output_tokens"]
        return cls(record["model"], tokens, charged_tokens, micros, record["usd_micros"], record["claimed_margin"])


@dataclass
class AnswerTotals:
    """The totals of one run's answers for one purpose."""

    usd_micros: int = 0
    answers: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    saved_micros: int = 0
    """Additional cost of the answers without the provider's cache."""

    def add(self, totals: Totals) -> None:
        """Add the totals of further answers."""
        self.answers += totals["answers"]
        self.usd_micros += totals["usd_micros"]
        self.input_tokens += totals["input_tokens"]
        self.cached_tokens += totals["cached_tokens"]
        self.output_tokens += totals["output_tokens"]
        self.saved_micros += totals["saved_micros"]
