"""The two sample haystacks shipped with the package, written by us."""

from __future__ import annotations

import json
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from summhay_ray import plugins


def _folder() -> Traversable:
    return resources.files("summhay_ray.haystack").joinpath("sample")


def sample_names() -> list[str]:
    """The sorted names of the samples: `conversation` and `news`, the paper's two domains (section 3.1)."""
    return sorted(entry.name.removesuffix(".json") for entry in _folder().iterdir() if entry.name.endswith(".json"))


def load_sample(name: str) -> dict[str, Any]:
    """A sample as parsed JSON in the released format: one topic, 32 documents, 4 subtopics, 22 insights.

    Each call returns a new copy. Raises `summhay_ray.plugins.UnknownName`, which names the nearest sample.
    """
    names = sample_names()
    if name not in names:
        raise plugins.unknown("sample haystack", name, names)
    parsed: dict[str, Any] = json.loads(_folder().joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return parsed
