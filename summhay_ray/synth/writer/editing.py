"""Part of the synth room's writer: removes insights from a document and adds others. For the writer alone."""

from __future__ import annotations

from random import Random

from summhay_ray.synth.writer.documents import stated
from summhay_ray.synth.writer.prompts import Given
from summhay_ray.synth.writer.reading import Text
from summhay_ray.synth.writer.sentences import speaker_of, split_sentences, words_of

_ROUNDS = 4
"""Passages removed for one insight, beyond its evidence."""
_LEAST_FACTS = 0.5
"""Least share of an insight's facts in a sentence that is removed for lack of a better one."""
_LEAST_WORDS = 4
"""Least words of a sentence that counts as part of the evidence."""
_ENDS = tuple('.!?…"”’)')


def edit(given: Given, rng: Random) -> str:
    """The document without the sentences that state the insights in `remove`, and with those in `add`; the rest is unchanged."""
    lines = [_Line(line) for line in given.text("document").splitlines()]
    for entry in given.objects("remove"):
        fields = entry if isinstance(entry, dict) else {"text": entry}
        _remove(lines, str(fields.get("text") or ""), str(fields.get("evidence") or ""))
    for said in stated(given.texts("add"), given, rng):
        _add(lines, said, rng)
    return "\n".join(line.text for line in lines if not line.emptied)


class _Line:
    """A line of a document: its speaker, if it is a turn of a conversation, and its sentences."""

    def __init__(self, line: str) -> None:
        self.speaker = speaker_of(line)
        self.sentences = split_sentences(line[len(self.speaker) :])
        self._as_it_was, self._changed = line, False

    @property
    def emptied(self) -> bool:
        """Whether all its sentences were removed."""
        return self._changed and not self.sentences

    @property
    def is_prose(self) -> bool:
        """Whether it is a turn or a paragraph of several sentences, not a headline; the last sentence ends with punctuation."""
        long_enough = self.sentences and (self.speaker or len(self.sentences) >= 2)
        return bool(long_enough) and self.sentences[-1].endswith(_ENDS)

    @property
    def text(self) -> str:
        """The line in its current state."""
        return self.speaker + " ".join(self.sentences) if self._changed else self._as_it_was

    def keep(self, sentences: list[str]) -> None:
        """Replace the sentences by these."""
        self._changed = self._changed or sentences != self.sentences
        self.sentences = sentences


def _remove(lines: list[_Line], insight: str, evidence: str) -> None:
    """Drop the sentences that quote the evidence, then those in which `Text.find` still finds the insight.

    If there are none of either, sentences with half of the insight's facts are dropped.
    """
    shown = _joined(evidence)
    quoted = [(line, sentence) for line in lines for sentence in line.sentences if shown and _quotes(sentence, shown)]
    _drop(lines, {id(line): {sentence for other, sentence in quoted if other is line} for line, _ in quoted})
    for _ in range(_ROUNDS):
        places = [(line, sentence) for line in lines for sentence in line.sentences]
        match = Text([sentence for _, sentence in places]).find(insight)
        if match is None:
            break
        passage = places[match.first : match.last + 1]
        _drop(lines, {id(line): {sentence for other, sentence in passage if other is line} for line, _ in passage})
        quoted += passage
    if not quoted:
        _drop(lines, {id(line): {s for s in line.sentences if _tells(s, insight)} for line in lines})


def _drop(lines: list[_Line], unwanted: dict[int, set[str]]) -> None:
    for line in lines:
        gone = unwanted.get(id(line))
        if gone:
            line.keep([sentence for sentence in line.sentences if sentence not in gone])


def _joined(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .\"'…")


def _quotes(sentence: str, evidence: str) -> bool:
    """Whether one contains the other: evidence may be a part of a sentence, or several sentences.

    A sentence within the evidence must end with punctuation, so that a headline does not count.
    """
    plain = _joined(sentence)
    return evidence in plain or (plain in evidence and sentence.endswith(_ENDS) and len(plain.split()) >= _LEAST_WORDS)


def _tells(sentence: str, insight: str) -> bool:
    facts = words_of(insight).facts
    return bool(facts) and len(facts & words_of(sentence).tokens) >= max(1, _LEAST_FACTS * len(facts))


def _add(lines: list[_Line], said: str, rng: Random) -> None:
    """Add `said` at the end of a random turn or paragraph, where it separates no sentences; without any, as a new line."""
    rooms = [line for line in lines if line.is_prose]
    if not rooms:
        lines.append(_Line(said))
        return
    line = rooms[int(rng.random() * len(rooms))]
    line.keep([*line.sentences, said])
