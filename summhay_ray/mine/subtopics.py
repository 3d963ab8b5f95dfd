"""Groups insights into subtopics, each about one subject, and writes a question for each as a person would.

A subtopic is named by a noun phrase that its insights share. Its question depends on what else they share: that something failed,
changed or was decided, and when. No question reveals an insight of its subtopic.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from summhay_ray.mine.findings import is_verb
from summhay_ray.mine.statements import language_of
from summhay_ray.synth import leak, read_words
from summhay_ray.text import FUNCTION_WORDS, MONTHS, words_of

LARGEST = 12
"""Maximum insights of a subtopic: a summary has a bullet for each."""
_COMMON, _BROAD = 0.5, 3
"""A phrase in more than half of the insights belongs to the topic; one in more than three full subtopics is too broad."""
_MOST = 0.5
"""Share of a subtopic's insights from which its question asks about their kind (failures, changes, decisions)."""
_LONGEST = 3
"""Maximum words of a phrase that is not a name as a whole."""
_WORD = re.compile(r"[^\W\d_](?:[^\W_]|[.\-’'/](?=\w))*|\d[\w.]*|[^\w\s]")
_DESCRIBES = re.compile(r"(?:ly|ous|ive|able|ible|ful|less|ish|ized|ised|ary|ical|ant|ent|ing|ed|er than)$")
"""Word endings that usually do not end a noun phrase; "-ment" and such do."""
_ENDS_ONE = re.compile(
    r"(?:ment|event|agent|client|content|component|deployment|meeting|building|monitoring|processing|routing|training|testing)$"
)
_VAGUE_WORDS = """
    addition amount area aspect case change changes combination detail details document documents effort end example fact
    focus form future group impact instance issue issues item items kind level list lot need new number numbers one others
    part parts period place plan plans point problem problems process proposal question reason result results role section
    several side step steps team thing things time times top total type types use user users value values version way ways
    week work year years day days month months hour hours minute minutes percent people person person's today current
    previous next first second third last various itself themselves himself herself myself ourselves yourself everything
    something anything nothing everyone someone anyone different similar certain possible important significant major full
    further additional other same least
"""
_BROAD_WORDS = """
    access approach area areas argument arguments behavior behaviour code component components content contents data
    directory feature features field fields file files function functions goal goals idea information input item line loss
    method methods name names object objects option options output parameter parameters query reason risk section size
    support system systems text tool tools update updates variable variables
"""
_TOO_BROAD = frozenset(_BROAD_WORDS.split())
"""Words that many unrelated statements share: they are not enough for a subtopic."""
_DATES = (
    "monday tuesday wednesday thursday friday saturday sunday mondays fridays utc gmt cet cest est edt pst pdt jst today moreover"
)
_VAGUE = frozenset((*_VAGUE_WORDS.split(), *_DATES.split(), *map(str.lower, MONTHS)))
"""Words that do not name a subject on their own."""
_BREAK_WORDS = """
    above below around along across inside outside twice once again later soon already still ever itself themselves time times
    true false
"""
_BREAKS = frozenset(_BREAK_WORDS.split())
"""Words that are not part of a noun phrase, in addition to function words."""
_KINDS: tuple[tuple[str, str], ...] = (
    (
        r"fail\w*|outages?|incidents?|disrupt\w*|crash\w*|errors?|unavailable|degrad\w*|breach\w*|bugs?|vulnerabilit\w+|attackers?|leak\w*"
        r"|broke|broken|lost|loss(?:es)?|overload\w*|delay\w*|corrupt\w*|reject\w*|stop(?:s|ped)",
        "What went wrong with {}",
    ),
    (
        r"decid\w+|approv\w+|agree[ds]?|vot(?:e|ed|es|ing)|elect(?:ed|ion|ions)|consensus|resolved|ratif\w+|adopt(?:ed|s)",
        "What was decided about {}",
    ),
    (
        r"deprecat\w+|remov(?:ed|es)|replac(?:ed|es)|added|adds|introduc(?:ed|es)|renamed"
        r"|chang(?:ed|es)|(?:is|are) now|no longer|moved|dropped|upgrad\w+",
        "What has changed with {}",
    ),
    (r"must|shall|requir(?:ed|es)|needs? to|ha(?:s|ve) to", "What is required of {}"),
    (r"will|plan(?:s|ned|ning)?|expect(?:ed|s)|upcoming|schedul\w+|propos\w+|intend(?:s|ed)?", "What is planned for {}"),
)
"""Kinds that the insights of a subtopic may share: the words that show the kind, and the question about it."""
_ASKED = ("What is known about {}", "What else is known about {}")
_DID = {
    **{f"{verb}ed": verb for verb in ("fail", "crash", "return", "reject", "disappear", "restart", "overflow", "leak")},
    **{f"{verb}d": verb for verb in ("increase", "decrease", "decline", "resume", "degrade", "cease", "collapse")},
    "stopped": "stop",
    "dropped": "drop",
    "fell": "fall",
    "rose": "rise",
    "broke": "break",
    "went down": "go down",
}
"""Things that a subject does, so that one asks why."""
_EVENT = re.compile(
    r"\b(?:outage|incident|failure|disruption|breach|crash|attack|accident|collapse|crisis|strike|fire|flood|storm)s?$"
)
_PLACE = re.compile(r"\bin ((?:[A-Z][\w-]+)(?: [A-Z][\w-]+)?)\b")
_DATE = re.compile(rf"\b({'|'.join(MONTHS)})\s+(?:\d{{1,2}}(?:st|nd|rd|th)?,?\s+)?((?:19|20)\d\d)\b")
_SINGULAR = re.compile(r"[^s.]$|(?:ss|us|is)$")
_BODY = re.compile(
    r" (?:Agency|Bank|Board|Campaign|Commission|Committee|Conference|Council|Department|Foundation|Fund|Group|Initiative|Ministry"
    r"|Office|Program|Programme|Project|Summit|Team|Union|University)$"
)
"""Names of two words or more that take an article."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """A subtopic: its text, its query, and the indices of its insights."""

    text: str
    query: str
    places: tuple[int, ...]


def group_insights(insights: Sequence[str], topic: str) -> list[Grouped]:
    """Subtopics of insights that share a noun phrase, largest first; an insight that shares none is its own subtopic."""
    proper = _proper(insights)
    english = language_of(insights) == "english"
    phrases = [dict(_phrases(text, proper) if english else _words(text)) for text in insights]
    counts = Counter(key for found in phrases for key in found)
    surfaces: dict[tuple[str, ...], Counter[str]] = {}
    holders: dict[tuple[str, ...], list[int]] = {}
    for place, found in enumerate(phrases):
        for key, surface in found.items():
            surfaces.setdefault(key, Counter())[surface] += 1
            holders.setdefault(key, []).append(place)
    shown = {key: max(counted.items(), key=lambda item: (item[1], item[0]))[0] for key, counted in surfaces.items()}
    # A common noun that only two insights share ("server") is not enough for a subtopic: they are usually unrelated.
    least = {key: 3 if len(key) == 1 and surface == surface.lower() else 2 for key, surface in shown.items()}
    named = {key: n for key, n in counts.items() if shown[key] not in _TOO_BROAD}
    usable = {key for key, n in named.items() if least[key] <= n <= max(2, min(_COMMON * len(insights), _BROAD * LARGEST))}
    left = dict.fromkeys(range(len(insights)))
    remaining = Counter({key: len(holders[key]) for key in usable})
    order = {key: number for number, key in enumerate(sorted(usable))}

    def rank(key: tuple[str, ...]) -> tuple[float, int, int]:
        return -min(remaining[key], LARGEST) * _weight(key, shown[key]), counts[key], order[key]

    # The remaining insights of a phrase only decrease, so the phrase that comes first with its current rank is the best.
    waiting = [(rank(key), key) for key in usable]
    heapq.heapify(waiting)
    groups: list[tuple[list[tuple[str, ...]], list[int]]] = []
    while waiting:
        known, key = heapq.heappop(waiting)
        if remaining[key] < least[key]:
            continue
        if rank(key) != known:
            heapq.heappush(waiting, (rank(key), key))
            continue
        places = [place for place in holders[key] if place in left][:LARGEST]
        counted = Counter(other for place in places for other in phrases[place] if other != key)
        shared = [other for other, n in counted.most_common() if 2 * n >= len(places)]
        groups.append(([key, *sorted(shared, key=lambda other: -_weight(other, shown[other]))], places))
        for place in places:
            del left[place]
            remaining.subtract(phrases[place].keys() & usable)
        heapq.heappush(waiting, (rank(key), key))
    groups.sort(key=lambda group: -len(group[1]))
    for place in left:
        own = sorted(phrases[place], key=lambda key: (-_weight(key, shown[key]), -len(key), order.get(key, 0)))
        groups.append((own, [place]))
    used: set[str] = set()
    asked = []
    for keys, places in groups:
        own = sorted(phrases[places[0]], key=lambda key: -_weight(key, shown[key]))
        asked.append(
            _asked([shown[key] for key in keys], [shown[key] for key in own], [insights[place] for place in places], topic, used)
        )
    return [Grouped(text, query, tuple(places)) for (text, query), (_, places) in zip(asked, groups, strict=True)]


def _asked(names: Sequence[str], own: Sequence[str], texts: Sequence[str], topic: str, used: set[str]) -> tuple[str, str]:
    """A subject, and the first question about it that reveals none of the insights and that no other subtopic has.

    `names`: phrases that the insights share, best first; `own`: the phrases of one of them.
    """
    kinds = [ask for pattern, ask in _KINDS if _share(pattern, texts) > _MOST]
    when, where = _when(texts), _where(texts)
    events = [(name, ask) for name in names for ask in _events(name, texts)]
    pairs = [f"{names[0]} and {name}" for name in names[1:] if _apart(names[0], name)]
    about = [(name, ask) for name in (*names[:1], *pairs, *names[1:], *own, topic) for ask in (*kinds, *_ASKED)]
    first = ("", "")
    for subject, ask in (*events, *about):
        there = "" if where.removeprefix(" in ") in subject else where
        asked = ask.replace(" with ", " in ") if where and not there else ask
        for more in dict.fromkeys((f"{there}{when}", when, "")):
            query = f"{asked.format(_with_article(subject))}{more}?"
            found = f"{subject}{more}", query
            first = first if first[1] else found
            # A place and month that several insights share belong to the subtopic: a question with them reveals nothing.
            known = f"{topic}{more}" if len(texts) > 1 else topic
            if query not in used and not any(leak(query, text, known).found for text in texts):
                used.add(query)
                return found
    return first


def _events(subject: str, texts: Sequence[str]) -> Iterator[str]:
    """Questions about an event: what the subject did in most insights, or the event that is the subject."""
    did = re.compile(rf"\b{re.escape(subject)}(?: (?:in|at|on) [A-Z]\w+)?(?: \w+ly)? ({'|'.join(_DID)})\b", re.IGNORECASE)
    said = Counter(match[1].lower() for text in texts if (match := did.search(text)))
    if 2 * said.total() > len(texts):
        yield f"Why did {{}} {_DID[said.most_common(1)[0][0]]}"
    if _EVENT.search(subject) and " " in subject:
        yield "What happened in {}"


def _share(pattern: str, texts: Sequence[str]) -> float:
    said = re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)
    return sum(bool(said.search(text)) for text in texts) / len(texts)


def _when(texts: Sequence[str]) -> str:
    """The month shared by all insights that name one, if these are the majority: ` in July 2021`."""
    dates = [{" ".join(found) for found in _DATE.findall(text)} for text in texts]
    named = [found for found in dates if found]
    common = set.intersection(*named) if named else set()
    return f" in {min(common)}" if common and 2 * len(named) > len(texts) else ""


def _where(texts: Sequence[str]) -> str:
    """The place that all insights share: ` in Frankfurt`."""
    named = [{place for place in _PLACE.findall(text) if place.split()[0] not in MONTHS} for text in texts]
    common = set.intersection(*named)
    return f" in {min(common)}" if common else ""


def _apart(one: str, other: str) -> bool:
    """Whether two names have no word in common."""
    return not {word.lower() for word in one.split()} & {word.lower() for word in other.split()}


def _with_article(subject: str) -> str:
    """A noun phrase in the form used in a question: "the label printer", "badge readers", "Frankfurt"."""
    last = subject.split()[-1]
    if last.startswith("“"):
        return subject
    if _BODY.search(subject):
        return f"the {subject}"
    plain = last == last.lower() and not any(char.isdigit() or char == "." for char in last)
    return f"the {subject}" if plain and _SINGULAR.search(last) else subject


def _weight(key: tuple[str, ...], surface: str) -> float:
    """How well a phrase names a subject: names and phrases of several words say more than a single word."""
    return (1 + 0.6 * (len(key) - 1)) * (1.3 if surface != surface.lower() else 1.0)


def _proper(insights: Sequence[str]) -> set[str]:
    """Words that are usually capitalized: names. One that only begins sentences is a name if a verb follows it."""
    capital, small, first = Counter[str](), Counter[str](), set[str]()
    for text in insights:
        words = re.findall(r"[^\W\d_][\w-]*", text)
        for word in words[1:]:
            (small if word == word.lower() else capital)[word.lower()] += 1
        if len(words) > 2 and not words[0].endswith("s") and is_verb(words[1].lower(), words[0].lower(), words[2].lower()):
            first.add(words[0].lower())
    return {word for word, n in capital.items() if n > small[word]} | {word for word in first if not small[word]}


def _phrases(text: str, proper: set[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The noun phrases of a statement and their ends, longest first: (roots, the words)."""
    run: list[str] = []
    tokens = [*_WORD.findall(text), "."]
    for before, token, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        word = token.removesuffix("'s").removesuffix("’s")
        lower = word.lower()
        name = lower in proper or any(letter.isupper() for letter in word[1:])
        verb = not name and is_verb(lower, before.lower(), after.lower())
        breaks = (
            not word[0].isalpha() or lower in FUNCTION_WORDS or lower in _BREAKS or verb or any(mark in word for mark in "’'/")
        )
        # A name and the common noun before it are two phrases; after it they are one ("Redis cluster").
        if breaks or (run and name and run[-1] == run[-1].lower()):
            yield from _ends(run)
            run = []
        if not breaks:
            run.append(word if name else lower)
        if token != word or (not breaks and lower.endswith("ly")):
            yield from _ends(run)
            run = []


def _words(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The longer words of a statement in another language than English, in quotation marks."""
    found = words_of(text)
    longest = sorted({word for word in found if word.isalpha() and len(word) > 1}, key=lambda word: (-len(word), word))
    yield from (((word,), f"“{word}”") for word in longest[: max(3, len(longest) // 2)])


def _ends(run: Sequence[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The last three, two and one words of a run, if they name a subject."""
    if not run:
        return
    last = run[-1]
    plain = last == last.lower()
    if len(last) < 3 or (plain and _DESCRIBES.search(last) and not _ENDS_ONE.search(last)):
        return
    small = next((place for place, word in enumerate(reversed(run)) if word == word.lower()), len(run))
    for size in range(min(max(_LONGEST, small), len(run)), 0, -1):
        words = run[-size:]
        if words[0].lower() in _VAGUE or (size == 1 and (last.lower() in _VAGUE or (plain and len(last) < 4))):
            continue
        if words[0] == words[0].lower() and size > 1 and re.search(r"(?:ly|ing)$", words[0]):
            continue
        roots = tuple(root for word in words for root in read_words(word.lower()).roots)
        if roots:
            yield roots, " ".join(words)
