"""The local model `offline/writer`, which answers all prompts of a synthesis from templates.

A subtopic is a theme of three things, and the topic. An insight has a time, a person or firm, an action with a number of things,
and a result. Its numbers and names are in no other insight. A document states its insights among filler, which has neither
numbers nor names. The offline checks answer the prompts of checks. The templates are in `templates.yaml`. `making/documents.py`
describes how models are asked to write documents.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import combinations
from typing import Any, ClassVar

from summhay_ray.llm import Request
from summhay_ray.synth.checking.outline_checks import assigned, leak, overlap, same_insight
from summhay_ray.synth.checking.presence import Presence
from summhay_ray.synth.checking.words import read
from summhay_ray.synth.making.kinds import Input
from summhay_ray.synth.making.outline import seeded
from summhay_ray.synth.making.prompting import read_input
from summhay_ray.text import FUNCTION_WORDS, MONTHS, first_tokens, plain_words, sentences
from summhay_ray.yaml_text import load

_Banks = Mapping[str, Sequence[str]]
"""Name of a bank -> its alternatives."""

_TRIES = 50
"""Maximum number of attempts to draw an unused fact, and to invent each theme, since a range may be exhausted."""
_WORDS, _TOKENS = 12, 60
"""Maximum words and tokens of a topic that a sentence repeats."""
_SPLIT = (0.0, 0.1, 0.5, 1.0)
"""Paraphrase level -> probability that an insight's facts are spread over several sentences."""
_ABOUT = 0.1
"""Probability that a sentence of filler is about the topic."""
_SHORTEST = 6
"""Number of words of the shortest filler sentence."""
_QUOTED = 3
"""Minimum number of words of both a sentence and the evidence. If one is shorter, they do not match, even if one contains the
other."""

_JOINT = " with regard to "
_SLOT = re.compile(r"\{(\w+)\}")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_YEAR = re.compile(r"(?:19|20)\d\d")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][\w'’-]+")
_PARTS = re.compile(
    r"(?:(?P<when>(?:In|On|By|Since|Until) [^,]*\d{4}), )?(?P<main>.+?)"
    r"(?:, (?P<link>which|so that|after|although|because|while) (?P<rest>(?:[^,]|,(?=\d))+?))?(?P<end>[.!?]?)"
)
"""Matches a statement as a time, a main clause and a last clause. Any text has a main clause."""
_LINKS = {
    "which": "This",
    "so that": "As a result,",
    "after": "Before that,",
    "although": "Still,",
    "because": "The reason was that",
    "while": "Meanwhile,",
}
"""Beginning of the last clause if it becomes a separate sentence."""
_NO_NAME = re.compile(r"\A(The|An?|In|On|At|Its?|This|These|They|There|After|Some|Many|Most|By|Since|For|With)(?= )")
"""Matches a first word that becomes lower-case within a sentence."""


@cache
def _templates() -> tuple[_Banks, Mapping[str, _Banks]]:
    """Load the banks of all domains, and all banks of each domain, with the domain's own themes first."""
    raw = load(resources.files("summhay_ray.synth").joinpath("templates.yaml").read_text(encoding="utf-8"))
    domains = raw.pop("domains")
    shared = {name: tuple(text if isinstance(text, list) else text.splitlines()) for name, text in raw.items()}
    own = {name: {bank: tuple(text.splitlines()) for bank, text in banks.items()} for name, banks in domains.items()}
    return shared, {name: {**shared, **banks, "themes": banks["themes"] + shared["themes"]} for name, banks in own.items()}


def _banks(given: Input, spoken: bool = False) -> _Banks:
    domains = _templates()[1]
    return domains["conversation" if spoken else given["domain"] if given.get("domain") in domains else "generic"]


def _texts(listed: Any) -> list[str]:
    """Return the texts in a list of an input, whose entries are texts or objects with a text."""
    return [entry["text"] if isinstance(entry, dict) else entry for entry in listed]


class _Facts:
    """Draws numbers and names that do not occur in an input, each only once."""

    def __init__(self, rng: random.Random, given: Any) -> None:
        self._rng, self._taken = rng, json.dumps(given, ensure_ascii=False).lower()

    def draw(self, kind: str) -> str:
        """Draw a fact of a kind: when, person, firm, town, money, percent, days or count."""
        rng, banks = self._rng, _templates()[0]
        if kind == "when":
            month = f"{rng.choice(MONTHS)} {rng.randint(1995, 2023)}"
            return f"On {rng.randint(13, 28)} {month}" if rng.random() < 0.3 else f"In {month}"
        make: dict[str, Callable[[], str]] = {
            "money": lambda: f"${rng.randint(1013, 98989):,}",
            "percent": lambda: f"{rng.randint(13, 78)}.{rng.randint(1, 9)} percent",
            "days": lambda: f"{rng.randint(113, 998)} days",
            "count": lambda: f"{rng.randint(1013, 98989):,}",
        }
        if kind in make:
            return self._new(make[kind], lambda value: value.split()[0].lstrip("$"))
        # The checks compare only the first five letters of a word.
        name = self._new(lambda: rng.choice(banks["start"]) + rng.choice(banks["end"]), lambda value: value[:5])
        first, last = rng.choice(banks["first"]), rng.choice(banks["kind"])
        return {"town": name, "person": f"{first} {name}", "firm": f"{name} {last}"}[kind]

    def like(self, number: str) -> str:
        """Return a different number of the same form; for a year, one near it."""
        if _YEAR.fullmatch(number):
            return str(int(number) + self._rng.choice((-3, -2, -1, 1, 2, 3)))
        return self._new(lambda: re.sub(r"\d", lambda sign: str(self._rng.randint(not sign.start(), 9)), number), str)

    def _new(self, make: Callable[[], str], mark: Callable[[str], str]) -> str:
        for _ in range(_TRIES):
            value = make()
            if mark(value).lower() not in self._taken:
                break
        self._taken += f" {value.lower()}"
        return value


def _subtopics(given: Input, rng: random.Random) -> Any:
    """Invent `n` subtopics of three things each, which share only words of the topic.

    If `avoid` has subtopics, each new one shares a thing with one of them. These later subtopics distract from the earlier ones,
    which have queries.
    """
    topic, avoid, found = given.get("topic", ""), _texts(given.get("avoid", ())), list[dict[str, str]]()
    used = set(read(topic).roots).union(*(read(text).roots for text in avoid))
    near = [thing for text in avoid for thing in _theme(text) if thing.islower() and " " not in thing]
    for theme in _themes(given, rng):
        if len(found) == given["n"]:
            break
        if used.isdisjoint(roots := read(theme).roots):
            used.update(roots)
            theme = f"{theme.rpartition(' and ')[0]} and {rng.choice(near)}" if near else theme
            found.append({"name": theme.split(",")[0], "subtopic": theme[0].upper() + theme[1:] + _JOINT + _subject(topic)})
    return {"subtopics": found}


def _themes(given: Input, rng: random.Random) -> Iterator[str]:
    """Yield the domain's themes, then those of all domains, in random order, and then invented ones."""
    shared, listed = _templates()[0]["themes"], _banks(given)["themes"]
    for themes in (listed[: -len(shared)], shared):
        yield from rng.sample(themes, len(themes))
    facts = _Facts(rng, given)
    for _ in range(_TRIES * given["n"]):
        yield "{}, {} and {}".format(*(facts.draw("town") for _ in range(3)))


def _subject(topic: str) -> str:
    """Return the topic as part of a sentence: shortened if it is long, and in quotation marks unless it is clearly a phrase."""
    text = first_tokens(" ".join(topic.replace('"', "'").split()[:_WORDS]), _TOKENS).rstrip(".!?:;, ") or "the subject"
    first, _, rest = text.partition(" ")
    text = f"{first.lower()} {rest}" if rest and first in ("The", "A", "An", "Our", "My") else text
    return text if text[0].islower() else f'"{text}"'


def _theme(subtopic: str) -> list[str]:
    """Return the three things of a subtopic that was made here; nothing for any other subtopic."""
    theme, mark, _ = subtopic.partition(_JOINT)
    things = re.split(", | and ", theme) if mark else []
    if len(things) == 3 and things[1][:1].islower():
        things[0] = things[0][:1].lower() + things[0][1:]
    return things if len(things) == 3 else []


def _insights(given: Input, rng: random.Random) -> Any:
    """Invent `n` insights about things of the subtopic, or in its words. Their numbers and names do not occur in the input."""
    subtopic, known = " ".join(given["subtopic"].split()), FUNCTION_WORDS.union(plain_words(given.get("topic", "")))
    own = [word for word in plain_words(subtopic) if word.isalpha() and word not in known][:4]
    things = [f"{one} and {other}" for one, other in combinations(_theme(subtopic), 2)]
    things = things or [f"questions about {one} and {other}" for one, other in combinations(own, 2)] or ["questions about it"]
    facts = _Facts(rng, given)
    return {"insights": [_insight(rng, facts, rng.choice(things)) for _ in range(given["n"])]}


def _insight(rng: random.Random, facts: _Facts, things: str) -> dict[str, str]:
    banks = _templates()[0]
    who, result = facts.draw(rng.choice(("person", "firm", "town"))), rng.choice(banks["result"])
    main = f"{facts.draw('when')}, {who} {rng.choice(banks['did'])} {facts.draw('count')} {things}"
    insight = f"{main}, {_SLOT.sub(lambda slot: facts.draw(slot[1]), result)}."
    return {"name": f"{things.split()[-1]}, {who}", "insight": insight}


def invented_insight(rng: random.Random, prompt: str) -> str:
    """Invent an insight with numbers and names that are not in the prompt."""
    return _insight(rng, _Facts(rng, prompt), "questions and remarks")["insight"]


def _conflicting(given: Input, rng: random.Random) -> Any:
    """Return the insight with its longest number changed, unless the topic has that number. If there is none, change a name or
    add a number."""
    insight, topic, facts = " ".join(given["insight"].split()), given.get("topic", ""), _Facts(rng, given)
    numbers, names = ([one for one in kind.finditer(insight) if one[0] not in topic] for kind in (_NUMBER, _NAME))
    if numbers or names:
        old = max(numbers, key=lambda one: (not _YEAR.fullmatch(one[0]), len(one[0]))) if numbers else names[0]
        new = facts.like(old[0]) if numbers else facts.draw("town")
        text = insight[: old.start()] + new + insight[old.end() :]
    else:
        text = f"{insight.rstrip('.!? ')}, in {facts.draw('count')} cases."
    return {"name": f"otherwise: {' '.join(insight.split()[:4])}", "insight": text}


def _query(given: Input, rng: random.Random) -> Any:
    subtopic = " ".join(given["subtopic"].split()).rstrip(".!?:; ")
    theme = (_theme(subtopic) or [subtopic])[0][:1] + subtopic[1:]
    return {"query": rng.choice(_banks(given)["query"]).replace("{theme}", theme)}


def _state_insight(insight: str, level: int, banks: _Banks, rng: random.Random) -> str:
    """Return the insight at a paraphrase level, on one line. Numbers and names stay as they are."""
    text = " ".join(insight.split())
    listed = sentences(text)
    return " ".join(_restated(one, level, len(listed) == 1, banks, rng) for one in listed) if level else text


def _restated(sentence: str, level: int, may_split: bool, banks: _Banks, rng: random.Random) -> str:
    parts = _PARTS.fullmatch(sentence)
    if parts is None:
        return sentence
    when, main, link, rest, end = (part or "" for part in parts.group("when", "main", "link", "rest", "end"))
    if level > 1:
        synonyms = dict(line.split(": ") for line in banks["other_words"])
        main, rest = (
            re.sub(r"(?<![\w-])[a-z]+(?![\w'’-])", lambda word: rng.choice(synonyms.get(word[0], word[0]).split(", ")), part)
            for part in (main, rest)
        )
    time = when[:1].lower() + when[1:]
    if rng.random() < 0.5:
        main = f"{rng.choice(banks['lead'])} {_NO_NAME.sub(lambda first: first[0].lower(), main)}"
    main = main[:1].upper() + main[1:]
    if may_split and link and rng.random() < _SPLIT[level]:
        return " ".join([f"{main}.", *([f"That was {time}."] if time else []), f"{_LINKS[link]} {rest}{end}"])
    return main + (f" {time}" if time else "") + (f", {link} {rest}" if link else "") + end


def _fill_template(line: str, banks: _Banks, rng: random.Random) -> str:
    """Fill each slot of a template with a line of the bank. A capitalized slot gets a capital."""

    def slot(name: re.Match[str]) -> str:
        text = rng.choice(banks[name[1].lower()])
        return text[:1].upper() + text[1:] if name[1][0].isupper() else text

    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", _SLOT.sub(slot, line))


def _document(given: Input, rng: random.Random) -> str:
    """Write a text of about `words` words (or as long as needed) that states each of `insights`, or one `insight`. In a document
    written in chapters, only the first chapter has an opening. Participants speak in turn."""
    speakers, before, subject = given.get("participants"), given.get("before", "").strip(), _subject(given.get("topic", ""))
    banks = {**_banks(given, bool(speakers)), "topic": (subject,)}
    listed = _texts(given["insights"] if "insights" in given else [given["insight"]])
    said = [_state_insight(text, given["paraphrase"], banks, rng) for text in listed if text.strip()]
    named = [("dated", given["date"])] if given.get("date") else []
    named += [("reference", reference["date"]) for reference in given.get("references", ())]
    about = [line.replace("{matter}", "{matter} around {topic}") for line in banks["say"] if "{matter}" in line]
    about = [] if _NUMBER.search(subject) else about
    head = [] if before else [_fill_template(rng.choice(banks["opening" if about else "say"]), banks, rng)]
    for bank, iso in named:
        year, month, day = map(int, iso.split("-"))
        head.append(rng.choice(banks[bank]).replace("{date}", f"{day} {MONTHS[month - 1]} {year}"))
    name, body = 0.5 if speakers else 0.0, list[str]()
    left = given["words"] - sum(len(text.split()) + name for text in (*said, *head))
    while left > _SHORTEST:
        body.append(_fill_template(rng.choice(about if about and rng.random() < _ABOUT else banks["say"]), banks, rng))
        left -= len(body[-1].split()) + name
    for place, text in zip(sorted((rng.randint(0, len(body)) for _ in said), reverse=True), reversed(said), strict=True):
        body.insert(place, text)
    if not speakers:
        return "\n\n".join(_join_units([*head, *body], 3, 6, rng))
    start, turns = rng.randrange(len(speakers)), _join_units([*head, *body], 1, 3, rng)
    return "\n".join(f"{speakers[(start + place) % len(speakers)]}: {turn}" for place, turn in enumerate(turns))


def _join_units(units: Sequence[str], least: int, most: int, rng: random.Random) -> list[str]:
    """Join the units into paragraphs or turns of `least` to `most` units each."""
    found, place = list[str](), 0
    while place < len(units):
        size = rng.randint(least, most)
        found.append(" ".join(units[place : place + size]))
        place += size
    return found


def _edit_document(given: Input, rng: random.Random) -> str:
    """Return the document without the sentences that state an insight of `remove`, and with sentences for those of `add`. The
    rest is unchanged."""
    lines, speakers = given["document"].splitlines(), given.get("participants") or []
    for entry in given.get("remove", ()):
        lines = _remove_evidence(lines, entry.get("evidence", ""), speakers)
        sought = Presence([entry["text"]])
        # A document may state an insight more than once.
        for _ in range(4):
            if (found := sought.find("\n".join(lines))[0]).found:
                lines = _remove_evidence(lines, found.evidence, speakers)
    for text in _texts(given.get("add", ())):
        said = _state_insight(text, given["paraphrase"], _banks(given, bool(speakers)), rng)
        if prose := [place for place, line in enumerate(lines) if line.endswith((".", "!", "?"))]:
            lines[rng.choice(prose)] += f" {said}"
        else:
            lines.append(said)
    return "\n".join(lines)


def _remove_evidence(lines: Sequence[str], evidence: str, speakers: Sequence[str]) -> list[str]:
    """Remove the sentences that are in the evidence, or that contain it. Lines with no other sentence are dropped."""
    shown, kept = f" {' '.join(plain_words(evidence))} ", list[str]()

    def shows(sentence: str) -> bool:
        words = f" {' '.join(plain_words(sentence))} "
        return min(len(words.split()), len(shown.split())) >= _QUOTED and (words in shown or shown in words)

    for line in lines:
        speaker = next((f"{name}: " for name in speakers if line.startswith(f"{name}: ")), "")
        every = sentences(line[len(speaker) :])
        left = [sentence for sentence in every if not shows(sentence)]
        if left or not every:
            kept.append(line if len(left) == len(every) else speaker + " ".join(left))
    return kept


def _same(given: Input, name: str, alike: Callable[[str, str], bool]) -> list[list[int]]:
    return [[one["id"], other["id"]] for one, other in combinations(given[name], 2) if alike(one["text"], other["text"])]


def _assigned(given: Input, rng: random.Random) -> Any:
    place, _ = assigned(given["insight"], _texts(given["subtopics"]))
    return {"subtopic": None if place is None else given["subtopics"][place]["id"]}


def _leaked(given: Input, rng: random.Random) -> Any:
    known = f"{given['subtopic']} {given.get('topic', '')}"
    return {"leaked": [one["id"] for one in given["insights"] if leak(given["query"], one["text"], known).found]}


def _find_insights(given: Input, text: str) -> list[tuple[float, int, str]]:
    """Return score, id and evidence of each insight that the text states."""
    findings = zip(given["insights"], Presence(_texts(given["insights"])).find(text), strict=True)
    return [(finding.score, one["id"], finding.evidence) for one, finding in findings if finding.found]


_ANSWERS: Mapping[str, Callable[[Input, random.Random], Any]] = {
    "subtopics": _subtopics,
    "insights": _insights,
    "conflicting_insight": _conflicting,
    "query": _query,
    "document": _document,
    "chapter": _document,
    "edit_document": _edit_document,
    "overlapping_subtopics": lambda given, _: {
        "overlaps": _same(given, "subtopics", lambda one, other: overlap(one, other, given.get("topic", "")).found)
    },
    "duplicate_insights": lambda given, _: {
        "duplicates": _same(given, "insights", lambda one, other: same_insight(one, other).found)
    },
    "assign_subtopic": _assigned,
    "query_leaks": _leaked,
    "chapter_check": lambda given, _: {"insight": max(_find_insights(given, given["chapter"]), default=(0.0, None))[1]},
    "insights_present": lambda given, _: {
        "present": [{"id": place, "evidence": words} for _, place, words in _find_insights(given, given["document"])]
    },
}


class OfflineWriter:
    """The local model `offline/writer` (llm.LocalModel), which invents outlines, writes documents from templates, and checks by
    words.

    It reads only the `Input:` of a prompt. The same prompt and sample get the same answer on every machine. Its inventions and
    filler are English; insights are in the language of the input.
    """

    name: ClassVar[str] = "offline/writer"
    revision: ClassVar[str] = "5"

    def answer(self, request: Request) -> str:
        """Return the answer to a prompt of the synthesis: a document's text, or JSON. Raise LookupError if the prompt has no
        input, no known task, or lacks a field of its task."""
        given = read_input(request.prompt)
        try:
            answer = _ANSWERS[given["task"]](given, seeded(request.prompt, request.sample))
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise LookupError(f"the input of task {given['task']} lacks a field or has one of a wrong type: {error!r}") from error
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
