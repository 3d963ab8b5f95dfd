"""Part of the synth room's writer: invents subtopics, insights, their other side, and queries. For the writer alone.

Subtopics come from the domain's themes, then from the other domains', then from invented names; no two share a word that says
what they are about. An insight is a frame of the domain, filled with words of its subtopic and with fresh facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from summhay_ray.synth.writer.grammar import DOMAINS, GENERIC, articles, known, outline_grammar
from summhay_ray.synth.writer.invention import Inventor
from summhay_ray.synth.writer.prompts import Given
from summhay_ray.synth.writer.sentences import DATE, NUMBER, complete, lower_start, words_of

_SLOT = re.compile(r"\{(\w+)")
_BANKS = ("thing", "things", "doing", "who")
_DATE_OR_NUMBER = re.compile(rf"(?P<date>{DATE})|(?<![\w.,-])(?P<number>{NUMBER})(?![\w-])")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*")
_LONGEST_THEME = 4
"""Words that are taken from a subtopic of somebody else's."""


@dataclass(frozen=True, slots=True)
class Theme:
    """A subtopic, and the words that its insights are made of: a bank for each of thing, things, doing and who."""

    text: str
    banks: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        """The short name: what stands before `and`."""
        return self.text.split(" and ")[0].lower()


@cache
def themes(domain: str) -> tuple[Theme, ...]:
    """The themes of one of DOMAINS."""
    return tuple(_theme(line) for line in outline_grammar(domain).lines["themes"])


def _theme(line: str) -> Theme:
    text, *banks = line.split(" | ")
    return Theme(text, tuple(tuple(bank.split("; ")) for bank in banks))


def subtopics(given: Given, rng: Random) -> list[dict[str, str]]:
    """`n` subtopics that share no word that says what they are about, with each other or with `avoid`."""
    wanted = given.number("n")
    used = set().union(*(words_of(text).roots for text in given.texts("avoid")))
    found: list[Theme] = []
    for theme in _candidates(given, rng):
        if len(found) == wanted:
            break
        roots = words_of(theme.text).roots
        if roots.isdisjoint(used):
            found.append(theme)
            used |= roots
    return [{"name": theme.name, "subtopic": theme.text} for theme in found]


def _candidates(given: Given, rng: Random) -> Iterator[Theme]:
    own = known(given.domain)
    for domain in [own, *(other for other in (GENERIC, *DOMAINS) if other != own)]:
        shuffled = list(themes(domain))
        rng.shuffle(shuffled)
        yield from shuffled
    inventor = Inventor(rng, [*given.texts("avoid"), given.words("topic", "")])
    while True:
        yield _made_up(f"{inventor.place()} and {inventor.place()}")


def _made_up(text: str) -> Theme:
    """A theme for a subtopic that is none of ours: its insights speak of its words."""
    plain = re.sub(rf"{DATE}|{NUMBER}|[^\w\s'’-]|_", " ", text)
    words = [word for word in plain.split() if words_of(word).roots][:_LONGEST_THEME] or ["the subject"]
    first, last = words[0], words[-1]
    pairs = [(one, other) for one in words for other in words if one != other] or [(first, first)]
    both = [f"{one} and {other}" if one != other else one for one, other in pairs]
    return Theme(
        text,
        (
            tuple(f"plan for {pair}" for pair in both) + tuple(f"notebook on {pair}" for pair in both),
            tuple(f"notes on {pair}" for pair in both) + tuple(f"questions about {pair}" for pair in both),
            tuple(f"dealing with {pair}" for pair in both),
            (f"specialist for {first}", f"expert on {last}"),
        ),
    )


def theme_of(subtopic: str, domain: str) -> Theme:
    """The theme that `subtopic` is the text of, its own domain's before the others'; else one made of its words."""
    for name in (domain, *DOMAINS):
        for theme in themes(name):
            if theme.text == subtopic:
                return theme
    return _made_up(subtopic)


def insights(given: Given, rng: Random) -> list[dict[str, str]]:
    """`n` insights of one subtopic, with facts that no other insight of the topic has."""
    domain, wanted = known(given.domain), given.number("n")
    theme = theme_of(given.text("subtopic"), domain)
    taken = [*given.texts("avoid"), *given.texts("participants"), given.words("topic", ""), theme.text]
    for other in given.objects("others"):
        taken += [str(text) for text in other.get("insights", ())] if isinstance(other, dict) else [str(other)]
    inventor = Inventor(rng, taken, domain)
    grammar = outline_grammar(domain)
    frames: list[str] = []
    phrases: dict[str, list[str]] = {}
    found = []
    for _ in range(wanted):
        frames = frames or _shuffled(rng, grammar.lines["frames"])
        frame = frames.pop()
        values = inventor.draw(_SLOT.findall(frame))
        key = ""
        for slot, bank in zip(_BANKS, theme.banks, strict=True):
            if re.search(rf"{{{slot}\b", frame):
                left = phrases[slot] = phrases.get(slot) or _shuffled(rng, bank)
                values[slot] = left.pop()
                key = key or values[slot]
        found.append({"name": f"{key}, {next(iter(values.values()))}", "insight": _filled(frame, values)})
    return found


def _shuffled(rng: Random, lines: Sequence[str]) -> list[str]:
    copy = list(lines)
    rng.shuffle(copy)
    return copy


def _filled(frame: str, values: dict[str, str]) -> str:
    text = frame.replace("{doing:cap}", "{doing}")
    return complete(articles(_SLOT_WHOLE.sub(lambda slot: values[slot.group(1)], text)))


_SLOT_WHOLE = re.compile(r"\{(\w+)\}")


def invented_insight(rng: Random, domain: str, taken: str) -> str:
    """An insight that nobody asked for, with facts that the text `taken` does not hold."""
    theme = themes(known(domain))[int(rng.random() * len(themes(known(domain))))]
    given = Given({"task": "insights", "domain": domain, "subtopic": theme.text, "n": 1, "avoid": [taken]})
    return insights(given, rng)[0]["insight"]


def conflicting(given: Given, rng: Random) -> dict[str, str]:
    """The insight with another number, else another date, else another name; an insight without any gets a number."""
    insight = " ".join(given.text("insight").split())
    inventor = Inventor(rng, [insight], known(given.domain))
    name = f"otherwise: {' '.join(insight.split()[:4])}"
    return {"name": name, "insight": complete(_otherwise(insight, inventor))}


def _otherwise(insight: str, inventor: Inventor) -> str:
    spans = list(_DATE_OR_NUMBER.finditer(insight))
    numbers = [span for span in spans if span.group("number")]
    for span in numbers or spans:
        new = inventor.like(span.group()) if numbers else inventor.like_date(span.group())
        return insight[: span.start()] + new + insight[span.end() :]
    for name in _NAME.finditer(insight):
        new = inventor.person() if " " in name.group() else inventor.place()
        return insight[: name.start()] + new + insight[name.end() :]
    return f"{insight.rstrip('.!? ')}, in {inventor.count()} cases"


def query(given: Given, rng: Random) -> dict[str, str]:
    """A question for the subtopic, in its words; a number or a name of an insight that it holds is left out."""
    subtopic = " ".join(given.text("subtopic").split()).rstrip(".!?:; ")
    words = words_of(subtopic)
    facts = set().union(*(words_of(text).facts for text in given.texts("avoid")))
    theme = lower_start(subtopic)
    if theme is None:
        theme = subtopic[:1].lower() + subtopic[1:] if theme_of(subtopic, GENERIC).banks[0][0][:8] != "plan for" else subtopic
    if not facts.isdisjoint(words.tokens) or words.facts & {token for token in words.tokens if token[0].isdigit()}:
        kept = [word for word in theme.split() if words_of(word).tokens.isdisjoint(facts) and not any(map(str.isdigit, word))]
        theme = " ".join(kept) or "this subtopic"
    return {"query": outline_grammar(known(given.domain)).say(rng, "queries", {"theme": theme or "this subtopic"})}
