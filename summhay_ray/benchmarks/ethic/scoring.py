"""ETHIC's metrics as we read answers: what an answer says, in whatever form of list it says it. Part of the ethic folder; pure.

Beside `release`, which has the scripts' figures. Here a list may stand in lines, bullets or brackets; "none" can be right; what
is repeated counts once; a section without a summary has the lowest score, and a lost judgment none.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.benchmarks.ethic import release
from summhay_ray.benchmarks.ethic.release import CRITERIA, FAILED, SCALE, JudgeRequest, Overlap

NONE = "none"
"""The item of an answer, or of a gold list, that says that there is nothing to name."""

_SIGNS = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"', "\u3001": ",", "\ufe50": ","})
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_LEAD_IN = re.compile(r"\A[^,;:\n]{0,120}:(?=\s)\s*")
_BETWEEN = re.compile(r"[;,\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_BULLET = re.compile(r"\A\s*(?:[-*+\u2022\u25e6\u2023\u2043\u2013\u2014]\s+|\(?\d{1,4}[.)]\s+)")
_EDGES = " \t\"'`*_.[](){}<>\u00ab\u00bb\u200b\u200c\u200d\u2060\ufeff"
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_NUMBER = re.compile(r"[0-9]+")
_LINE_NUMBER = re.compile(r"^[ \t]*\(?[0-9]{1,4}[.)](?=\s)", re.MULTILINE)
_MARKUP = re.compile(r"[*_`#]+")
_CORE = re.compile(r"\b(?:related\s+segments?|core\s+ids?)\b[ \t]*:", re.IGNORECASE)
_OTHER = re.compile(r"\b(?:supporting\s+segments?|supplementary\s+ids?)\b[ \t]*:", re.IGNORECASE)
_NOTHING = re.compile(r"\b(?:none|no(?:ne)? of (?:them|the \w+))\b|\bn/a\b", re.IGNORECASE)
_HEADER = re.compile(r"[*_]*<[ \t]*(?:section|segment)[ \t]+(\d{1,9})[ \t]*>[*_]*", re.IGNORECASE)
"""Of nine digits at most: none has more sections, and numbers of thousands of digits cannot be read."""
_LINE_HEADER = re.compile(r"^[ \t#*_]*(?:section|segment)[ \t]+(\d{1,9})[ \t*_]*(?::[ \t*_]*|$)", re.IGNORECASE | re.MULTILINE)
_REASONING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>\s*", re.DOTALL | re.IGNORECASE)
_REASONING_END = re.compile(r"\A.*</(?:think|thinking|reasoning)>\s*", re.DOTALL | re.IGNORECASE)
_NEVER_ENDED = re.compile(r"(?:\A|\n)\s*<(?:think|thinking|reasoning)>.*\Z", re.DOTALL | re.IGNORECASE)
_FRAME = "### Context:\n"
_AFTER = "\n\nNow, respond to the instruction"
_PLACE = re.compile(r"\A(?P<domain>[^_]*)_(?P<id>.*)_(?P<section><(?:Section|Segment) \d+>)_(?P<criterion>[a-z]+)\Z", re.DOTALL)
_MARKUP_EDGES = " \t\r\n*_#:"
_SHUFFLES = 2000
_ENUMERATED = 7


@dataclass(frozen=True, slots=True)
class Read:
    """What an answer says, and whether it was in a form that can be read."""

    items: tuple[str, ...]
    unparsed: bool = False


def without_reasoning(text: str) -> str:
    """The answer behind a model's reasoning in <think>, <thinking> or <reasoning>, whose opening may be missing. Behind an
    opening that is never closed there is no answer."""
    return _NEVER_ENDED.sub("", _REASONING_END.sub("", _REASONING.sub("", text)))


def same(text: str) -> str:
    """The text as it is compared: compatibility forms, digits of all scripts, quotation marks and commas as one, case folded."""
    plain = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    digits = "".join(str(unicodedata.decimal(letter)) if letter.isdecimal() else letter for letter in plain)
    return unicodedata.normalize("NFKC", digits.casefold())


def _item(text: str) -> str:
    return " ".join(_BULLET.sub("", text).strip(_EDGES).split())


def _without_thousands(text: str) -> str:
    return _THOUSANDS.sub(lambda found: found.group().replace(",", ""), text)


def items(answer: str) -> Read:
    """The items of a list: between commas, semicolons or line ends, without bullets, quotes and brackets, each once.

    A comma between groups of three digits is one of thousands. A first line that ends in a colon leads in, and is no item.
    """
    text = _without_thousands(same(answer).strip())
    found = dict.fromkeys(filter(None, map(_item, _BETWEEN.split(_LEAD_IN.sub("", text)))))
    return Read(tuple(found), not found)


def gold_items(labels: Iterable[str]) -> frozenset[str]:
    """Labels as they are compared; no label, or none but "None", is the item `none`."""
    found = {one for label in labels if (one := _item(_without_thousands(same(label))))}
    return frozenset(found - {NONE} or {NONE})


def recalling(prediction: str, answer: Sequence[str]) -> Overlap:
    """F1 of the items named and the labels, as sets."""
    return overlap(items(prediction) if prediction != FAILED else Read(()), gold_items(answer))


def overlap(read: Read, gold: frozenset[str]) -> Overlap:
    """What an answer's items have in common with the gold ones."""
    return Overlap.of(len(gold.intersection(read.items)), len(set(read.items)), len(gold))


def _numbers(text: str) -> list[str]:
    """Numbers in brackets where there are any, else all; no line's own number, no leading zeros, each once."""
    plain = same(text)
    inside = [number for part in _BRACKETS.findall(plain) for number in _NUMBER.findall(part)]
    found = inside or _NUMBER.findall(_LINE_NUMBER.sub("", plain)) or _NUMBER.findall(plain)
    # Compared as text: a number of thousands of digits is one that nobody asked for, and none that must be computed.
    return list(dict.fromkeys(number.lstrip("0") or "0" for number in found))


def order(prediction: str) -> Read:
    """The options in the order that an answer gives them."""
    found = _numbers(prediction) if prediction != FAILED else []
    return Read(tuple(found), not found)


def lcs(prediction: Sequence[str], answer: Sequence[str]) -> tuple[list[str], float]:
    """The longest common subsequence, each token counted once, over the longer of the two: what is foreign costs.

    Raises ValueError for an empty answer.
    """
    mine, gold = list(dict.fromkeys(prediction)), list(dict.fromkeys(answer))
    if not gold:
        raise ValueError("the gold order is empty")
    place = {token: index for index, token in enumerate(gold)}
    # Where no token stands twice, the longest common subsequence is the longest rising one of the places.
    common = _rising([place[token] for token in mine if token in place])
    return [gold[index] for index in common], len(common) / max(len(gold), len(mine))


def _rising(values: Sequence[int]) -> list[int]:
    """A longest rising subsequence of distinct numbers."""
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for index, value in enumerate(values):
        length = bisect_left(ends, value)
        before.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        at[length : length + 1] = [index]
    found: list[int] = []
    index = at[-1] if at else -1
    while index >= 0:
        found.append(values[index])
        index = before[index]
    return found[::-1]


def organizing(prediction: str, answer: str) -> tuple[list[str], float]:
    """`lcs` of the options in the answer's order and in the document's. Raises ValueError for a gold order without numbers."""
    return lcs(order(prediction).items, numbers_of(answer))


def numbers_of(answer: str) -> list[str]:
    """The options of a gold order."""
    return _numbers(answer)


@functools.lru_cache(maxsize=1024)
def chance(n: int) -> float:
    """What a random order of n options scores in the mean, as printing 1..n does: exact up to 7, else of 2,000 seeded
    shuffles."""
    if n <= _ENUMERATED:
        lengths = [len(_rising(one)) for one in itertools.permutations(range(n))]
        return sum(lengths) / len(lengths) / n
    shuffled, draws = list(range(n)), random.Random(n)
    total = 0
    for _ in range(_SHUFFLES):
        draws.shuffle(shuffled)
        total += len(_rising(shuffled))
    return total / _SHUFFLES / n


def attributed(prediction: str) -> Read:
    """The ids that an answer puts into the core category: behind the last header of it, up to the other category's.

    Without headers a text that has ids, or says none, is that list; behind the other category's header alone stands none of it.
    """
    text = _MARKUP.sub("", unicodedata.normalize("NFKC", prediction))
    headers = list(_CORE.finditer(text))
    other = list(_OTHER.finditer(text))
    if headers:
        start = headers[-1].end()
        end = next((one.start() for one in other if one.start() >= start), len(text))
        return Read(tuple(_numbers(text[start:end])) or (NONE,))
    found = _numbers(text[: other[0].start()] if other else text)
    if found and prediction != FAILED:
        return Read(tuple(found))
    return Read((NONE,)) if _NOTHING.search(text) and not other else Read((), True)


def attributing(prediction: str, answer: Sequence[str]) -> Overlap:
    """F1 of the core ids and the gold ones; where the gold is none, 1 for an answer that names none."""
    return overlap(attributed(prediction), gold_ids(answer))


def gold_ids(labels: Iterable[str]) -> frozenset[str]:
    """The first number of each label; none of them has one: the item `none`."""
    found = (_NUMBER.search(same(label)) for label in labels)
    return frozenset(one.group().lstrip("0") or "0" for one in found if one) or frozenset({NONE})


def source_of(user_msg: str) -> str:
    """The context of a prompt: behind the first header line, up to the last sentence that follows it. Raises ValueError."""
    text = user_msg.replace("\r\n", "\n")
    _, header, rest = text.partition(_FRAME)
    context, after, _ = rest.rpartition(_AFTER)
    if not (header and after):
        raise ValueError("the prompt lacks '### Context:' or 'Now, respond to the instruction'")
    return context


def sections(text: str) -> dict[int, str]:
    """Number of a section -> what stands below its header, `<Section 1>` or a line such as `**Section 1:**`. Of a section that
    stands twice all bodies."""
    pattern = _HEADER if _HEADER.search(text) else _LINE_HEADER
    found = list(pattern.finditer(text))
    ends = [*(one.start() for one in found), len(text)][1:]
    bodies: dict[int, str] = {}
    for header, end in zip(found, ends, strict=True):
        number, body = int(header.group(1)), text[header.end() : end].strip().rstrip("#").rstrip()
        bodies[number] = "\n".join(filter(None, (bodies.get(number, ""), body)))
    return bodies


@dataclass(frozen=True, slots=True)
class Pairs:
    """A source's sections with the answer's summaries of them, and the sections that have none."""

    found: Mapping[int, tuple[str, str]]
    missing: tuple[int, ...]


def pairs(source: str, prediction: str) -> Pairs:
    """Section -> (its text, its summary); one whose summary is missing or empty is missing."""
    texts, summaries = sections(source), sections(prediction)
    found = {number: (body, summaries[number]) for number, body in texts.items() if summaries.get(number)}
    return Pairs(found, tuple(number for number in texts if number not in found))


@dataclass(frozen=True, slots=True)
class RatedPair:
    """A section and its summary, by number; `reading`: both, ours, or release (the scripts' alone)."""

    number: str
    reading: str
    section: str
    summary: str


def rated_pairs(user_msg: str, context: str, domain: str, read: str, answer: str) -> list[RatedPair]:
    """What a judge is to rate for both scores: our pairs of what is `read`, and the scripts' pairs of the whole `answer`.

    One rating stands for both where their texts are alike. The scripts find no section in a prompt without their frame.
    """
    try:
        theirs = release.pairs(domain, release.source_of(user_msg), answer)
    except AttributeError:
        theirs = {}
    found: list[RatedPair] = []
    for number, pair in pairs(context, read).found.items():
        twin = next(
            (header for header, texts in theirs.items() if number_of(header) == str(number) and _alike(pair, texts)), None
        )
        found.append(RatedPair(str(number), "ours" if twin is None else "both", *pair))
        theirs.pop(twin or "", None)
    return [*found, *(RatedPair(header.split()[1][:-1], "release", *texts) for header, texts in theirs.items())]


def _alike(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether section and summary differ by nothing but the markup of the headers around them."""
    return all(mine.strip(_MARKUP_EDGES) == theirs.strip(_MARKUP_EDGES) for mine, theirs in zip(one, other, strict=True))


def number_of(header: str) -> str:
    """The number of a header such as `<Section 01>`, without leading zeros."""
    return re.sub(r"[^0-9]", "", same(header)).lstrip("0") or "0"


def filled(template: str, document: str, summary: str) -> str:
    """A judge's template with both texts: what a text says of placeholders stays as it is."""
    texts = {"{{Document}}": document, "{{Summary}}": summary}
    return re.sub(r"\{\{(?:Document|Summary)\}\}", lambda found: texts[found.group()], template)


def requests(domain: str, id: str, source: str, prediction: str, templates: Mapping[str, str]) -> list[JudgeRequest]:
    """What a judge is asked, criterion by criterion."""
    word = "Segment" if domain == "Law" else "Section"
    found = pairs(source, prediction).found
    return [
        JudgeRequest(f"{domain}_{id}_<{word} {number}>_{criterion}", filled(templates[criterion], *texts))
        for criterion in CRITERIA
        for number, texts in found.items()
    ]


@dataclass
class _Sums:
    weighted: list[float] = field(default_factory=list)
    top: list[float] = field(default_factory=list)
    outside: list[float] = field(default_factory=list)


def rated(token: str, alternatives: Iterable[Mapping[str, Any]]) -> tuple[float | None, float | None, float]:
    """(expected score over the scale's mass alone, score of the token, mass outside the scale or unseen); None: no score."""
    mass = dict.fromkeys(SCALE, 0.0)
    for one in alternatives:
        score, logprob = _score(str(one["token"])), float(one.get("logprob", -math.inf))
        if score is not None and not math.isnan(logprob):
            mass[score] += math.exp(min(0.0, logprob))
    inside = math.fsum(mass.values())
    expected = math.fsum(score * share for score, share in mass.items()) / inside if inside > 0 else None
    top = _score(token)
    return expected, None if top is None else float(top), max(0.0, 1.0 - inside)


def _score(token: str) -> int | None:
    """A score of the scale: its digit, whatever stands around it."""
    plain = same(token).strip(_EDGES + ":\n\r")
    return int(plain) if plain in {str(score) for score in SCALE} else None


def judged(outputs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float | int | None]]:
    """Sample -> its figures: each criterion's mean over its own answers that hold a score, `weighted` and `top` the means of the
    criteria that have one. `n` counts the answers with a score of `n_expected`; `outside` is the mean mass outside the scale.

    Raises ValueError for an id that is not DOMAIN_ID_<Section N>_CRITERION.
    """
    found: dict[str, dict[str, _Sums]] = {}
    for output in outputs:
        place = _PLACE.match(output["custom_id"])
        if place is None or place["criterion"] not in CRITERIA:
            raise ValueError(f"custom_id {output['custom_id']!r}: expected DOMAIN_ID_<Section 1>_con, _faith or _rel")
        sums = found.setdefault(f"{place['domain']}_{place['id']}", {one: _Sums() for one in CRITERIA})[place["criterion"]]
        expected, top, outside = rated(output["token"], output["top_logprobs"])
        sums.outside.append(outside)
        if expected is not None:
            sums.weighted.append(expected)
        if top is not None:
            sums.top.append(top)
    return {sample: _figures(sums) for sample, sums in found.items()}


def _figures(criteria: Mapping[str, _Sums]) -> dict[str, float | int | None]:
    figures: dict[str, float | int | None] = {}
    for kind in ("weighted", "top"):
        means = {one: mean(getattr(sums, kind)) for one, sums in criteria.items()}
        figures |= {f"{kind}_{one}": value for one, value in means.items()}
        figures[kind] = mean(value for value in means.values() if value is not None)
    figures["outside"] = mean(value for sums in criteria.values() for value in sums.outside)
    figures["n"] = sum(len(sums.weighted) for sums in criteria.values())
    figures["n_expected"] = sum(len(sums.outside) for sums in criteria.values())
    return figures


def mean(values: Iterable[float]) -> float | None:
    """The mean; None of nothing."""
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else None


def aggregated(scores: Mapping[str, Sequence[float | None]]) -> dict[str, Any]:
    """Mean of the samples that have a score (`final_score`), of each domain, and of the domains' means (`macro_score`). What is
    not finite is no score."""
    kept = {
        domain: [float(score) for score in listed if score is not None and math.isfinite(float(score))]
        for domain, listed in scores.items()
    }
    domains = {domain: value for domain, listed in kept.items() if (value := mean(listed)) is not None}
    return {
        "final_score": mean(score for listed in kept.values() for score in listed),
        "macro_score": mean(domains.values()),
        "domain_score": domains,
        "n_scored": sum(map(len, kept.values())),
        "n_expected": sum(map(len, scores.values())),
    }
