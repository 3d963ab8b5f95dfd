"""Part of the synth room's writer: the subject of a topic, as a phrase that fits into a sentence. For the writer alone.

A topic is any text of a user: "the dispute about the ferry of Norhaven", "What towns did after the storm", "rain". Only function
words can be recognized in it, so it is split at prepositions, and only whole parts are used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

from summhay_ray.synth.writer.sentences import DATE, FUNCTION_WORDS, words_of

MOST_ROOTS = 3
"""Most content words of the topic in a subtopic. A subtopic has four of its own, and must not look like the next one."""

_LONGEST = 9
"""Most words of the topic in an insight."""

FALLBACK = "the subject"
"""The subject of a topic without words."""

_PREPOSITIONS = (
    "of|about|on|over|in|at|for|with|from|to|near|between|against|after|before|during|into|behind|under|by|through|around|across"
    "|among|within|without|towards?|versus|vs|and|or|as"
)
_JOINT = re.compile(rf"\s+({_PREPOSITIONS})\s+", re.IGNORECASE)
_ASIDE = frozenset(("in", "at", "near", "on", "after", "before", "during", "since", "by", "between", "and", "or", "as"))
"""After one of these comes a place, a time or a second thing."""

_FORMS = """
    meta: dispute debate discussion controversy argument quarrel story question news talk talks conversation conversations
    review reviews report reports future history state overview summary introduction guide thoughts opinions views experiences
    verbs: is are was were be has have had will would can could may might must should do does did come comes came go goes went
    get gets got make makes made take takes took give gives gave returns becomes became stays stayed remains remained turns
    turned returned rose fell lost won wins loses faces faced closed opened broke breaks says said needs wants tries tried ends
    ended begins began keeps kept grew grows shuts
    events: outage accident crash fire leak failure collapse incident breach strike dispute closure merger launch election flood
    storm explosion delay blackout recall trial scandal attack shortage reform project plan debate
    asking: what how why who when where which whose should does do did is are can could will would was were
    plain: climate remote electric public social artificial renewable online home work health healthy food water air energy city
    urban rural local new old young wireless smart student students school schools family children global digital machine space
    ocean rain snow storm noise coffee tea bread music travel housing rising falling low high life time money free open big
    small impact effect effects rise fall role collapse rebuilding closing opening sale loss great best better modern early late
    self mental physical data software hardware cloud network server power battery outage disk database payment people living
    learning planning buying using cooking gardening running working moving raising saving
"""
_WORDS = {
    name: frozenset(words.split()) for name, words in re.findall(r"(\w+): ([\w\s]+?)(?=\s*(?:\w+:|\Z))", " ".join(_FORMS.split()))
}
_COMMON_ENDING = re.compile(r"(?:tion|sion|ment|ness|bility|ology|ture|ical|ional|able|ful|less|ous)s?$")
_DATED = re.compile(rf"\s+(?:(?:on|in|of|since|by)\s+)?{DATE}")
_ARTICLE = re.compile(r"(?:the|an?)\s+(?=\S)", re.IGNORECASE)
_DETERMINED = re.compile(r".*\b((?:the|an?|my|our|their|its|his|her) .+)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a topic. `core`: a phrase with at most MOST_ROOTS content words; `mentions`: the core and, if it fits into a
    sentence, a longer phrase; `roots`: of the whole topic and the core."""

    core: str
    mentions: tuple[str, ...]
    roots: frozenset[str]


@lru_cache(maxsize=1024)
def subject_of(topic: str) -> Subject:
    """The subject of a topic; FALLBACK for a topic without words."""
    roots = words_of(topic).roots
    plain = re.sub(r"[\"“”„«»()\[\]{}<>*_|]", " ", topic)
    part = next((part for part in re.split(r"[.:;!?,\n]+(?=\s|$)|\s[-–—]+\s", plain) if _has_content(part)), "")
    phrase = _phrase(" ".join(part.split()))
    core = _core(_DATED.sub("", phrase) if _has_content(_DATED.sub("", phrase)) else phrase)
    if not _has_content(core):
        return Subject(FALLBACK, (FALLBACK,), roots | words_of(FALLBACK).roots)
    longer = [phrase] if phrase != core and len(phrase.split()) <= _LONGEST else []
    return Subject(core, (core, *longer), roots | words_of(core).roots)


def _has_content(text: str) -> bool:
    """Whether the text has a content word with a letter."""
    words = words_of(text)
    return any(any(sign.isalpha() for sign in root) for root in words.roots)


def _phrase(topic: str) -> str:
    """The topic as a phrase that can follow a preposition; of a clause, the part that can."""
    words = topic.split()
    lower = [word.lower() for word in words]
    if not words:
        return ""
    if lower[0] in _WORDS["asking"]:
        return _noun(_object(topic))
    for place in range(1, len(words)):
        if lower[place] in _WORDS["verbs"] and lower[place - 1] not in FUNCTION_WORDS and _has_content(" ".join(words[:place])):
            return _noun(" ".join(words[:place]))
    return _noun(topic)


def _object(question: str) -> str:
    """What a question is about: its names, else the phrase after its last preposition or determiner, else its last word."""
    words = question.split()
    names = [word for word in words[1:] if word[0].isupper() and word.lower() not in FUNCTION_WORDS]
    parts = _JOINT.split(question)
    determined = _DETERMINED.match(parts[-1])
    if determined is not None and (not names or names[0] in determined.group(1)):
        return determined.group(1)
    if names and len(names) < len(words) - 1:
        return " ".join(names[:MOST_ROOTS])
    if len(parts) > 1 and len(parts[-1].split()) <= MOST_ROOTS:
        return parts[-1]
    return words[-1]


def _noun(phrase: str) -> str:
    """The phrase with a small first letter unless it begins with a name, and with `the` instead of `a` or a missing article."""
    article = _ARTICLE.match(phrase)
    if not phrase:
        return ""
    if article is not None and _has_content(phrase[article.end() :]):
        return "the " + phrase[article.end() :]
    first, _, rest = phrase.partition(" ")
    plain = first.lower()
    known = plain in FUNCTION_WORDS or any(plain in _WORDS[name] for name in ("meta", "plain")) or _COMMON_ENDING.search(plain)
    if first == first.capitalize() and known and not rest[:1].isupper():
        phrase = f"{plain} {rest}".strip()
    part, *joints = _JOINT.split(phrase)
    bare = phrase[:1].islower() and part.split()[0] not in FUNCTION_WORDS and not part.split()[0].endswith("ing")
    counted = part.split()[-1] in _WORDS["events"] or (joints[:1] == ["of"] and "'" not in part)
    return f"the {phrase}" if bare and counted else phrase


def _core(phrase: str) -> str:
    """The neighbouring parts of the phrase with most content words, up to MOST_ROOTS; rather with names than without, but not
    merely a place or a time."""
    pieces = _JOINT.split(phrase)
    parts, joints = pieces[::2], [joint.lower() for joint in pieces[1::2]]
    best, most = "", (False, False, 0, False)
    for first, last in combinations_with_replacement(range(len(parts)), 2):
        text = "".join(
            f" {joints[place - 1]} {parts[place]}" if place > first else parts[place] for place in range(first, last + 1)
        )
        text = _shortened(text) if first == last == 0 else text
        words = words_of(text)
        if not 0 < len(words.roots) <= MOST_ROOTS or not _has_content(text) or "between" in joints[last - 1 : last]:
            continue
        aside = first > 0 and joints[first - 1] in _ASIDE
        rank = (len(parts) == 1 or not _is_meta(parts[first]), not aside, len(words.roots), bool(words.facts))
        if rank > most:
            best, most = text, rank
    return _noun(best)


def _is_meta(part: str) -> bool:
    words = [word for word in part.lower().split() if word not in FUNCTION_WORDS]
    return len(words) == 1 and words[0] in _WORDS["meta"]


def _shortened(phrase: str) -> str:
    """The phrase's last words, its capitalized first word and its names, as many as MOST_ROOTS allows."""
    words = phrase.split()
    if len(words_of(phrase).roots) <= MOST_ROOTS:
        return phrase
    kept: set[int] = set()
    named = [place for place, word in enumerate(words) if word != word.lower() and place]
    for place in [len(words) - 1, *([0] if words[0].istitle() else []), *named, *reversed(range(len(words)))]:
        more = kept | {place}
        if len(words_of(" ".join(words[spot] for spot in sorted(more))).roots) <= MOST_ROOTS:
            kept = more
    return " ".join(words[place] for place in sorted(kept))
