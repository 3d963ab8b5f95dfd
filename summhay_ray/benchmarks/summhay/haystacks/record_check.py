"""Validation of the run records of benchmarks on haystacks, field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Judge(BaseModel):
    model_config = ConfigDict(strict=True)
    name: str
    model: str
    strategy: str
    prompt: str | None


class _Spec(BaseModel):
    model_config = ConfigDict(strict=True)
    name: str = ""
    seed: int = 0
    judges: list[_Judge] = []
    budget_usd: float | None = None


class _Source(BaseModel):
    model_config = ConfigDict(strict=True)
    haystack_id: str
    # Exported files are named after it.
    name: Annotated[str, Field(pattern="^[^/]*$")]
    object: str


_FIELDS: Mapping[str, tuple[str, Any]] = {
    "name": ("text", str),
    "of": ("text", str),
    "cells": ("a whole number", int),
    "topics": ("64 hex digits", _Digest),
    "outlines": ("64 hex digits", _Digest),
    "inputs": ("a mapping of texts", dict[str, str]),
    "domain": ("a mapping", dict[str, Any]),
    "answers": ("a mapping of files to 64 hex digits", dict[str, _Digest]),
    "prompts": ("a mapping of texts", dict[str, str]),
    "spec": ("a mapping, as the run's spec was", _Spec),
    "haystacks": ("a list of haystack_id, name, object", list[_Source]),
    "judges": ("a list of label, identity", list[Annotated[list[str], Field(min_length=2, max_length=2)]]),
}
"""Field -> what it holds, in words and as a type."""


def record_flaw(record: Mapping[str, Any], needed: Sequence[str]) -> str:
    """What is wrong with a record, in a few words; empty if it is valid. `needed`: the fields it must have."""
    for name in needed:
        if name not in record:
            return f"field {name} is missing"
    for name in [name for name in record if name in _FIELDS]:
        try:
            _adapter(name).validate_python(record[name], strict=True)
        except ValidationError:
            return f"field {name}: expected {_FIELDS[name][0]}"
    return ""


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_FIELDS[name][1])
