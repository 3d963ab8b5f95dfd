"""Part of the judge room, for the room alone: a rating's prompt, filled and read back.

Placeholders, each once or more: `[[SOURCE]]`, `[[SUMMARY]]`, `[[REFERENCE]]`, or as released prompts spell them: `{{article}}`,
`{{document}}`, `{{summary}}`, `{{reference}}`. All are filled in one pass: what is inserted is never searched again.

Our own prompts put the source first, between `<source>` and `</source>`: all prompts about one document begin alike, which
providers' caches reward. A text that holds such a tag itself has it written as `&lt;source&gt;`, so that it cannot end its part.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib import resources

_PLACEHOLDER = re.compile(r"\[\[([A-Z_]+)\]\]|\{\{\s*([A-Za-z_]+)\s*\}\}")
_ALIASES = {"ARTICLE": "SOURCE", "DOCUMENT": "SOURCE"}
_TAG = re.compile(r"<(/?(?:source|reference|summary))>", re.IGNORECASE)
_SCALE = re.compile(r"whole number from (\d+) to (\d+)", re.IGNORECASE)


def check(template: str, needs: Sequence[str], where: str) -> None:
    """Raises ValueError, in one line, where the template lacks one of the placeholders that it needs."""
    there = {_name(found) for found in _PLACEHOLDER.finditer(template)}
    missing = [f"[[{name}]]" for name in needs if name not in there]
    if missing:
        raise ValueError(f"{where} lacks {' and '.join(missing)}; write each where its text is to stand")


@functools.lru_cache(maxsize=64)
def template_hash(template: str) -> str:
    """sha256 (hex) of a template."""
    return hashlib.sha256(template.encode("utf-8", "surrogatepass")).hexdigest()


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with the values (by placeholder name) in it; a placeholder that has no value stays as it is."""

    def value(found: re.Match[str]) -> str:
        name = _name(found)
        return _neutral(values[name]) if name in values else found[0]

    return _PLACEHOLDER.sub(value, template)


def part(prompt: str, name: str) -> str | None:
    """The text between `<name>` and `</name>` of a prompt in our form; None where it has none."""
    found = re.search(rf"<{name}>\n(.*?)\n</{name}>", prompt, re.DOTALL)
    return found[1] if found else None


def scale_in(prompt: str) -> tuple[int, int] | None:
    """The scale that a prompt in our form names last ("a whole number from 1 to 5"); None where it names none."""
    found = _SCALE.findall(prompt)
    return (int(found[-1][0]), int(found[-1][1])) if found else None


@functools.cache
def shipped(name: str) -> str:
    """The template of a file in `prompts/`."""
    return resources.files("summhay_ray.judge.rating").joinpath("prompts", name).read_text(encoding="utf-8")


def _name(found: re.Match[str]) -> str:
    name = (found[1] or found[2]).upper()
    return _ALIASES.get(name, name)


@functools.lru_cache(maxsize=256)
def _neutral(text: str) -> str:
    return _TAG.sub(r"&lt;\1&gt;", text)
