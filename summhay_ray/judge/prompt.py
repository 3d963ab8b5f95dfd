"""Part of the judge room, for the room alone: the judge's prompt, written from and read back to insight and bullets.

Content after Laban et al., "Summary of a Haystack", appendix A.2; the words are our own. Unlike there, our prompt has the
bullets before the insight: all insights of one summary then share one long prefix, which providers discount.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

PLACEHOLDERS = ("[[INSIGHT]]", "[[BULLETS]]")
EXAMPLES = "[[FEW_SHOT_EXAMPLES]]"
_PLACEHOLDER = re.compile(r"\[\[(INSIGHT|BULLETS)\]\]")
_INSIGHT_HEADING = re.compile(r"^Reference Insight:[ \t]*\r?$", re.MULTILINE)
_BULLETS_HEADING = re.compile(r"^Bullet Points:[ \t]*\r?$", re.MULTILINE)
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_BREAKS_A_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class Question:
    """What a judge's prompt asks: an insight, and the bullets with the ids that the prompt gives them."""

    insight: str
    bullet_ids: tuple[int, ...]
    bullets: tuple[str, ...]


def check_prompt(text: str) -> None:
    """Raises ValueError, in one line, where a judge's prompt file lacks a placeholder that it needs."""
    missing = [placeholder for placeholder in PLACEHOLDERS if placeholder not in text]
    if missing:
        raise ValueError(f"the judge's prompt lacks {' and '.join(missing)}; write each where its text is to stand")


def template(prompt: str = "") -> str:
    """The text to fill: the user's `prompt`, or our own where it is empty, with the worked example in its place.

    Raises ValueError as `check_prompt` does.
    """
    text = prompt or _shipped("per_insight.txt")
    check_prompt(text)
    return text.replace(EXAMPLES, _shipped("examples.txt").strip())


@lru_cache(maxsize=64)
def prompt_identity(prompt: str = "") -> str:
    """sha256 (hex) of what is asked with the user's `prompt`, or with our own where it is empty: part of a run's identity."""
    return template_hash(template(prompt))


def template_hash(text: str) -> str:
    """sha256 (hex) of a template, for the request's key."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def render(text: str, insight: str, bullets: Sequence[str]) -> str:
    """The template `text` with insight and bullets (numbered from 1) in it; what is inserted is not searched again."""
    inserted = {"INSIGHT": insight_line(insight), "BULLETS": bullets_json(bullets)}
    return _PLACEHOLDER.sub(lambda match: inserted[match[1]], text)


def bullets_json(bullets: Sequence[str]) -> str:
    """`{"bullets": [{"bullet_id": 1, "text": "..."}]}` in one line, so that no bullet can stand as a line of the prompt."""
    return _json({"bullets": [{"bullet_id": number, "text": text} for number, text in enumerate(bullets, 1)]})


def insight_line(insight: str) -> str:
    """The insight as it is, or as a JSON string where it could be taken for something else.

    That is: where it is empty, has line breaks or control characters or blanks at its ends, is one of the prompt's
    headings, or is itself a JSON string. So an insight is always one line, and never a section of the prompt.
    """
    plain = (
        insight == insight.strip()
        and insight != ""
        and not _BREAKS_A_LINE.search(insight)
        and not _INSIGHT_HEADING.match(insight)
        and not _BULLETS_HEADING.match(insight)
        and _json_string(insight) is None
    )
    return insight if plain else _json(insight)


def read(prompt: str) -> Question:
    """The question at the end of a judge's prompt: the last section of each heading, in either order.

    Works for our prompt and for others with the same two headings, each alone on a line, and the bullets as JSON. An insight
    that stands before the bullets ends at their heading, one that stands after them at the next blank line.
    Raises LookupError, saying which section is missing.
    """
    insight_heads = list(_INSIGHT_HEADING.finditer(prompt))
    if not insight_heads:
        raise LookupError("the prompt has no line 'Reference Insight:'; offline/judge reads the insight after it")
    bullets_heads = list(_BULLETS_HEADING.finditer(prompt))
    if not bullets_heads:
        raise LookupError("the prompt has no line 'Bullet Points:'; offline/judge reads the bullets after it")
    for bullets_head in reversed(bullets_heads):
        found = _bullets_at(prompt, bullets_head.end())
        if found is not None:
            insight = _insight_at(prompt, insight_heads[-1].end(), bullets_head.start())
            return Question(insight, tuple(number for number, _ in found), tuple(text for _, text in found))
    raise LookupError('no {"bullets": [{"bullet_id": 1, "text": "..."}]} follows the line \'Bullet Points:\' of the prompt')


def _insight_at(prompt: str, start: int, bullets_start: int) -> str:
    if start <= bullets_start:
        section = prompt[start:bullets_start].strip()
    else:
        section = _BLANK_LINE.split(prompt[start:].strip(), maxsplit=1)[0].strip()
    decoded = _json_string(section)
    return section if decoded is None else decoded


def _bullets_at(prompt: str, start: int) -> list[tuple[int, str]] | None:
    """The numbered bullets of the first JSON object after `start`, or None where it is not one of bullets."""
    brace = prompt.find("{", start)
    if brace < 0:
        return None
    try:
        value, _ = _DECODER.raw_decode(prompt, brace)
        return [(int(bullet["bullet_id"]), str(bullet["text"])) for bullet in value["bullets"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _json_string(text: str) -> str | None:
    """The string that `text` is the JSON of, or None."""
    if not text.startswith('"'):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _json(value: Any) -> str:
    """Readable JSON that any transport can carry: a lone surrogate, which UTF-8 has no bytes for, is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


@cache
def _shipped(name: str) -> str:
    return resources.files("summhay_ray.judge").joinpath("prompts", name).read_text(encoding="utf-8")
