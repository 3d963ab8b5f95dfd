"""The possible outcomes of a question to a model, of which only an `Answer` is scored. Imports no other module of this
package."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

MICROS = 1_000_000
"""Micro-dollars in a dollar."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A usable answer, and the key of its raw answer."""

    value: T
    key: str = ""
    attempts: int = 1
    usd_micros: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """The model declined to answer, or the provider filtered the answer."""

    error: str
    message: str
    key: str = ""
    attempts: int = 1
    usd_micros: int = 0


@dataclass(frozen=True, slots=True)
class Malformed:
    """The model answered, but not in the requested form, and the answer could not be repaired. `retryable`: see Failed."""

    error: str
    message: str
    key: str = ""
    attempts: int = 1
    usd_micros: int = 0
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """There is no answer: the request could not be made, or every attempt failed. `retryable`: whether a later run may try
    again."""

    error: str
    message: str
    key: str = ""
    attempts: int = 0
    usd_micros: int = 0
    retryable: bool = False


NoAnswer = Refusal | Malformed | Failed
Outcome = Answer[T] | Refusal | Malformed | Failed
"""`Outcome[Summary]` is an answer with a summary, or the reason why there is no answer."""

KIND: dict[type, str] = {Answer: "answer", Refusal: "refusal", Malformed: "malformed", Failed: "failed"}


def no_answer(kind: str, error: str, message: str, key: str, attempts: int, usd_micros: int, retryable: bool = False) -> NoAnswer:
    """Return the outcome for the `kind` of a failure row: refusal, malformed or failed."""
    if kind == "refusal":
        return Refusal(error, message, key, attempts, usd_micros)
    return (Failed if kind == "failed" else Malformed)(error, message, key, attempts, usd_micros, retryable)
