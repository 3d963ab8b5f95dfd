"""Part of the judge room, private to it: fill a rating's prompt template, and read the parts back from a prompt.

Placeholders: `[[SOURCE]]`, `[[SUMMARY]]`, `[[REFERENCE]]`, or as released prompts spell them: `{{article}}`, `{{document}}`,
`{{summary}}`, `{{reference}}`. Each may occur repeatedly.

Each text is enclosed, such as between `<source>` and `</source>` (`text.enclosed`), whether or not the template writes the tags
around its placeholder. Our own prompts put the source first, so that all prompts about a document share a prefix that providers
can cache.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from importlib import resources

from summhay_ray import text

_NAME = r"\[\[[A-Z_]+\]\]|\{\{\s*[A-Za-z_]+\s*\}\}"
# With the tags around it, if the template writes them itself.
_PLACEHOLDER = re.compile(rf"<(?P<tag>source|reference|summary)>\n(?P<within>{_NAME})\n</(?P=tag)>|{_NAME}")
_ALIASES = {"ARTICLE": "SOURCE", "DOCUMENT": "SOURCE"}
_SCALE = re.compile(r"whole number from (\d+) to (\d+)", re.IGNORECASE)


def check(template: str, needs: Sequence[str], where: str) -> None:
    """Raise ValueError, in one line that starts with `where`, if the template lacks a placeholder of `needs`."""
    present = {_name(match) for match in _PLACEHOLDER.finditer(template)}
    missing = [f"[[{name}]]" for name in needs if name not in present]
    if missing:
        raise ValueError(f"{where} lacks {' and '.join(missing)}; write each where its text belongs")


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with its placeholders replaced by `values` (placeholder name -> text); one without a value stays."""
    named = {found[0]: _name(found) for found in _PLACEHOLDER.finditer(template)}
    blocks = {written: _enclosed(name, values[name]) for written, name in named.items() if name in values}
    return text.fill(template, blocks)


def part(prompt: str, name: str) -> str | None:
    """The text between `<name>` and `</name>`, each on its own line, of one of our prompts; None if there is none."""
    match = re.search(rf"<{name}>\n(.*?)\n</{name}>", prompt, re.DOTALL)
    return match[1] if match else None


def scale_in(prompt: str) -> tuple[int, int] | None:
    """(low, high) of the last scale that a prompt names ("a whole number from 1 to 5"); None if it names none."""
    scales = _SCALE.findall(prompt)
    return (int(scales[-1][0]), int(scales[-1][1])) if scales else None


@functools.cache
def shipped(name: str) -> str:
    """The template in the file `prompts/NAME`."""
    return resources.files("summhay_ray.judge.rating").joinpath("prompts", name).read_text(encoding="utf-8")


def _name(found: re.Match[str]) -> str:
    name = (found["within"] or found[0]).strip("[]{} \t\n").upper()
    return _ALIASES.get(name, name)


# Several criteria rate by one source.
@functools.lru_cache(maxsize=256)
def _enclosed(name: str, value: str) -> text.Block:
    return text.enclosed(name.lower() if name.lower() in text.NAMES else "part", value)
