"""Part of the synth room's writer: invents subtopics, insights, conflicting insights, and queries. For the writer alone.

A subtopic is a theme joined to the topic's subject. Themes come from the domain, then from other domains, then from invented
names; apart from the subject, no two subtopics share a content word. An insight is a frame of the domain, filled with the topic's
subject, with words of its subtopic and with new facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TypeVar

from summhay_ray.synth.writer.grammar import DOMAINS, GENERIC, articles, outline_grammar, outlined
from summhay_ray.synth.writer.invention import Inventor
from summhay_ray.synth.writer.prompts import Given, read_input
from summhay_ray.synth.writer.sentences import DATE, NUMBER, complete, lower_start, words_of
from summhay_ray.synth.writer.subject import subject_of

_T = TypeVar("_T")
_SLOT = re.compile(r"\{(\w+)")
_BANKS = ("thing", "things", "doing", "who")
_DATE_OR_NUMBER = re.compile(rf"(?P<date>{DATE})|(?<![\w.,-])(?P<number>{NUMBER})(?![\w-])")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*")
_LONGEST_THEME = 4
"""Words taken from a subtopic that is not from a grammar."""

_TYPICAL = 20
"""The first themes of a grammar, which fit most topics; the others are used after these."""

_FEW = 4
"""With fewer other subtopics than this, frames are not reused."""

_MENTIONS = 3
"""One in three insights names the topic at length."""


@dataclass(frozen=True, slots=True)
class Theme:
    """A subtopic without its topic. `link`: the preposition before the topic; `banks`: phrases for its insights, a bank for each
    slot in _BANKS."""

    text: str
    link: str
    banks: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        """The short name: the text before `and`."""
        return self.text.split(" and ")[0].lower()


@cache
def themes(domain: str) -> tuple[Theme, ...]:
    """The themes of one of DOMAINS."""
    lines = outline_grammar(domain).lines
    return tuple(_theme(line) for line in lines.get("themes") or outline_grammar("news").lines["themes"])


def _theme(line: str) -> Theme:
    text_and_link, *banks = line.split(" | ")
    text, _, link = text_and_link.rpartition(" ")
    return Theme(text, link, tuple(tuple(bank.split("; ")) for bank in banks))


def subtopics(given: Given, rng: Random) -> list[dict[str, str]]:
    """`n` subtopics that share no content word with each other or with `avoid`, except for those of the topic."""
    wanted, subject = given.number("n"), subject_of(given.words("topic", ""))
    used = set().union(*(words_of(text).roots for text in given.texts("avoid"))) | subject.roots
    chosen: list[Theme] = []
    for theme in _candidates(given, rng):
        if len(chosen) == wanted:
            break
        roots = words_of(theme.text).roots
        if roots.isdisjoint(used):
            chosen.append(theme)
            used |= roots
    return [{"name": theme.name, "subtopic": f"{theme.text} {theme.link} {subject.core}"} for theme in chosen]


def _candidates(given: Given, rng: Random) -> Iterator[Theme]:
    own = outlined(given.domain)
    for domain in [own, *(other for other in (GENERIC, *DOMAINS) if other != own)]:
        listed = themes(domain)
        yield from _shuffled(rng, listed[:_TYPICAL])
        yield from _shuffled(rng, listed[_TYPICAL:])
    inventor = Inventor(rng, [*given.texts("avoid"), given.words("topic", "")])
    while True:
        yield _made_up(f"{inventor.place()} and {inventor.place()}", frozenset())


def _made_up(text: str, topic: frozenset[str]) -> Theme:
    """A theme for a subtopic that is not from a grammar. Its phrases are made of the subtopic's own words, if it has any."""
    plain = re.sub(rf"{DATE}|{NUMBER}|[^\w\s'’-]|_", " ", text)
    words = [word for word in plain.split() if words_of(word).roots]
    words = ([word for word in words if not words_of(word).roots <= topic] or words or ["the subject"])[:_LONGEST_THEME]
    first, last = words[0], words[-1]
    pairs = [(one, other) for one in words for other in words if one != other] or [(first, first)]
    both = [f"{one} and {other}" if one != other else one for one, other in pairs]
    return Theme(
        text,
        "at",
        (
            tuple(f"plan for {pair}" for pair in both) + tuple(f"notebook on {pair}" for pair in both),
            tuple(f"notes on {pair}" for pair in both) + tuple(f"questions about {pair}" for pair in both),
            tuple(f"dealing with {pair}" for pair in both),
            (f"specialist for {first}", f"expert on {last}"),
        ),
    )


def theme_of(subtopic: str, domain: str, topic: frozenset[str] = frozenset()) -> Theme:
    """The theme of a subtopic: a grammar's, the domain's own first; else one made of its words that are not in `topic`."""
    for name in (domain, *DOMAINS):
        for theme in themes(name):
            if subtopic == theme.text or subtopic.startswith(f"{theme.text} {theme.link} "):
                return theme
    return _made_up(subtopic, topic)


def insights(given: Given, rng: Random) -> list[dict[str, str]]:
    """`n` insights of one subtopic, with facts that no other insight of the topic has."""
    domain, wanted, topic = outlined(given.domain), given.number("n"), given.words("topic", "")
    subject = subject_of(topic)
    theme = theme_of(" ".join(given.text("subtopic").split()), domain, subject.roots)
    taken = [*given.texts("avoid"), *given.texts("participants"), topic, theme.text]
    for other in given.objects("others"):
        taken += [str(text) for text in other.get("insights", ())] if isinstance(other, dict) else [str(other)]
    inventor = Inventor(rng, taken, domain)
    grammar = outline_grammar(domain)
    frames = _shuffled(rng, grammar.lines["frames"])
    # Insights in the same frame look alike, which weighs more among few subtopics: they use frames that are new.
    fresh = [frame for frame in frames if not _says(frame, taken)]
    frames = fresh if len(given.objects("others")) < _FEW and len(fresh) >= wanted else frames
    phrases: dict[str, list[str]] = {}
    found = []
    for _ in range(wanted):
        frames = frames or _shuffled(rng, grammar.lines["frames"])
        frame = frames.pop()
        values = inventor.draw(_SLOT.findall(frame))
        name = next(iter(values.values()))
        values["subject"] = subject.mentions[int(rng.random() * _MENTIONS) % len(subject.mentions)]
        key = ""
        for slot, bank in zip(_BANKS, theme.banks, strict=True):
            if re.search(rf"{{{slot}\b", frame):
                left = phrases[slot] = phrases.get(slot) or _shuffled(rng, bank)
                values[slot] = left.pop()
                key = key or values[slot]
        found.append({"name": f"{key}, {name}", "insight": _filled(frame, values)})
    return found


def _says(frame: str, texts: Sequence[str]) -> bool:
    """Whether a text was probably made with the frame: it has the frame's longest part between slots."""
    part = max(_SLOT_WHOLE.split(frame.replace(":cap", ""))[::2], key=len)
    return any(part in text for text in texts)


def _shuffled(rng: Random, lines: Sequence[_T]) -> list[_T]:
    copy = list(lines)
    rng.shuffle(copy)
    return copy


def _filled(frame: str, values: dict[str, str]) -> str:
    text = frame.replace("{doing:cap}", "{doing}")
    return complete(articles(_SLOT_WHOLE.sub(lambda slot: values[slot.group(1)], text)))


_SLOT_WHOLE = re.compile(r"\{(\w+)\}")


def invented_insight(rng: Random, domain: str, taken: str) -> str:
    """An insight with facts that are not in the text `taken`. If that text is a prompt, the insight is about its topic."""
    listed = themes(outlined(domain))
    theme = listed[int(rng.random() * len(listed))]
    try:
        topic = str(read_input(taken).get("topic", ""))
    except LookupError:
        topic = ""
    fields = {"task": "insights", "topic": topic, "domain": domain, "subtopic": theme.text, "n": 1, "avoid": [taken]}
    given = Given(fields)
    return insights(given, rng)[0]["insight"]


def conflicting(given: Given, rng: Random) -> dict[str, str]:
    """The insight with another number, else another date, else another name; those of the topic stay.

    An insight without any of these gets a number.
    """
    insight = " ".join(given.text("insight").split())
    inventor = Inventor(rng, [insight], outlined(given.domain))
    name = f"otherwise: {' '.join(insight.split()[:4])}"
    return {"name": name, "insight": complete(_otherwise(insight, inventor, words_of(given.words("topic", "")).tokens))}


def _otherwise(insight: str, inventor: Inventor, topic: frozenset[str]) -> str:
    spans = [span for span in _DATE_OR_NUMBER.finditer(insight) if not words_of(span.group()).tokens <= topic]
    numbers = [span for span in spans if span.group("number")]
    for span in numbers or spans:
        new = inventor.like(span.group()) if numbers else inventor.like_date(span.group())
        return insight[: span.start()] + new + insight[span.end() :]
    for name in _NAME.finditer(insight):
        if words_of(name.group()).tokens <= topic:
            continue
        new = inventor.person() if " " in name.group() else inventor.place()
        return insight[: name.start()] + new + insight[name.end() :]
    return f"{insight.rstrip('.!? ')}, in {inventor.count()} cases"


def query(given: Given, rng: Random) -> dict[str, str]:
    """A question in the subtopic's words, without its numbers and without facts of its insights, unless the topic has them."""
    subtopic = " ".join(given.text("subtopic").split()).rstrip(".!?:; ")
    words, shared = words_of(subtopic), words_of(given.words("topic", "")).tokens
    facts = set().union(*(words_of(text).facts for text in given.texts("avoid"))) - shared
    theme = lower_start(subtopic)
    if theme is None:
        ours = any(subtopic.startswith(f"{theme.text} ") for domain in DOMAINS for theme in themes(domain))
        theme = subtopic[:1].lower() + subtopic[1:] if ours else subtopic
    if not facts.isdisjoint(words.tokens) or any(token[0].isdigit() and token not in shared for token in words.tokens):
        kept = [word for word in theme.split() if _unsaid(word, facts, shared)]
        while kept and not words_of(kept[-1]).roots:
            kept.pop()
        theme = " ".join(kept) or "this subtopic"
    return {"query": outline_grammar(outlined(given.domain)).say(rng, "queries", {"theme": theme or "this subtopic"})}


def _unsaid(word: str, facts: set[str], shared: frozenset[str]) -> bool:
    """Whether the word has no fact of an insight, and no number unless it is `shared`."""
    tokens = words_of(word).tokens
    return tokens.isdisjoint(facts) and (tokens <= shared or not any(map(str.isdigit, word)))
