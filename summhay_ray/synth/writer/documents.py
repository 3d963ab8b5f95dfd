"""Part of the synth room's writer: writes documents and chapters that state insights. For the writer alone.

A document is insights, each at the requested paraphrase level, among filler from the domain's grammar. Filler has no numbers,
dates or names; it has words of the topic only where they give no insight away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date as Date
from random import Random

from summhay_ray.synth.writer.grammar import Grammar, Voice, filler_grammar, known, meant, name_banks
from summhay_ray.synth.writer.paraphrase import restate
from summhay_ray.synth.writer.prompts import Given
from summhay_ray.synth.writer.sentences import count, speaker_of, words_of
from summhay_ray.synth.writer.subject import FALLBACK, subject_of
from summhay_ray.text import MONTHS

_LONGEST_TOPIC = 25
"""Words of a topic that a document may name."""
_LONGEST_QUOTE = 30
"""Words of a headline that a document may quote."""
_MOST_FILLER = 5000
"""Sentences: more than any sensible document has. Bounds the cost of an absurd `words`."""
_COUNTED = (
    "one two three four five six seven eight nine ten eleven twelve dozen hundred thousand million billion first second third"
)
_SHORTEST = 6
"""Words of the shortest filler sentence."""
_MISFITS = 12
"""Sentences drawn that are too long, after which the filler ends."""
_OF_THE_TOPIC = 1 / 6
"""Share of the filler that names the topic's subject, where this gives no insight away."""

_OWN_FACTS = 2
"""Least facts that an insight has beyond those of the topic, for the topic not to give it away."""
_NUMBER_WORDS = frozenset(_COUNTED.split())


def form_of(given: Given) -> str:
    """The domain whose grammar is used: the input's own, else the one named by its genre or domain, else by its participants."""
    if known(given.domain) == given.domain:
        return given.domain
    form = meant(given.words("genre", "")) or meant(given.domain)
    if form:
        return form
    return "conversation" if given.texts("participants") else "generic"


def document(given: Given, rng: Random) -> str:
    """A document of about `words` words that states each of `insights`; longer if these alone are longer."""
    writing = _Writing(given, rng, given.texts("insights", required=True))
    return writing.turns(writing.opening(), closing=True) if writing.spoken else writing.text()


def chapter(given: Given, rng: Random) -> str:
    """A few turns, or a paragraph, of about `words` words that state `insight`. The first chapter has the document's opening."""
    insight = given.text("insight")
    writing = _Writing(given, rng, [insight] if insight.strip() else [])
    first = not given.words("before", "").strip()
    return writing.turns(writing.opening() if first else [], closing=False) if writing.spoken else writing.text(whole=first)


def stated(insights: Sequence[str], given: Given, rng: Random, voice: Voice | None = None) -> list[str]:
    """Each insight at the requested paraphrase level."""
    level = given.number("paraphrase")
    ways = voice or Voice(filler_grammar(form_of(given)), rng)
    topic = words_of(given.words("topic", "")).tokens
    return [said for insight in insights if (said := restate(insight, level, ways, rng, topic))]


def readable_date(iso: str) -> str:
    """2024-03-03 as 3 March 2024; any other text unchanged but for its blanks."""
    try:
        day = Date.fromisoformat(iso.strip())
    except ValueError:
        return " ".join(iso.split())
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


@dataclass(slots=True)
class _Unit:
    """All sentences that state one insight; they stay together."""

    text: str
    words: int


class _Writing:
    """One text being written."""

    def __init__(self, given: Given, rng: Random, insights: list[str]) -> None:
        self._given, self._rng, self._insights = given, rng, insights
        self._form = form_of(given)
        self._grammar: Grammar = filler_grammar(self._form)
        self._voice = Voice(self._grammar, rng)
        self._wanted = given.number("words")
        self._stated = [_Unit(text, count(text)) for text in stated(insights, given, rng, self._voice)]
        self._shown = self._topic()
        subject = subject_of(self._shown)
        self._subject = {"subject": subject.core} if self._shown and subject.core != FALLBACK else {}
        self.spoken = self._form == "conversation"

    def opening(self) -> list[str]:
        """The beginning of the text: its subject, its date, its references, each in a sentence or two."""
        topic = self._shown
        bank = "topic_opening" if topic and self._grammar.has("topic_opening") else "opening"
        opening = [self._voice.say(bank, {"topic": topic})]
        return opening + (self._dated() if self.spoken else []) + self._references()

    def text(self, whole: bool = True) -> str:
        """Paragraphs under a headline; without `whole`, a part from the middle of a document."""
        if not whole:
            return "\n\n".join(self._paragraphs(self._body(0, [])))
        heads = [self._headline()] if self._grammar.has("headline") else []
        heads += [" ".join(self._dated())] if self._dated_at() else []
        sections = self._grammar.lines.get("section", [])
        # Section headings count as words too: about one per 80 words.
        n_heads = sum(map(count, heads)) + (self._wanted // 80 if sections else 0)
        opening = self.opening()
        paragraphs = self._paragraphs(self._body(n_heads + sum(map(count, opening)), opening))
        if not sections:
            return "\n\n".join([*heads, *paragraphs])
        titles = [sections[place * len(sections) // len(paragraphs)] for place in range(len(paragraphs))]
        headed = [
            f"{title}\n{text}" if title not in titles[:place] else text
            for place, (title, text) in enumerate(zip(titles, paragraphs, strict=True))
        ]
        return "\n\n".join([*heads, *headed])

    def turns(self, opening: list[str], closing: bool) -> str:
        """Turns of a conversation, one per line."""
        names = self._speakers()
        last = self._last_speaker(names)
        units = self._body(sum(map(count, opening)), opening, per_unit=0.45, closing=closing)
        lines: list[str] = []
        place = 0
        while place < len(units):
            size = 1 + int(self._rng.random() * 3)
            others = [name for name in names if name != last] or names
            last = others[int(self._rng.random() * len(others))]
            lines.append(f"{last}: " + " ".join(units[place : place + size]))
            place += size
        return "\n".join(lines)

    def _body(self, used: int, opening: list[str], per_unit: float = 0.0, closing: bool = True) -> list[str]:
        """The opening, then the insights at random places among the filler, then the closing.

        `used`: words written already; `per_unit`: words of speakers' names, per sentence or insight.
        """
        end = [self._voice.say("close")] if closing and self._wanted > 60 else []
        left = self._wanted - used - sum(unit.words + per_unit for unit in self._stated) - sum(map(count, end))
        filler = self._filler(left, per_unit)
        units = list(filler)
        # From the last place to the first, so that insertions do not shift the places still to come.
        places = sorted((self._place(len(filler)) for _ in self._stated), reverse=True)
        for place, unit in zip(places, self._stated, strict=True):
            units.insert(place, unit.text)
        return [*opening, *units, *end]

    def _filler(self, left: float, per_unit: float) -> list[str]:
        """Sentences of about `left` words in all; those that are too long are skipped."""
        filler: list[str] = []
        misfits = 0
        while left > _SHORTEST and len(filler) < _MOST_FILLER and misfits < _MISFITS:
            of_topic = self._subject and self._rng.random() < _OF_THE_TOPIC
            sentence = self._voice.say("say_topic", self._subject) if of_topic else self._voice.say("say")
            if count(sentence) > left + _SHORTEST:
                misfits += 1
                continue
            filler.append(sentence)
            left -= count(sentence) + per_unit
        return filler

    def _place(self, n_filler: int) -> int:
        return int(self._rng.random() * (n_filler + 1))

    def _paragraphs(self, units: list[str]) -> list[str]:
        paragraphs, place = [], 0
        while place < len(units):
            size = 3 + int(self._rng.random() * 4)
            paragraphs.append(" ".join(units[place : place + size]))
            place += size
        return paragraphs

    def _headline(self) -> str:
        topic = self._shown
        return self._grammar.say(
            self._rng, "topic_headline" if topic and self._rng.random() < 0.5 else "headline", {"topic": topic}
        )

    def _topic(self) -> str:
        """The topic in one line, if it is short and gives no insight away; else empty."""
        topic = " ".join(self._given.words("topic", "").replace('"', "'").split()).rstrip(".!?:")
        words = words_of(topic)
        shown = words.facts | words.doubtful | (words.tokens & _NUMBER_WORDS)
        if not 0 < count(topic) <= _LONGEST_TOPIC:
            return ""
        return topic if self._silent(shown) else ""

    def _silent(self, tokens: frozenset[str]) -> bool:
        """Whether the tokens give away no insight of the document and none in `avoid`.

        They give an insight away if some are facts of it, unless these are all words of the topic and it has enough other facts.
        """
        if not tokens:
            return True
        topic = words_of(self._given.words("topic", "")).tokens
        for text in (*self._insights, *self._given.texts("avoid")):
            words = words_of(text)
            facts = words.facts | words.doubtful | (words.tokens & _NUMBER_WORDS)
            shared = tokens & facts
            if shared and not (shared <= topic and len(words.facts - topic) >= max(_OWN_FACTS, len(shared))):
                return False
        return True

    def _dated_at(self) -> str:
        return readable_date(self._given.words("date", ""))

    def _dated(self) -> list[str]:
        at = self._dated_at()
        return [self._voice.say("dated", {"date": at})] if at else []

    def _references(self) -> list[str]:
        parts = []
        for reference in self._given.objects("references"):
            fields = reference if isinstance(reference, dict) else {}
            at, headline = readable_date(str(fields.get("date") or "")), _quotable(str(fields.get("headline") or ""))
            words = words_of(headline)
            if headline and self._silent(words.facts | (words.tokens & _NUMBER_WORDS)):
                parts.append(self._voice.say("reference", {"date": at or "an earlier day", "headline": headline}))
            else:
                parts.append(self._voice.say("reference_plain", {"date": at or "an earlier day"}))
        return parts

    def _speakers(self) -> list[str]:
        names = [" ".join(name.split()) for name in self._given.texts("participants") if name.strip()]
        # The speakers of the chapters before continue.
        names = names or list(dict.fromkeys(filter(None, map(_name, self._given.words("before", "").splitlines()))))
        if names:
            return names
        taken = set().union(*(words_of(text).tokens for text in (*self._insights, *self._given.texts("avoid"))))
        free = [name for name in name_banks()["first"] if name.lower() not in taken]
        return self._rng.sample(free or list(name_banks()["first"]), 3)

    def _last_speaker(self, names: list[str]) -> str:
        lines = self._given.words("before", "").strip().splitlines()
        name = _name(lines[-1]) if lines else ""
        return name if name in names else ""


def _name(line: str) -> str:
    return speaker_of(line).rstrip(": ")


def _quotable(headline: str) -> str:
    """The first sentence of another document, fit for quotation: one line without speaker; empty if it is too long."""
    line = " ".join(headline.replace('"', "'").split())
    words = line[len(speaker_of(line)) :].rstrip(".").split()
    quote = " ".join(words) if 0 < len(words) <= _LONGEST_QUOTE else ""
    return quote + "." if quote and quote[-1] not in "!?…" else quote
