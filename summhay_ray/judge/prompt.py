"""The judge's prompts and answers: renders prompts, parses prompts for offline judges, and parses answers into verdicts.

The prompts' content follows Laban et al., "Summary of a Haystack", section 4.3 and appendix A.2; the wording is our own. Unlike
the paper's, our prompts put the bullets before the insight. So all calls about one summary share a long prefix, for which
providers give a discount.

The answer's format is that of the paper's appendix A.2; `text.answers` parses it. A verdict is a JSON object with a coverage.
Only another such object can contradict it; the text around it cannot. A Malformed answer has an `error` of `text.answers`, or
two_verdicts, unknown_coverage, unusable_bullet, missing_insight, unclear_insight.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from summhay_ray.judge.base import Verdict
from summhay_ray.outcome import Malformed
from summhay_ray.records import COVERAGE_VALUE
from summhay_ray.text import Material, UnusableAnswer, fill, final_text, json_line, json_objects, neutral, whole_number

EXAMPLES = "[[FEW_SHOT_EXAMPLES]]"
_LOOKS_LIKE_ONE = re.compile(r"\[\[[A-Za-z_]+\]\]")
INSIGHT_HEADING = re.compile(r"^Reference Insight(s?):[ \t]*\r?$", re.MULTILINE)
_BULLETS_HEADING = re.compile(r"^Bullet Points:[ \t]*\r?$", re.MULTILINE)
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_BREAKS_A_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DECODER = json.JSONDecoder(strict=False)
_NUMBER_WORDS = {1: "One", 2: "Two", 3: "Three"}


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a prompt. `together`: it asks about all insights of a summary, not about one. `nine`: it has nine worked
    examples (few-shot), not one."""

    together: bool = False
    nine: bool = False


ALONE = Form()


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed judge prompt: insights and bullets, with their ids in the prompt.

    If `together`, the prompt asks about all insights in one answer. Otherwise it has one insight, with id 1.
    """

    insights: tuple[str, ...]
    insight_ids: tuple[int, ...]
    together: bool
    bullet_ids: tuple[int, ...]
    bullets: tuple[str, ...]


@lru_cache(maxsize=64)
def template(prompt: str = "", form: Form = ALONE) -> str:
    """Return the template: the user's `prompt` or, if it is empty, the built-in one of the form, with worked examples inserted.

    Raises ValueError if the user's prompt lacks a placeholder that the form needs, or has an unknown one.
    """
    text = prompt or shipped("prompts", "per_summary.txt" if form.together else "per_insight.txt")
    needed = ("[[INSIGHTS]]" if form.together else "[[INSIGHT]]", "[[BULLETS]]", *((EXAMPLES,) if form.nine else ()))
    missing = [placeholder for placeholder in needed if placeholder not in text]
    if missing:
        other = "[[INSIGHT]]" if form.together else "[[INSIGHTS]]"
        hint = (
            f" ({other} belongs to a judge that asks {'per_insight' if form.together else 'per_summary'})"
            if other in text
            else ""
        )
        raise ValueError(f"the judge's prompt lacks {' and '.join(missing)}; write each where its text is to stand{hint}")
    known = (*needed, EXAMPLES)
    # The insight placeholder of the other form is allowed, but not filled.
    taken = {*known, "[[INSIGHT]]", "[[INSIGHTS]]"}
    unknown = sorted(set(_LOOKS_LIKE_ONE.findall(text)) - taken)
    if unknown:
        raise ValueError(f"{unknown[0]} is not a placeholder of the judge's prompt; known: {', '.join(dict.fromkeys(known))}")
    return text.replace(EXAMPLES, _worked_examples(form))


def render(text: str, insight: str, bullets: Sequence[str]) -> str:
    """Insert the insight and the numbered bullets (from 1) into the template. Placeholders inside inserted text are not
    replaced."""
    return fill(text, placeholders(insight, bullets))


def placeholders(insight: str, bullets: Sequence[str]) -> dict[str, Material]:
    """Return the text for each placeholder of a template about one insight."""
    return {"[[INSIGHT]]": insight_line(insight), "[[BULLETS]]": numbered_json("bullet", tuple(bullets))}


def render_together(text: str, insights: Sequence[str], bullets: Sequence[str]) -> str:
    """Insert all insights, numbered from 1, and the bullets into the template, as `render` does."""
    shown = {"[[INSIGHTS]]": numbered_json("insight", tuple(insights)), "[[BULLETS]]": numbered_json("bullet", tuple(bullets))}
    return fill(text, shown)


# Cached, so that the bullets are rendered once per summary, and the insights once for all systems.
@lru_cache(maxsize=256)
def numbered_json(noun: str, texts: tuple[str, ...]) -> Material:
    """Return `{"bullets": [{"bullet_id": 1, "text": "..."}]}`, or the same with another noun. It is one line, so that no text can
    imitate a line of the prompt."""
    return json_line({f"{noun}s": [{f"{noun}_id": number, "text": text} for number, text in enumerate(texts, 1)]})


# Cached, since the insights of a query are the same for all systems.
@lru_cache(maxsize=1024)
def insight_line(insight: str) -> Material:
    """Return the insight unchanged, or as a JSON string if it could be misread.

    It could be misread if it is empty, contains line breaks or control characters, or begins or ends with blanks. It could also
    be misread if it imitates the structure of a prompt (`text.neutral`), is one of this prompt's headings, or is itself a JSON
    string. So an insight is always a single line, and never a section of the prompt.
    """
    plain = (
        insight == insight.strip()
        and insight != ""
        and not _BREAKS_A_LINE.search(insight)
        and neutral(insight) == insight
        and not INSIGHT_HEADING.match(insight)
        and not _BULLETS_HEADING.match(insight)
        and _json_string(insight) is None
    )
    return Material(insight) if plain else json_line(insight)


def read(prompt: str) -> Question:
    """Parse the question at the end of a judge's prompt. Of each heading, the last section counts; their order does not matter.

    Works for our prompts and for others with the same headings, each alone on a line: `Bullet Points:` with the bullets as JSON,
    and `Reference Insight:` with one insight or `Reference Insights:` with several as JSON. An insight before the bullets ends at
    the bullets' heading. An insight after the bullets ends at the next blank line. Raises LookupError, which names the missing
    section.
    """
    insight_heads = list(INSIGHT_HEADING.finditer(prompt))
    if not insight_heads:
        raise LookupError("the prompt has no line 'Reference Insight:' or 'Reference Insights:'; offline/judge reads on from it")
    bullets_heads = list(_BULLETS_HEADING.finditer(prompt))
    if not bullets_heads:
        raise LookupError("the prompt has no line 'Bullet Points:'; offline/judge reads the bullets after it")
    for bullets_head in reversed(bullets_heads):
        bullets = numbered_at(prompt, bullets_head.end(), "bullet")
        if bullets is not None:
            together, start = bool(insight_heads[-1][1]), insight_heads[-1].end()
            if together:
                insights = numbered_at(prompt, start, "insight")
                if not insights:
                    form = '{"insights": [{"insight_id": 1, "text": "..."}]}'
                    raise LookupError(f"no {form} follows the line 'Reference Insights:' of the prompt")
            else:
                before = start <= bullets_head.start()
                section = (
                    prompt[start : bullets_head.start()] if before else _BLANK_LINE.split(prompt[start:].strip(), maxsplit=1)[0]
                )
                decoded = _json_string(section.strip())
                insights = [(1, section.strip() if decoded is None else decoded)]
            (ids, texts), (bullet_ids, bullet_texts) = (
                tuple(zip(*some, strict=True)) or ((), ()) for some in (insights, bullets)
            )
            return Question(texts, ids, together, bullet_ids, bullet_texts)
    raise LookupError('no {"bullets": [{"bullet_id": 1, "text": "..."}]} follows the line \'Bullet Points:\' of the prompt')


def numbered_at(prompt: str, start: int, noun: str) -> list[tuple[int, str]] | None:
    """Return the numbered texts of the first JSON object after `start`, or None if it has another form."""
    brace = prompt.find("{", start)
    if brace < 0:
        return None
    try:
        value, _ = _DECODER.raw_decode(prompt, brace)
        return [(int(entry[f"{noun}_id"]), str(entry["text"])) for entry in value[f"{noun}s"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


@cache
def _worked_examples(form: Form) -> str:
    """Return the worked examples: one summary with three judged insights (full, partial, none), or three such summaries, which
    are the nine shots of section 4.3."""
    examples, shown = json.loads(shipped("prompts", "examples.json")), []
    for place, example in enumerate(examples if form.nine else examples[:1], 1):
        title = f"Worked example {place}." if form.nine else "A worked example."
        judged = [(text, {"coverage": coverage, "bullet_id": bullet}) for text, coverage, bullet in example["insights"]]
        count = _NUMBER_WORDS[len(judged)]
        if form.together:
            answer = {"judgments": [{"insight_id": number, **verdict} for number, (_, verdict) in enumerate(judged, 1)]}
            texts = numbered_json("insight", tuple(text for text, _ in judged))
            answers = f"{count} insights:\n{texts}\n\nThe right answer:\n{json_line(answer)}"
        else:
            lines = "\n".join(f'Insight: "{text}"\n{json_line(verdict)}' for text, verdict in judged)
            answers = f"{count} insights, each with its right answer:\n{lines}"
        bullets = numbered_json("bullet", tuple(example["bullets"]))
        shown.append(f"{title} The summary:\n{bullets}\n\n{answers}\n\n{example['why']}")
    return "\n\n".join(shown)


def _json_string(text: str) -> str | None:
    """Return the string that `text` encodes as JSON, or None."""
    if not text.startswith('"'):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


@cache
def shipped(*path: str) -> str:
    """Read a file in this folder."""
    return resources.files("summhay_ray.judge").joinpath(*path).read_text(encoding="utf-8")


_LABEL = re.compile(r"(?:(?P<FULL>full|fully)|(?P<PARTIAL>partial|partially)|(?P<NO>no|not(?=covered)))(?:coverage|covered)?")
_MOST_APART = 0.5
"""Maximum difference between a verdict's value and the value of its label. With a larger difference, the value is ignored."""

Read = Verdict | Malformed


def read_verdict(text: str, finish_reason: str = "stop") -> Read:
    """Parse the verdict in an answer: coverage as one of records.Coverage, and the judge's bullet id as JSON.

    The bullet id ("null" if there is none) is not checked against the summary: scoring decides how to count an unusable one. An
    answer that was cut at the token limit (`finish_reason` "length") is always Malformed, since the unfinished part could have
    contradicted the verdict.
    """
    try:
        return _one([_verdict_of(value) for value in _objects(text, finish_reason)])
    except UnusableAnswer as error:
        return Malformed(error.error, str(error))


def read_verdicts(text: str, n_insights: int, finish_reason: str = "stop") -> list[Read]:
    """Parse `{"judgments": [{"insight_id": 1, "coverage": ..., "bullet_id": ...}, ...]}` into verdicts on insights 1..n_insights.

    All verdicts are Malformed if the answer is cut or broken, or if a verdict names no insight. They are also Malformed if one
    names an unknown insight while a known one is missing: a model that counts from 0 would assign every verdict to the wrong
    insight. Otherwise unknown insights are ignored.
    """
    said: dict[int | None, list[Read]] = {}
    try:
        for value in _objects(text, finish_reason):
            number = 1 if n_insights == 1 and "insight_id" not in value else whole_number(value.get("insight_id"), "insight")
            said.setdefault(number, []).append(_verdict_of(value))
    except UnusableAnswer as error:
        return [Malformed(error.error, str(error))] * n_insights
    asked = set(range(1, n_insights + 1))
    if None in said or (said.keys() - asked and asked - said.keys()):
        message = "the answer's insight_ids are not those of the prompt, so its verdicts cannot be assigned"
        return [Malformed("unclear_insight", message)] * n_insights
    missing = Malformed("missing_insight", "the answer does not mention the insight")
    return [_one(said[number]) if number in said else missing for number in sorted(asked)]


def _objects(text: str, finish_reason: str) -> list[dict[str, Any]]:
    """Return the answer's objects with a coverage, including nested ones. Raise UnusableAnswer if there are none."""
    optional = ("bullet_id", "insight_id", "value", "uncertainty")
    found = json_objects(final_text(text, finish_reason), "coverage", optional=optional, nested=True)
    if not found:
        raise UnusableAnswer("no_json", 'the answer has no JSON object with a "coverage"')
    return found


def _one(read: Sequence[Read]) -> Read:
    if len({(one.coverage, one.bullet_id.strip('"')) if isinstance(one, Verdict) else one for one in read}) > 1:
        return Malformed("two_verdicts", "the answer has several verdicts, and they differ")
    return read[-1]


def _verdict_of(value: dict[str, Any]) -> Read:
    """Return the verdict in an object with a coverage. An uncertainty outside 0..1 is ignored."""
    word, bullet = value["coverage"], json.dumps(value.get("bullet_id"))
    match = _LABEL.fullmatch(re.sub(r"[\W_]+", "", word.lower())) if isinstance(word, str) else None
    if match is None:
        return _unknown(json.dumps(word))
    coverage = f"{match.lastgroup}_COVERAGE"
    if {text.strip() for text in value.values() if isinstance(text, str)} & (COVERAGE_VALUE.keys() - {coverage}):
        return Malformed("two_verdicts", "the answer's JSON object names two coverages")
    if coverage == "NO_COVERAGE" and (failure := _bullet_failure(bullet)):
        return failure
    return Verdict(coverage, bullet, expected_of(value.get("value"), coverage), fraction(value.get("uncertainty")))


def expected_of(value: Any, coverage: str) -> float | None:
    """Return the expected coverage from the optional field `value` of an answer. None if it is missing, is not a number in 0..1,
    or contradicts the label `coverage`."""
    expected = fraction(value)
    return None if expected is None or abs(expected - COVERAGE_VALUE[coverage]) > _MOST_APART else expected


def usable_verdict(verdict: Verdict, n_bullets: int) -> Verdict | Malformed:
    """Check the verdict against a summary of `n_bullets` bullets. Verdicts must be checked before they are combined.

    For a covered insight, the verdict must name a bullet (1..n_bullets). For NO_COVERAGE it must name none; the bullet id becomes
    "NA". Anything else is Malformed ("unusable_bullet"). A user's own judge may also return an unknown label ("unknown_coverage")
    or a value outside 0..1 ("unusable_value").
    """
    if verdict.coverage not in COVERAGE_VALUE:
        return _unknown(json.dumps(verdict.coverage, default=str))
    if not 0 <= verdict.expected <= 1:
        return Malformed("unusable_value", f"the judge's value is {verdict.expected}; expected 0 to 1")
    if verdict.coverage == "NO_COVERAGE":
        return _bullet_failure(verdict.bullet_id) or replace(verdict, bullet_id='"NA"')
    bullet = usable_bullet(verdict.bullet_id, n_bullets)
    if bullet is None:
        message = f"{verdict.coverage} names bullet {verdict.bullet_id:.60}, but the summary has bullets 1..{n_bullets}"
        return Malformed("unusable_bullet", message)
    return replace(verdict, bullet_id=str(bullet))


def usable_bullet(bullet_id: str, n_bullets: int) -> int | None:
    """Return the bullet (1..n_bullets) that `bullet_id` (JSON) names, or None. 3, 3.0, "3", "bullet 3" and [3] all name bullet
    3."""
    try:
        value = json.loads(bullet_id)
    except ValueError:
        return None
    number = whole_number(value[0] if isinstance(value, list) and len(value) == 1 else value, "bullet")
    return number if number is not None and 1 <= number <= n_bullets else None


def _bullet_failure(bullet_id: str) -> Malformed | None:
    """Return a failure if the bullet id (JSON) of a NO_COVERAGE contains a positive number, else None. Words do not name a
    bullet."""
    if re.search(r"(?<![-\d.])0*[1-9]", re.sub(r"\\u[0-9a-f]{4}", "", bullet_id)):
        return Malformed("unusable_bullet", f'NO_COVERAGE names bullet {bullet_id:.60}; expected "NA"')
    return None


def _unknown(word: str) -> Malformed:
    return Malformed("unknown_coverage", f"coverage is {word:.60}; expected NO_COVERAGE, PARTIAL_COVERAGE or FULL_COVERAGE")


def fraction(value: Any) -> float | None:
    """Return a JSON value that is a number from 0 to 1, or None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1 else None
