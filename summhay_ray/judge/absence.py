"""Judges answers to questions that no document answers: does the answer state this, or does it invent something?

A model gets a special prompt. `offline/judge` reads the same prompt, and recognizes statements of absence in some twenty
languages (`absence_patterns.txt`). In any other language, every statement counts as a claim.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from summhay_ray.judge.answer import fraction, usable_bullet
from summhay_ray.judge.base import JudgeSettings
from summhay_ray.judge.features import roots, without_citations
from summhay_ray.judge.prompt import INSIGHT_HEADING, numbered_at, numbered_json, shipped
from summhay_ray.llm import Ask, Message, Request, Sampling
from summhay_ray.outcome import Answer, Malformed, Outcome
from summhay_ray.text import UnusableAnswer, fill, final_text, json_line, json_value, sentences, text_hash

_QUERY_HEADING = re.compile(r"^Question Without Answer:[ \t]*\r?$", re.MULTILINE)
_BULLETS_HEADING = re.compile(r"^Bullet Points:[ \t]*\r?$", re.MULTILINE)
UNSURE = 0.5
"""The free judge's uncertainty about a claim without any number."""


@dataclass(frozen=True, slots=True)
class Absence:
    """A verdict on an answer to a question that no document answers. `invents`: 1 if it makes a claim, 0 if not; between the two
    for a judge composed of others. `bullet`: the first bullet with a claim, from 1."""

    invents: float
    bullet: int | None = None
    uncertainty: float | None = None


async def judge_absence(query: str, bullets: Sequence[str], settings: JudgeSettings, ask: Ask) -> Outcome[Absence]:
    """Ask the settings' model whether the bullets make a claim. Without bullets there is no claim, and no model is asked."""
    if not bullets:
        return Answer(Absence(0.0, uncertainty=0.0))
    template = shipped("prompts", "absence.txt")
    text = fill(template, {"[[QUERY]]": json_line(query), "[[BULLETS]]": numbered_json("bullet", tuple(bullets))})
    request = Request(
        model=settings.model,
        messages=(Message("user", text),),
        sampling=Sampling(settings.sampling),
        prompt_hash=text_hash(template),
        sample=settings.sample,
        lookup=f"{settings.lookup}/absence" if settings.lookup else "",
    )
    raw = await ask(request)
    if not isinstance(raw, Answer):
        return raw
    read = read_absence(raw.value.text, len(bullets), raw.value.finish_reason)
    if isinstance(read, Malformed):
        return replace(read, key=raw.key, attempts=raw.attempts, usd_micros=raw.usd_micros)
    return Answer(read, key=raw.key, attempts=raw.attempts, usd_micros=raw.usd_micros)


def read_absence(text: str, n_bullets: int, finish_reason: str = "stop") -> Absence | Malformed:
    """The verdict in a model's answer, `{"invents": true, "bullet_id": 2}`."""
    try:
        value = json_value(final_text(text, finish_reason), "invents")
    except UnusableAnswer as error:
        return Malformed(error.error, str(error))
    word = str(value["invents"]).strip().lower()
    if word not in (*_YES, *_NO):
        return Malformed("unknown_coverage", f"invents is {value['invents']!r:.60}; expected true or false")
    if word in _NO:
        return Absence(0.0, uncertainty=fraction(value.get("uncertainty")))
    bullet = usable_bullet(json.dumps(value.get("bullet_id")), n_bullets)
    return Absence(1.0, bullet, fraction(value.get("uncertainty")))


_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")


# --- the free judge ------------------------------------------------------------------------------------------------------


def free_answer(prompt: str) -> str | None:
    """The free judge's answer to a prompt of this file; None for any other prompt."""
    asked, listed = (list(heading.finditer(prompt)) for heading in (_QUERY_HEADING, _BULLETS_HEADING))
    if not asked or not listed or INSIGHT_HEADING.search(prompt):
        return None
    query = json.loads(prompt[asked[-1].end() : listed[-1].start()])
    bullets = numbered_at(prompt, listed[-1].end(), "bullet") or []
    found = rate_absence(query, [text for _, text in bullets])
    bullet = "NA" if found.bullet is None else bullets[found.bullet - 1][0]
    return json.dumps({"invents": found.invents > 0, "bullet_id": bullet, "uncertainty": found.uncertainty})


def rate_absence(query: str, bullets: Sequence[str]) -> Absence:
    """Judge by patterns: an answer invents if one of its clauses does not state an absence and has content beyond the query."""
    asked = {*roots(query)}
    for number, bullet in enumerate(bullets, start=1):
        plain = re.sub(r"[*_#`>|]+", " ", without_citations(bullet)).replace("\u2019", "'").casefold()
        parts = [part for one in sentences(plain) for part in _BREAK.split(_CONCESSION.sub(r"\1;", one)) if part]
        for clause in filter(None, (" ".join(part.split()) for part in parts)):
            found = {*roots(clause)}
            # A heading of the query's words, a greeting, advice to look elsewhere.
            is_empty = not found - asked - _BARE and not (found & asked and _DENIAL.search(clause))
            if not is_empty and (not _patterns()[0].search(clause) or _figures(clause) - _figures(query)):
                return Absence(1.0, number, 0.0 if _figures(clause) else UNSURE)
    return Absence(0.0, uncertainty=0.0)


def _figures(clause: str) -> set[str]:
    """The numbers that do not count documents."""
    return {*re.findall(r"\d[\d.,]*", _patterns()[1].sub(" ", clause))}


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """(A statement of absence, by absence_patterns.txt; a count of documents, document numbers, or a list entry's number.)"""
    named: dict[str, str] = {}
    others = []
    for line in shipped("absence_patterns.txt").splitlines():
        definition = re.fullmatch(r"([A-Z]+) = (.+)", line)
        text = definition[2] if definition else line
        for name, inserted in named.items():
            text = text.replace(f"{{{name}}}", inserted)
        if definition:
            named[definition[1]] = text
        elif line and not line.startswith("#"):
            others.append(f"(?:{text})")
    source, many = named["SOURCE"], r"\d+(?:\s*(?:-|\u2013|to|and|,)\s*\d+)*"
    counted = rf"\b(?:\d[\d,]*\s+(?:\w+\s+)?{source}|{source}\s+(?:nos?\.?\s*)?{many})|^\W*\d+[.)]\s"
    return re.compile("|".join(others)), re.compile(counted)


_BREAK = re.compile(
    r"[;:\n\u3002\uff1b\uff01]+|(?:,\s*)?\b(?:but|however|nevertheless|nonetheless|yet|instead|rather|whereas|"
    r"and (?:they|it|the|that)|aber|jedoch|sondern|cependant|pero|sin embargo|però|tuttavia|porém|maar|echter|jednak|однако)\b,?|"
    r",\s*(?:mais|sino|ma|mas|men|ale|но)\b|(?:但是|但|然而|しかし|ただし|ですが|그러나|하지만)"
)
"""Where a sentence turns to another statement."""
_CONCESSION = re.compile(r"^(\W*(?:although|though|even though|while|whilst|obwohl|bien que|aunque|sebbene|embora|хотя)\b[^,]*),")
_DENIAL = re.compile(r"\b(?:no|not|never|none|without)\b|n't")
_BARE = frozenset(
    roots(
        """
        answer question query topic subject summary bullet point document source text article report context material passage
        information information's data detail provided given available based above below following here note please sorry
        apologize afraid unfortunately regret consult check see look ask refer further additional other external another
        elsewhere more specific relevant related regarding concerning therefore thus hence so consequently result conclusion
        overall response insight finding claim citation citations none n na null nil unknown yes hello hi thank thanks let know
        help need want like would happy assist search
        """
    )
)
