"""Part of the synth room's writer: what a topic is about, as words that stand in a sentence. For the writer alone.

A topic is anybody's: "the dispute about the ferry of Norhaven", "What towns did after the storm", "rain". Of its grammar the
small words alone are known, so its parts are cut at prepositions, and whole parts only are taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

from summhay_ray.synth.writer.sentences import DATE, FUNCTION_WORDS, words_of

MOST_ROOTS = 3
"""Words of the topic that a subtopic holds at most: it has four of its own, and must not look like the next one."""

_LONGEST = 9
"""Words of the topic that an insight holds at most."""

FALLBACK = "the subject"
"""Of a topic without a word."""

_PREPOSITIONS = (
    "of|about|on|over|in|at|for|with|from|to|near|between|against|after|before|during|into|behind|under|by|through|around|across"
    "|among|within|without|towards?|versus|vs|and|or|as"
)
_JOINT = re.compile(rf"\s+({_PREPOSITIONS})\s+", re.IGNORECASE)
_ASIDE = frozenset(("in", "at", "near", "on", "after", "before", "during", "since", "by", "between", "and", "or", "as"))
"""What follows one of these says where or when, or is a second thing."""

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
    """`core`: what the topic is about, with at most MOST_ROOTS words that say so. `mentions`: the core, and the topic at more
    length where it has a form that stands in a sentence. `roots` of the whole topic."""

    core: str
    mentions: tuple[str, ...]
    roots: frozenset[str]


@lru_cache(maxsize=1024)
def subject_of(topic: str) -> Subject:
    """The subject of a topic; of one without a word, "the subject"."""
    roots = words_of(topic).roots
    plain = re.sub(r"[\"“”„«»()\[\]{}<>*_|]", " ", topic)
    part = next((one for one in re.split(r"[.:;!?,\n]+(?=\s|$)|\s[-–—]+\s", plain) if _speaks(one)), "")
    phrase = _phrase(" ".join(part.split()))
    core = _core(_DATED.sub("", phrase) if _speaks(_DATED.sub("", phrase)) else phrase)
    if not _speaks(core):
        return Subject(FALLBACK, (FALLBACK,), roots | words_of(FALLBACK).roots)
    longer = [phrase] if phrase != core and len(phrase.split()) <= _LONGEST else []
    return Subject(core, (core, *longer), roots | words_of(core).roots)


def _speaks(text: str) -> bool:
    words = words_of(text)
    return any(any(sign.isalpha() for sign in root) for root in words.roots)


def _phrase(topic: str) -> str:
    """The topic as what stands behind a preposition; of a clause, the part that can."""
    words = topic.split()
    lower = [word.lower() for word in words]
    if not words:
        return ""
    if lower[0] in _WORDS["asking"]:
        return _noun(_object(topic))
    for place in range(1, len(words)):
        if lower[place] in _WORDS["verbs"] and lower[place - 1] not in FUNCTION_WORDS and _speaks(" ".join(words[:place])):
            return _noun(" ".join(words[:place]))
    return _noun(topic)


def _object(question: str) -> str:
    """What a question asks about: its names, else what its last preposition or article leads in, else its last word."""
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
    """With a small letter where its first word is no name, with `the` for `a`, and before what needs an article."""
    article = _ARTICLE.match(phrase)
    if not phrase:
        return ""
    if article is not None and _speaks(phrase[article.end() :]):
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
    """The neighbouring parts of the phrase that say most of it in at most MOST_ROOTS words; names rather than none, but no mere
    place or time."""
    pieces = _JOINT.split(phrase)
    parts, joints = pieces[::2], [joint.lower() for joint in pieces[1::2]]
    best, most = "", (False, False, 0, False)
    for first, last in combinations_with_replacement(range(len(parts)), 2):
        text = "".join(
            f" {joints[place - 1]} {parts[place]}" if place > first else parts[place] for place in range(first, last + 1)
        )
        text = _shortened(text) if first == last == 0 else text
        words = words_of(text)
        if not 0 < len(words.roots) <= MOST_ROOTS or not _speaks(text) or "between" in joints[last - 1 : last]:
            continue
        aside = first > 0 and joints[first - 1] in _ASIDE
        told = (len(parts) == 1 or not _is_meta(parts[first]), not aside, len(words.roots), bool(words.facts))
        if told > most:
            best, most = text, told
    return _noun(best)


def _is_meta(part: str) -> bool:
    words = [word for word in part.lower().split() if word not in FUNCTION_WORDS]
    return len(words) == 1 and words[0] in _WORDS["meta"]


def _shortened(phrase: str) -> str:
    """Its article, its names and its last words, as many as MOST_ROOTS allows."""
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
